/* SPDX-License-Identifier: BSD-3-Clause
 * The head of the page: the outcome in a line, its basis, the key numbers, and links to the sections.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "interpose/tagc-report/judge/codecs.h"
#include "interpose/tagc-report/judge/steps.h"
#include "interpose/tagc-report/read/merge.h"
#include "interpose/tagc-report/show/page.h"

/* The bytes that count: on several hosts, those between them. */
static double wire_of(const struct tagc_summary *summary, const struct tagc_sum_sent *sent) {
  return tagc_sum_hosts(summary) > 1 ? (double)sent->between : (double)tagc_sent_all(sent);
}

/* The same that all ranks sent, and would have sent plain. */
static double all_sent(const struct tagc_summary *summary, double *plain, uint64_t *calls) {
  double sent = *plain = 0;
  *calls = 0;
  for (size_t i = 0; i < summary->rank_count; i++) {
    sent += wire_of(summary, &summary->ranks[i].calls.sent);
    *plain += wire_of(summary, &summary->ranks[i].calls.plain);
    *calls += summary->ranks[i].calls.calls;
  }
  return sent;
}

static const char *to_hosts(const struct tagc_summary *summary) {
  return tagc_sum_hosts(summary) > 1 ? " to other hosts" : "";
}

static void put_unjudged(struct tagc_page *page) {
  const struct tagc_summary *summary = page->summary;
  double plain, sent = all_sent(summary, &plain, &(uint64_t){0});
  char ranks[64], bytes[32];
  tagc_page_count(summary->rank_count, "rank", ranks);
  if (!summary->rank_count)
    fputs("No trace could be read", page->file);
  else if (sent < 0.999 * plain)
    fprintf(page->file, "Compression saves %.1f%% of what %s %s%s", 100 * (1 - sent / plain), ranks,
            summary->rank_count == 1 ? "sends" : "send", to_hosts(summary));
  else
    fprintf(page->file, "%s sent %s%s", ranks, tagc_format_bytes(sent, bytes), to_hosts(summary));
}

static void put_headline(struct tagc_page *page) {
  const struct tagc_ab_result *ab = &page->ab;
  fputs("<h1>", page->file);
  switch (ab->figures.outcome) {
  case TAGC_AB_FASTER:
  case TAGC_AB_SLOWER:
    if (!tagc_ab_matters(ab))
      fputs("Compression changes the speed by too little to matter", page->file);
    else
      fprintf(page->file, "Compression %s: %.2f times as fast",
              ab->figures.outcome == TAGC_AB_FASTER ? "helps" : "does not help", ab->figures.speed);
    break;
  case TAGC_AB_EQUAL: fputs("Compression changes the speed by nothing that can be told from noise", page->file); break;
  case TAGC_AB_TOO_FEW: fputs("Too few windows for a verdict", page->file); break;
  default: put_unjudged(page);
  }
  fputs("</h1>\n", page->file);
}

/* Names the job: the program, when, where. */
static void put_job(struct tagc_page *page) {
  const struct tagc_summary *summary = page->summary;
  char ranks[64], hosts[64];
  const char *program = summary->rank_count ? summary->ranks[0].program : "";
  tagc_markup(page->file, "<p class=\"over\">%s%s%s on %s</p>\n", program, *program ? ", " : "",
              tagc_page_count(summary->rank_count, "rank", ranks),
              tagc_page_count(tagc_sum_hosts(summary), "host", hosts));
}

static void put_lead(struct tagc_page *page) { tagc_markup(page->file, "<p class=\"lead\">%s</p>\n", page->ab.words); }

/* -- key numbers --------------------------------------------------------------------------------------------------- */

static void put_key(struct tagc_page *page, const char *name, const char *value, const char *note) {
  tagc_markup(page->file, "<div><dt>%s</dt><dd>%s</dd>", name, value);
  if (*note)
    tagc_markup(page->file, "<dd>%s</dd>", note);
  fputs("</div>\n", page->file);
}

static void put_step_keys(struct tagc_page *page) {
  const struct tagc_ab_result *ab = &page->ab;
  char a[32], b[32], c[32], value[96], note[160];
  if (ab->figures.outcome != TAGC_AB_NONE) {
    snprintf(value, sizeof value, "%s \342\206\222 %s", tagc_page_ms(ab->figures.mean_ms[TAGC_SUM_PLAIN], a),
             tagc_page_ms(ab->figures.mean_ms[TAGC_SUM_COMPRESSED], b));
    snprintf(note, sizeof note, "plain \342\206\222 compressed, means of %zu and %zu steps",
             ab->figures.steps[TAGC_SUM_PLAIN], ab->figures.steps[TAGC_SUM_COMPRESSED]);
    put_key(page, "A step", value, note);
    if (ab->figures.pairs > 1 && isfinite(ab->figures.low_ms)) {
      snprintf(value, sizeof value, "%s%s", ab->figures.difference_ms > 0 ? "+" : "",
               tagc_page_ms(ab->figures.difference_ms, a));
      snprintf(note, sizeof note, "95%% interval %s to %s, %zu pairs of windows", tagc_page_ms(ab->figures.low_ms, b),
               tagc_page_ms(ab->figures.high_ms, c), ab->figures.pairs);
      put_key(page, "Compressed less plain", value, note);
    }
    return;
  }
  double sum = 0;
  size_t whole = 0;
  for (size_t i = 0; i < page->step_count; i++)
    if (page->steps[i].whole) {
      sum += page->steps[i].ms;
      whole++;
    }
  snprintf(note, sizeof note, "mean of %s whole steps", tagc_format_count((double)whole, b));
  if (whole)
    put_key(page, "A step", tagc_page_ms(sum / (double)whole, a), note);
}

/* TAGC_MODE=ab: what a rank sends in a step of either side. */
static void put_sides_key(struct tagc_page *page, const char *name, double plain, double packed) {
  char a[32], b[32], value[96], note[160] = "plain \342\206\222 compressed";
  snprintf(value, sizeof value, "%s \342\206\222 %s", tagc_format_bytes(plain, a), tagc_format_bytes(packed, b));
  if (plain > 0 && packed > 0)
    snprintf(note, sizeof note, "plain \342\206\222 compressed: %.2f times %s",
             plain > packed ? plain / packed : packed / plain, plain >= packed ? "less" : "more");
  put_key(page, name, value, note);
}

static void put_sent_keys(struct tagc_page *page) {
  const struct tagc_summary *summary = page->summary;
  const struct tagc_sum_sent *sides = page->ab.sent;
  const bool apart = tagc_sum_hosts(summary) > 1;
  char a[32], b[32], c[64], note[160];
  if (page->ab.figures.outcome != TAGC_AB_NONE) {
    put_sides_key(page, apart ? "Sent by a rank to other hosts in a step" : "Sent by a rank in a step",
                  wire_of(summary, &sides[TAGC_SUM_PLAIN]), wire_of(summary, &sides[TAGC_SUM_COMPRESSED]));
    if (apart && sides[TAGC_SUM_PLAIN].inside + sides[TAGC_SUM_COMPRESSED].inside > 0)
      put_sides_key(page, "And inside its host", (double)sides[TAGC_SUM_PLAIN].inside,
                    (double)sides[TAGC_SUM_COMPRESSED].inside);
  }
  double plain, sent;
  uint64_t calls;
  sent = all_sent(summary, &plain, &calls);
  snprintf(note, sizeof note, "in %s by all ranks%s", tagc_page_count(calls, "call", c),
           sent < plain ? "" : ", all of it plain");
  if (sent < plain)
    snprintf(note, sizeof note, "in %s; %s, had all been plain", tagc_page_count(calls, "call", c),
             tagc_format_bytes(plain, b));
  put_key(page, apart ? "Sent to other hosts in the whole run" : "Sent in the whole run", tagc_format_bytes(sent, a),
          note);
}

/* The share of a step in which the program waits for the network; its upper bound if calls only enqueue. Nothing if the
 * times of many calls are unknown. */
static void put_wait_key(struct tagc_page *page) {
  double step = 0, exposed = 0;
  size_t ranks = 0;
  for (size_t i = 0; i < page->summary->rank_count; i++) {
    const struct tagc_straggler_rank *rank = &page->stragglers.ranks[i];
    double waits = page->stragglers.exposed_known  ? rank->exposed_ms
                   : rank->wire_ms < rank->step_ms ? rank->wire_ms
                                                   : rank->step_ms;
    if (!(rank->step_ms > 0) || isnan(rank->wire_ms) || isnan(waits) || rank->wire_least)
      continue;
    step += rank->step_ms;
    exposed += waits;
    ranks++;
  }
  if (!ranks)
    return;
  char value[96], note[160], a[32];
  snprintf(value, sizeof value, page->stragglers.exposed_known ? "%.0f%%" : "up to %.0f%%", 100 * exposed / step);
  snprintf(note, sizeof note, "of a step: %s, mean of the ranks", tagc_page_ms(exposed / (double)ranks, a));
  put_key(page, "Waiting for the network", value, note);
}

static void put_error_key(struct tagc_page *page) {
  const struct tagc_sum_slot *worst = NULL;
  double most = -1;
  for (size_t i = 0; i < page->summary->comm_count; i++)
    for (size_t j = 0; j < page->summary->comms[i].slot_count; j++) {
      const struct tagc_sum_slot *slot = &page->summary->comms[i].slots[j];
      const double error = slot->point_count ? slot->points[slot->point_count - 1].error : NAN;
      if (isfinite(error) && error > most) {
        worst = slot;
        most = error;
      }
    }
  if (!worst)
    return;
  char value[96], note[160];
  snprintf(value, sizeof value, most < 0.01 ? "%.3f%%" : "%.1f%%", 100 * most);
  snprintf(note, sizeof note, "of one encoding by %s, in %s", worst->codec, worst->name);
  put_key(page, "Largest error, last sample", value, note);
}

/* The hidden part of encoding and decoding, if any. */
static void put_hidden_key(struct tagc_page *page) {
  struct tagc_sum_calls all = {0};
  char value[16], note[96], ms[32];
  for (size_t i = 0; i < page->summary->rank_count; i++)
    tagc_sum_add_calls(&all, &page->summary->ranks[i].calls);
  if (!all.hidden_ns || !all.packed_wire_calls)
    return;
  snprintf(value, sizeof value, "%.0f%%", 100 * tagc_hidden_share(&all));
  snprintf(note, sizeof note, "of %s in a compressed call",
           tagc_page_ms(tagc_ms(((double)all.encode_ns + (double)all.decode_ns) / (double)all.packed_wire_calls), ms));
  put_key(page, "Encoding and decoding hidden", value, note);
}

static void put_problems(struct tagc_page *page) {
  const struct tagc_summary *summary = page->summary;
  if (!summary->problem_count)
    return;
  char problems[64];
  fprintf(page->file, "<div class=\"alert\" role=\"note\"><strong>The traces have %s</strong><ul>\n",
          tagc_page_count(summary->problem_count, "problem", problems));
  for (size_t i = 0; i < summary->problem_count && i < 3; i++)
    tagc_markup(page->file, "<li>%s</li>\n", summary->problems[i]);
  if (summary->problem_count > 3)
    fputs("<li><a href=\"#files\">and more</a></li>\n", page->file);
  fputs("</ul></div>\n", page->file);
}

void tagc_page_head(struct tagc_page *page) {
  static const char *const sections[][2] = {
    {"timeline", "One step"},   {"steps", "Step times"},     {"layers", "Layers"}, {"codecs", "Codecs"},
    {"losses", "Losses"},       {"sizes", "Sizes of calls"}, {"volume", "Volume"}, {"savings", "Savings"},
    {"comms", "Communicators"}, {"ranks", "Ranks"},          {"files", "Files"},
  };
  fputs("<header>\n", page->file);
  put_job(page);
  put_headline(page);
  put_lead(page);
  put_problems(page);
  fputs("<dl class=\"keys\">\n", page->file);
  put_step_keys(page);
  put_sent_keys(page);
  put_wait_key(page);
  put_hidden_key(page);
  put_error_key(page);
  fputs("</dl>\n<nav aria-label=\"Sections\"><ul>\n", page->file);
  for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
    fprintf(page->file, "<li><a href=\"#%s\">%s</a></li>\n", sections[i][0], sections[i][1]);
  fputs("</ul></nav>\n</header>\n<main id=\"main\">\n", page->file);
}
