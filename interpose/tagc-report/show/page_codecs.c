/* SPDX-License-Identifier: BSD-3-Clause
 * The section on codecs: their work, their changes, and possible further savings.
 */
#include <math.h>
#include <string.h>

#include "interpose/tagc-report/judge/advice.h"
#include "interpose/tagc-report/judge/codecs.h"
#include "interpose/tagc-report/judge/steps.h"
#include "interpose/tagc-report/read/merge.h"
#include "interpose/tagc-report/show/page.h"

enum { VOTES = 100 };

static void put_codec(struct tagc_page *page, const struct tagc_codec_sum *sum) {
  const struct tagc_sum_calls *c = &sum->calls;
  const double n = c->packed_wire_calls ? (double)c->packed_wire_calls : NAN;
  const double plain = (double)tagc_sent_all(&c->plain), sent = (double)tagc_sent_all(&c->sent);
  char text[16];
  tagc_row_begin(page, sum->function);
  tagc_cell_text(page, sum->codec);
  tagc_cell_number(page, sum->slots);
  tagc_cell_number(page, c->calls);
  tagc_cell_number(page, c->compressed);
  tagc_cell(page, "%s", tagc_format_bytes(plain, text));
  tagc_cell(page, "%s", tagc_format_bytes(sent, text));
  tagc_cell_real(page, 1 / tagc_packed_ratio(plain, sent, c), 2);
  tagc_cell_real(page, tagc_ms((double)c->encode_ns / n), 3);
  tagc_cell_real(page, tagc_ms((double)c->packed_wire_ns / n), 3);
  tagc_cell_real(page, tagc_ms((double)c->decode_ns / n), 3);
  tagc_cell_real(page, 100 * tagc_hidden_share(c), 0);
  tagc_row_end(page);
}

static void put_codec_rows(struct tagc_page *page, const struct tagc_codec_sum *sums, size_t count) {
  const struct tagc_codec_sum all = tagc_codecs_all(sums, count);
  tagc_table_begin(
    page, "Codecs, on all ranks; times are means of compressed calls",
    "Call|Codec|>Slots|>Calls|>Compressed|>Plain|>Sent|>Times less|>Encode, ms|>Wire, ms|>Decode, ms|>Hidden, %",
    false);
  for (size_t i = 0; i < count; i++)
    put_codec(page, &sums[i]);
  if (count > 1)
    put_codec(page, &all);
  tagc_table_end(page);
}

static void put_vote_rows(struct tagc_page *page, const struct tagc_sum_comm *comm) {
  size_t all = 0, told = 0;
  for (size_t i = 0; i < comm->vote_count; i++)
    all += comm->votes[i].lock == comm->last_lock;
  if (all < 2)
    return;
  tagc_table_begin(page, "When codecs were chosen", ">Cycle|Slots|All-gathers|Why", true);
  for (size_t i = 0; i < comm->vote_count && told < VOTES; i++) {
    const struct tagc_sum_vote *vote = &comm->votes[i];
    char cycle[32], slots[TAGC_CODECS_TEXT], allgathers[TAGC_CODECS_TEXT];
    if (vote->lock != comm->last_lock)
      continue;
    tagc_codecs_at(comm->slots, comm->slot_count, vote, slots);
    tagc_codecs_at(comm->allgathers, comm->allgather_count, vote, allgathers);
    tagc_row_begin(page, tagc_format_count((double)vote->cycle, cycle));
    tagc_cell_text(page, slots);
    tagc_cell_text(page, allgathers);
    tagc_cell_text(page, vote->why);
    tagc_row_end(page);
    told++;
  }
  tagc_table_end(page);
}

void tagc_page_codecs(struct tagc_page *page) {
  struct tagc_codec_sum sums[TAGC_CODEC_SUMS];
  const size_t count = tagc_codecs_sum(page->summary, sums);
  tagc_page_section(
    page, "codecs", "Codecs",
    "Hidden is the part of encoding and decoding that is done while the transfer of the same call is under "
    "way, and so takes no time of its own.");
  if (count)
    put_codec_rows(page, sums, count);
  else
    tagc_page_nothing(
      page, "Nothing was compressed.",
      "<code>TAGC_MODE=compress</code> or <code>ab</code> does; the table of layers tells why calls stay plain.");
  for (size_t i = 0; i < page->summary->comm_count; i++)
    put_vote_rows(page, &page->summary->comms[i]);
  tagc_page_section_end(page);
}

void tagc_page_savings(struct tagc_page *page) {
  struct tagc_advice advice;
  tagc_advice_make(page->summary, &advice);
  tagc_page_section(page, "savings", "What could still be saved", "");
  if (!advice.count)
    tagc_page_nothing(page, "Nothing that these traces show.", "");
  for (size_t i = 0; i < advice.count; i++)
    tagc_markup(page->file, "<p>%s</p>\n", advice.text[i]);
  tagc_page_section_end(page);
}
