/* SPDX-License-Identifier: BSD-3-Clause
 * The page of tagc-report --html (html.h): shared by its parts. Each page_*.c writes some sections, in the order below.
 */
#ifndef INTERPOSE_TAGC_REPORT_SHOW_PAGE_H
#define INTERPOSE_TAGC_REPORT_SHOW_PAGE_H

#include <stdio.h>

#include "env/program/markup.h"
#include "interpose/tagc-report/judge/ab_compare.h"
#include "interpose/tagc-report/judge/stragglers.h"
#include "interpose/tagc-report/judge/volume.h"
#include "interpose/tagc-report/read/format.h"
#include "interpose/tagc-report/read/summary.h"

/* A step of the job: means over the ranks that have it. */
struct tagc_page_step {
  uint32_t lock;
  uint64_t cycle;
  enum tagc_sum_side side;
  bool whole; /* on all of these ranks */
  double ms, sent, plain;
};

struct tagc_page {
  FILE *file;
  const struct tagc_summary *summary;
  const struct tagc_volume_facts *facts;
  struct tagc_ab_result ab;
  struct tagc_stragglers stragglers;
  struct tagc_page_step *steps; /* in order */
  size_t step_count;
  bool wide, folded; /* of the open figure and the open table */
};

enum { TAGC_PAGE_WIDTH = 920 }; /* of wide pictures, in their own units */

/* -- texts --------------------------------------------------------------------------------------------------------- */

/* Milliseconds with as many digits as are useful; returns `text`. */
const char *tagc_page_ms(double ms, char text[32]);
/* "1 rank", "4 ranks" */
const char *tagc_page_count(uint64_t number, const char *noun, char text[64]);
/* The colour class of a function, by its name without "nccl". */
const char *tagc_page_class(const char *function);
/* Explains an empty section: why, and what to do. Both are the program's own words. */
void tagc_page_nothing(struct tagc_page *page, const char *why, const char *what_to_do);

/* -- sections, figures, tables ------------------------------------------------------------------------------------- */

/* `intro`: the program's own HTML. */
void tagc_page_section(struct tagc_page *page, const char *id, const char *title, const char *intro);
void tagc_page_section_end(struct tagc_page *page);

/* Begins a picture; `description` replaces it for the blind. One of TAGC_PAGE_WIDTH scrolls in a narrow window. */
void tagc_figure_begin(struct tagc_page *page, const char *id, const char *title, const char *description, double width,
                       double height);
void tagc_figure_end(struct tagc_page *page);

/* Begins a table; `heads`: column names, separated by '|', with a leading '>' for numbers. A click unfolds it. */
void tagc_table_begin(struct tagc_page *page, const char *caption, const char *heads, bool folded);
void tagc_table_end(struct tagc_page *page);
/* Begins a row; its first cell is the row's heading. `text` may hold anything. */
void tagc_row_begin(struct tagc_page *page, const char *text);
void tagc_row_end(struct tagc_page *page);
void tagc_cell_text(struct tagc_page *page, const char *text);
__attribute__((format(printf, 2, 3))) void tagc_cell(struct tagc_page *page, const char *format, ...);
void tagc_cell_number(struct tagc_page *page, uint64_t number);
/* `digits` behind the point; a dash for NaN and infinities. */
void tagc_cell_real(struct tagc_page *page, double number, int digits);

/* -- the parts of the page ----------------------------------------------------------------------------------------- */

void tagc_page_style(FILE *file);
void tagc_page_head(struct tagc_page *page);     /* the outcome, and the key numbers */
bool tagc_page_timeline(struct tagc_page *page); /* false: no memory */
void tagc_page_steps(struct tagc_page *page);
bool tagc_page_layers(struct tagc_page *page);
void tagc_page_codecs(struct tagc_page *page);
bool tagc_page_losses(struct tagc_page *page);
bool tagc_page_sizes(struct tagc_page *page);
bool tagc_page_volume(struct tagc_page *page);
void tagc_page_savings(struct tagc_page *page);
void tagc_page_comms(struct tagc_page *page);
void tagc_page_ranks(struct tagc_page *page);
void tagc_page_files(struct tagc_page *page);

#endif
