/* SPDX-License-Identifier: BSD-3-Clause
 * The broadcasts in the report at exit.
 */
#include <inttypes.h>
#include <stdio.h>

#include "env/log.h"
#include "env/units.h"
#include "interpose/stats/exit_report.h"

static double ms_a_call(double ms, const struct tagc_ledger_times *times) {
  return times->calls ? ms / (double)times->calls : 0;
}

void tagc_report_broadcasts(const struct tagc_ledger *ledger) {
  const struct tagc_ledger_row *row = &ledger->broadcasts;
  const struct tagc_ledger_times *times = &ledger->broadcast_times;
  const uint64_t plain_bytes = tagc_report_wire(ledger, &row->plain), wire_bytes = tagc_report_wire(ledger, &row->sent);
  char plain[16], wire[16], memory[16];
  if (!ledger->broadcast_codec || !row->calls)
    return;
  tagc_say("  %" PRIu64 " of %" PRIu64 " broadcasts compressed (%s), %" PRIu64
           " kept as references (%s): plain %s, wire %s, ratio %.3f",
           row->compressed, row->calls, ledger->broadcast_codec, row->allgather.refreshed,
           tagc_units_bytes(row->residual_bytes, memory), tagc_units_bytes(plain_bytes, plain),
           tagc_units_bytes(wire_bytes, wire), tagc_report_ratio(wire_bytes, plain_bytes));
  for (int i = 0; i < TAGC_REASON_COUNT; i++) {
    const enum tagc_reason reason = (enum tagc_reason)i;
    const char *advice = tagc_reason_advice(reason);
    if (ledger->broadcast_reasons[reason] && reason != TAGC_REASON_compressed)
      tagc_say("  %7" PRIu64 " not compressed: %s%s%s", ledger->broadcast_reasons[reason], tagc_reason_words(reason),
               *advice ? ": " : "", advice);
  }
  if (times->calls)
    tagc_say("  a broadcast: encode %.3f ms, exchange %.3f ms, decode %.3f ms", ms_a_call(times->encode_ms, times),
             ms_a_call(times->exchange_ms, times), ms_a_call(times->decode_ms, times));
}

const char *tagc_report_broadcasts_words(const struct tagc_ledger *ledger, char text[256]) {
  const struct tagc_ledger_row *row = &ledger->broadcasts;
  *text = '\0';
  if (ledger->broadcast_codec)
    snprintf(text, 256,
             " broadcast=%s broadcasts=%" PRIu64 " broadcasts_compressed=%" PRIu64 " broadcasts_kept=%" PRIu64
             " broadcast_wire_bytes=%" PRIu64 " broadcast_plain_bytes=%" PRIu64,
             ledger->broadcast_codec, row->calls, row->compressed, row->allgather.refreshed,
             row->sent.inside + row->sent.between, row->plain.inside + row->plain.between);
  return text;
}
