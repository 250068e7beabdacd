/* SPDX-License-Identifier: BSD-3-Clause
 * The page of tagc-report --html as a whole; see html.h. Its sections are in page_*.c.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/tagc-report/judge/steps.h"
#include "interpose/tagc-report/show/html.h"
#include "interpose/tagc-report/show/page.h"

/* -- steps of the job ---------------------------------------------------------------------------------------------- */

static void add_step(struct tagc_page_step *to, const struct tagc_sum_step *step) {
  to->whole &= step->whole;
  to->ms += tagc_ms((double)step->ns);
  to->sent += (double)tagc_sent_all(&step->sent);
  to->plain += (double)tagc_sent_all(&step->plain);
}

/* False: no memory. */
static bool make_steps(struct tagc_page *page) {
  size_t count, same;
  struct tagc_rank_step *all = tagc_steps_sorted(page->summary, &count);
  page->steps = all ? calloc(count + 1, sizeof *page->steps) : NULL;
  for (size_t i = 0; page->steps && i < count; i += same) {
    same = tagc_steps_same(&all[i], count - i);
    struct tagc_page_step *step = &page->steps[page->step_count++];
    *step = (struct tagc_page_step){
      .lock = all[i].step->lock, .cycle = all[i].step->cycle, .side = all[i].step->side, .whole = true};
    for (size_t j = i; j < i + same; j++)
      add_step(step, all[j].step);
    step->ms /= (double)same;
    step->sent /= (double)same;
    step->plain /= (double)same;
  }
  bool made = page->steps || !count;
  free(all);
  return made;
}

/* -- the page ------------------------------------------------------------------------------------------------------ */

static void begin_page(struct tagc_page *page) {
  fputs(
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>",
    page->file);
  const struct tagc_summary *summary = page->summary;
  if (summary->rank_count && *summary->ranks[0].program) {
    const char *slash = strrchr(summary->ranks[0].program, '/');
    tagc_markup(page->file, "%s: ", slash && slash[1] ? slash + 1 : summary->ranks[0].program);
  }
  fputs("what its network does, by tagc-report</title>\n", page->file);
  tagc_page_style(page->file);
  fputs("</head>\n<body>\n<a class=\"skip\" href=\"#main\">To the figures</a>\n", page->file);
}

static void end_page(struct tagc_page *page) {
  fputs(
    "</main>\n<footer>\n<h2>Words</h2>\n<dl>\n"
    "<dt>Step</dt><dd>A cycle of the calls of the main communicator; whole, if it went undisturbed and all of its "
    "calls are in the trace. "
    "Only whole steps are measured.</dd>\n"
    "<dt>Sent</dt><dd>What a rank sends by the algorithms that NCCL uses; a plain call is one that travels as the "
    "program made it.</dd>\n"
    "<dt>Error</dt><dd>|what arrives \342\210\222 what was to be sent| / |what was to be sent|, of one encoding.</dd>\n"
    "<dt>Residual</dt><dd>What a rank has not sent yet, and sends with later calls.</dd>\n</dl>\n<p>Written by "
    "tagc-report",
    page->file);
  if (page->summary->rank_count && *page->summary->ranks[0].version)
    tagc_markup(page->file, " from traces of tagc %s", page->summary->ranks[0].version);
  fputs(". This page is one file and loads nothing.</p>\n</footer>\n</body>\n</html>\n", page->file);
}

static bool write_page(struct tagc_page *page) {
  begin_page(page);
  tagc_page_head(page);
  if (!tagc_page_timeline(page))
    return false;
  tagc_page_steps(page);
  if (!tagc_page_layers(page))
    return false;
  tagc_page_codecs(page);
  bool whole = tagc_page_losses(page) && tagc_page_sizes(page) && tagc_page_volume(page);
  tagc_page_savings(page);
  tagc_page_comms(page);
  tagc_page_ranks(page);
  tagc_page_files(page);
  end_page(page);
  return whole;
}

bool tagc_html_write(const struct tagc_summary *summary, const struct tagc_volume_facts *facts, FILE *file) {
  static const struct tagc_volume_facts nothing;
  struct tagc_page page = {.file = file, .summary = summary, .facts = facts ? facts : &nothing};
  tagc_ab_compare(summary, &page.ab);
  bool done = tagc_stragglers_find(summary, &page.stragglers) && make_steps(&page) && write_page(&page);
  free(page.steps);
  tagc_stragglers_free(&page.stragglers);
  return done;
}
