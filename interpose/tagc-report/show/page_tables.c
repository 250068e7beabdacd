/* SPDX-License-Identifier: BSD-3-Clause
 * The sections that are only tables: volumes against formulas, communicators, ranks, files.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/tagc-report/show/page.h"

enum { RANKS = 256, COMMS = 100 };

/* "communicator 0", as in the log; one that the log lacks has its place in this table. */
static const char *comm_name(const struct tagc_summary *summary, size_t comm, char text[48]) {
  if (summary->comms[comm].number == UINT32_MAX)
    snprintf(text, 48, "not in the log, %zu", comm + 1);
  else
    snprintf(text, 48, "%" PRIu32, summary->comms[comm].number);
  return text;
}

static void put_check_rows(struct tagc_page *page, const struct tagc_volume_check *checks, size_t count) {
  tagc_table_begin(page, "Bytes that a rank sends in a step",
                   "What|Communicator|Formula|>Expected, bytes|>Measured, bytes|>Deviation|What it means", false);
  for (size_t i = 0; i < count; i++) {
    const struct tagc_volume_check *check = &checks[i];
    char name[48];
    tagc_row_begin(page, check->what);
    tagc_cell_text(page, comm_name(page->summary, check->comm, name));
    tagc_cell_text(page, check->formula);
    isnan(check->expected) ? tagc_cell_real(page, NAN, 0) : tagc_cell_number(page, (uint64_t)llround(check->expected));
    isnan(check->measured) ? tagc_cell_real(page, NAN, 0) : tagc_cell_number(page, (uint64_t)llround(check->measured));
    if (isnan(check->deviation))
      tagc_cell_real(page, NAN, 0);
    else if (check->deviation == 0)
      tagc_cell(page, "none");
    else
      tagc_cell(page, "%+.3g%%", 100 * check->deviation);
    tagc_cell_text(page, check->words);
    tagc_row_end(page);
  }
  tagc_table_end(page);
}

bool tagc_page_volume(struct tagc_page *page) {
  size_t count = tagc_volume_checks(page->summary, page->facts, NULL, 0);
  struct tagc_volume_check *checks = calloc(count + 1, sizeof *checks);
  if (!checks)
    return false;
  tagc_volume_checks(page->summary, page->facts, checks, count);
  tagc_page_section(page, "volume", "Volume against formulas",
                    "What the plain calls of a step send, held against what the kind of parallelism says.");
  if (count)
    put_check_rows(page, checks, count);
  else
    tagc_page_nothing(
      page, "Nothing here can be checked: no communicator has whole steps and a known role.",
      "Trace at least a few steps, or tell what is known of the model (<code>tagc-report --help</code>).");
  tagc_page_section_end(page);
  free(checks);
  return true;
}

/* -- communicators ------------------------------------------------------------------------------------------------- */

static void put_comm_row(struct tagc_page *page, size_t at) {
  const struct tagc_sum_comm *comm = &page->summary->comms[at];
  char name[48], text[16];
  tagc_row_begin(page, comm_name(page->summary, at, name));
  tagc_cell_text(page, tagc_role_words(comm->role));
  comm->nranks < 0 ? tagc_cell(page, "?") : tagc_cell_number(page, (uint64_t)comm->nranks);
  comm->hosts ? tagc_cell_number(page, comm->hosts) : tagc_cell(page, "?");
  tagc_cell_number(page, comm->calls.calls);
  tagc_cell_number(page, comm->calls.compressed);
  tagc_cell(page, "%s", tagc_format_bytes((double)comm->calls.raw_bytes, text));
  tagc_cell(page, "%s", tagc_format_bytes((double)comm->calls.sent.inside, text));
  tagc_cell(page, "%s", tagc_format_bytes((double)comm->calls.sent.between, text));
  tagc_cell_number(page, comm->calls.failed);
  tagc_cell_text(page, comm->role_grounds ? comm->role_grounds : "");
  tagc_row_end(page);
}

/* Writes the reasons for the main communicator's reduce-scatters, the most frequent first. */
static void put_reason_rows(struct tagc_page *page) {
  if (!page->summary->has_main)
    return;
  uint64_t left[256];
  memcpy(left, page->summary->comms[0].reasons, sizeof left);
  tagc_table_begin(page, "Reduce-scatters of the main communicator, by why they went the way they went",
                   "Reason|>Calls of all ranks", false);
  for (;;) {
    size_t most = 0;
    for (size_t i = 1; i < 256; i++)
      if (left[i] > left[most])
        most = i;
    if (!left[most])
      break;
    tagc_row_begin(page, tagc_sum_name(page->summary, TAGC_TRACE_REASONS, (uint16_t)most));
    tagc_cell_number(page, left[most]);
    tagc_row_end(page);
    left[most] = 0;
  }
  tagc_table_end(page);
}

void tagc_page_comms(struct tagc_page *page) {
  const struct tagc_summary *summary = page->summary;
  tagc_page_section(page, "comms", "Communicators", "What each is for is told by the pattern of its calls.");
  if (!summary->comm_count)
    tagc_page_nothing(page, "No communicator is in these traces.",
                      "They come with the first ncclCommInit of the program.");
  else {
    tagc_table_begin(page, "Communicators, the main one first; numbers of all ranks",
                     "Number|Role|>Ranks|>Hosts|>Calls|>Compressed|>Send buffers|>Sent inside hosts|>Sent between "
                     "hosts|>Failed|Why this role",
                     false);
    for (size_t i = 0; i < summary->comm_count && i < COMMS; i++)
      put_comm_row(page, i);
    tagc_table_end(page);
    if (summary->comm_count > COMMS)
      fprintf(page->file, "<p class=\"faint\">And %zu more.</p>\n", summary->comm_count - COMMS);
    put_reason_rows(page);
  }
  tagc_page_section_end(page);
}

/* -- ranks --------------------------------------------------------------------------------------------------------- */

/* Did NCCL's profiler see anything of a rank? */
static bool is_profiled(const struct tagc_page *page) {
  for (size_t i = 0; page->stragglers.ranks && i < page->summary->rank_count; i++)
    if (!isnan(page->stragglers.ranks[i].network_ms))
      return true;
  return false;
}

static void put_rank_row(struct tagc_page *page, size_t at) {
  const struct tagc_sum_rank *rank = &page->summary->ranks[at];
  const struct tagc_straggler_rank *stragglers = &page->stragglers.ranks[at];
  char name[32], sent[16];
  snprintf(name, sizeof name, "%d%s", rank->number, at == page->stragglers.slowest ? ", slowest" : "");
  tagc_row_begin(page, name);
  tagc_cell_text(page, rank->host);
  tagc_cell(page, "%" PRId32, rank->pid);
  tagc_cell_number(page, rank->calls.calls);
  tagc_cell(page, "%s", tagc_format_bytes((double)tagc_sent_all(&rank->calls.sent), sent));
  tagc_cell_number(page, stragglers->steps);
  tagc_cell_real(page, stragglers->step_ms, 2);
  tagc_cell_real(page, stragglers->outside_ms, 2);
  tagc_cell_real(page, stragglers->in_calls_ms, 2);
  tagc_cell_real(page, stragglers->exposed_ms, 2);
  tagc_cell_real(page, stragglers->hidden_ms, 2);
  tagc_cell_real(page, 100 * stragglers->slowest_share, 0);
  if (is_profiled(page)) {
    tagc_cell_real(page, stragglers->wire_ms, 2);
    tagc_cell_real(page, stragglers->network_ms, 2);
    tagc_cell(page, "%s", isnan(stragglers->network_bytes) ? "" : tagc_format_bytes(stragglers->network_bytes, sent));
  }
  tagc_row_end(page);
}

void tagc_page_ranks(struct tagc_page *page) {
  const struct tagc_summary *summary = page->summary;
  tagc_page_section(page, "ranks", "Ranks", "");
  if (*page->stragglers.words)
    tagc_markup(page->file, "<p>%s</p>\n", page->stragglers.words);
  if (!summary->rank_count)
    tagc_page_nothing(page, "No rank has a trace that can be read.", "The files below say why.");
  else {
    char head[256];
    snprintf(head, sizeof head,
             "Rank|Host|>Process|>Calls|>Sent|>Steps|>Step|>Outside of calls|>In calls|>%s|>Hidden|>Waited for, %% of "
             "steps%s",
             page->stragglers.exposed_known ? "Exposed" : "Exposed at most",
             is_profiled(page) ? "|>NCCL's kernels|>Network sends|>By network" : "");
    tagc_table_begin(page, "Where the time of a step goes, rank by rank: means of whole steps, in ms", head, false);
    for (size_t i = 0; i < summary->rank_count && i < RANKS; i++)
      put_rank_row(page, i);
    tagc_table_end(page);
    if (summary->rank_count > RANKS)
      fprintf(page->file, "<p class=\"faint\">And %zu more.</p>\n", summary->rank_count - RANKS);
  }
  tagc_page_section_end(page);
}

/* -- files --------------------------------------------------------------------------------------------------------- */

static void put_options(struct tagc_page *page) {
  const char *options = page->summary->rank_count ? page->summary->ranks[0].options : NULL;
  if (!options || !*options)
    return;
  fputs("<details><summary>Options of the library, of the first rank</summary>\n<pre class=\"wide\" tabindex=\"0\">",
        page->file);
  for (const char *line = options; *line;) {
    size_t length = strcspn(line, "\n");
    char text[512];
    snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text - 1), line);
    tagc_markup(page->file, "%s\n", text);
    line += length + (line[length] == '\n');
  }
  fputs("</pre></details>\n", page->file);
}

void tagc_page_files(struct tagc_page *page) {
  const struct tagc_summary *summary = page->summary;
  tagc_page_section(page, "files", "Files", "");
  if (!summary->problem_count)
    fputs("<p>All files are whole, and nothing was lost.</p>\n", page->file);
  else {
    fputs("<ul>\n", page->file);
    for (size_t i = 0; i < summary->problem_count; i++)
      tagc_markup(page->file, "<li>%s</li>\n", summary->problems[i]);
    fputs("</ul>\n", page->file);
  }
  if (summary->rank_count) {
    tagc_table_begin(page, "Traces", "File|>Rank|>Bytes|>Records|>Damaged chunks|>Dropped by the process|State", true);
    for (size_t i = 0; i < summary->rank_count && i < RANKS; i++) {
      const struct tagc_sum_rank *rank = &summary->ranks[i];
      tagc_row_begin(page, rank->path);
      tagc_cell(page, "%d", rank->number);
      tagc_cell_number(page, rank->health.bytes);
      tagc_cell_number(page, rank->health.records);
      tagc_cell_number(page, rank->health.damaged_chunks);
      tagc_cell_number(page, rank->health.dropped);
      tagc_cell_text(page, rank->health.cut       ? "cut short"
                           : rank->health.bounded ? "as long as it might be (TAGC_TRACE_MAX)"
                           : rank->health.ended   ? "ended in order"
                                                  : "the process did not end in order");
      tagc_row_end(page);
    }
    tagc_table_end(page);
  }
  put_options(page);
  tagc_page_section_end(page);
}
