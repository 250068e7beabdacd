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
  const struct tagc_ledger_broadcasts *b = ledger->broadcasts;
  char plain[16], wire[16], memory[16];
  if (!b || !b->calls)
    return;
  const uint64_t plain_bytes = tagc_report_wire(ledger, &b->plain), wire_bytes = tagc_report_wire(ledger, &b->sent);
  tagc_say("  %" PRIu64 " of %" PRIu64 " broadcasts compressed (%s), %" PRIu64
           " kept as references (%s): plain %s, wire %s, ratio %.3f",
           b->compressed, b->calls, b->codec, b->kept, tagc_units_bytes(b->reference_bytes, memory),
           tagc_units_bytes(plain_bytes, plain), tagc_units_bytes(wire_bytes, wire),
           tagc_report_ratio(wire_bytes, plain_bytes));
  for (int i = 0; i < TAGC_REASON_COUNT; i++) {
    const enum tagc_reason reason = (enum tagc_reason)i;
    const char *advice = tagc_reason_advice(reason);
    if (b->reasons[reason] && reason != TAGC_REASON_compressed)
      tagc_say("  %7" PRIu64 " not compressed: %s%s%s", b->reasons[reason], tagc_reason_words(reason),
               *advice ? ": " : "", advice);
  }
  if (b->times.calls)
    tagc_say("  a broadcast: encode %.3f ms, exchange %.3f ms, decode %.3f ms",
             ms_a_call(b->times.encode_ms, &b->times), ms_a_call(b->times.exchange_ms, &b->times),
             ms_a_call(b->times.decode_ms, &b->times));
}

const char *tagc_report_broadcasts_words(const struct tagc_ledger *ledger, char text[256]) {
  const struct tagc_ledger_broadcasts *b = ledger->broadcasts;
  *text = '\0';
  if (b)
    snprintf(text, 256,
             " broadcast=%s broadcasts=%" PRIu64 " broadcasts_compressed=%" PRIu64 " broadcasts_kept=%" PRIu64
             " broadcast_wire_bytes=%" PRIu64 " broadcast_plain_bytes=%" PRIu64,
             b->codec, b->calls, b->compressed, b->kept, b->sent.inside + b->sent.between,
             b->plain.inside + b->plain.between);
  return text;
}
