/* SPDX-License-Identifier: BSD-3-Clause
 * What the report at exit says where nothing was compressed: nobody should have to guess why.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "env/log.h"
#include "env/units.h"
#include "interpose/nccl/process.h"
#include "interpose/stats/exit_report.h"

enum { TOLD_MOST = 3 }; /* reasons in a line */

/* Reasons of calls that a user does not expect to be compressed: told last. */
static bool is_expected(enum tagc_reason reason) {
  return reason == TAGC_REASON_function || reason == TAGC_REASON_allgather_off ||
         reason == TAGC_REASON_allgather_named || reason == TAGC_REASON_allgather_messages;
}

/* The most frequent reason that is not told yet, the expected ones last; TAGC_REASON_compressed: none. */
static enum tagc_reason first_reason(const uint64_t reasons[TAGC_REASON_COUNT], const bool told[TAGC_REASON_COUNT]) {
  enum tagc_reason first = TAGC_REASON_compressed;
  for (int i = TAGC_REASON_compressed + 1; i < TAGC_REASON_COUNT; i++) {
    const enum tagc_reason reason = (enum tagc_reason)i;
    if (!reasons[reason] || told[reason])
      continue;
    if (first == TAGC_REASON_compressed ||
        (is_expected(first) != is_expected(reason) ? is_expected(first) : reasons[reason] > reasons[first]))
      first = reason;
  }
  return first;
}

/* " 1,200 not a call that is compressed; 3 warming up (TAGC_WARMUP); 4 for other reasons" */
static void print_passed_reasons(const struct tagc_ledger_large *large, char *text, size_t size) {
  bool told[TAGC_REASON_COUNT] = {false};
  uint64_t left = large->calls;
  size_t used = 0;
  *text = '\0';
  for (int i = 0; i < TOLD_MOST && left; i++) {
    char number[32];
    const enum tagc_reason reason = first_reason(large->reasons, told);
    const char *advice = tagc_reason_advice(reason);
    used += (size_t)snprintf(text + used, size - used, "%s %s %s%s%s", i ? ";" : "",
                             tagc_units_count(large->reasons[reason], number), tagc_reason_words(reason),
                             *advice ? ": " : "", advice);
    if (used >= size)
      return;
    left -= large->reasons[reason];
    told[reason] = true;
  }
  if (left)
    snprintf(text + used, size - used, "; %" PRIu64 " for other reasons", left);
}

void tagc_report_passed(const struct tagc_ledger *ledger) {
  char reasons[1024], sent[16], number[32];
  const struct tagc_traffic *plain = &ledger->large.plain;
  if (!ledger->large.calls)
    return;
  print_passed_reasons(&ledger->large, reasons, sizeof reasons);
  tagc_say("tagc: communicator %" PRIu64 " of %d ranks: taken for %s; nothing compressed of %s large collectives, %s a "
           "rank:%s",
           ledger->number, ledger->nranks,
           ledger->taken_for ? ledger->taken_for : "no training, as no step was seen to repeat",
           tagc_units_count(ledger->large.calls, number), tagc_units_bytes(plain->inside + plain->between, sent),
           reasons);
}

void tagc_report_gone(const struct tagc_ledgers_gone *gone) {
  char reasons[1024], sent[16], numbers[2][32];
  const struct tagc_traffic *plain = &gone->large.plain;
  if (!gone->large.calls)
    return;
  print_passed_reasons(&gone->large, reasons, sizeof reasons);
  tagc_say("tagc: %s more communicators have ended; nothing compressed of %s large collectives, %s a rank:%s",
           tagc_units_count(gone->count, numbers[0]), tagc_units_count(gone->large.calls, numbers[1]),
           tagc_units_bytes(plain->inside + plain->between, sent), reasons);
}

bool tagc_report_any(const struct tagc_ledger *ledger) {
  uint64_t compressed = ledger->rest.compressed + ledger->allgather_rest.compressed;
  compressed += ledger->broadcasts ? ledger->broadcasts->compressed : 0;
  for (size_t i = 0; i < ledger->row_count; i++)
    compressed += ledger->rows[i].compressed;
  for (size_t i = 0; i < ledger->allgather_count; i++)
    compressed += ledger->allgathers[i].compressed;
  return compressed > 0;
}

void tagc_report_nothing(const struct tagc_ledgers *ledgers) {
  uint64_t reasons[TAGC_REASON_COUNT];
  bool shared = ledgers->gone.shared;
  memcpy(reasons, ledgers->gone.large.reasons, sizeof reasons);
  if (ledgers->gone.elsewhere)
    return;
  for (const struct tagc_ledger *l = ledgers->first; l; l = l->next) {
    shared = shared || l->nranks > 1;
    if (tagc_report_any(l) || (l->nranks > 1 && l->rank != 0))
      return;
    for (int reason = 0; reason < TAGC_REASON_COUNT; reason++)
      reasons[reason] += l->large.reasons[reason];
  }
  const enum tagc_reason reason = first_reason(reasons, (bool[TAGC_REASON_COUNT]){false});
  const char *advice = tagc_reason_advice(reason);
  char least[16];
  if (!shared)
    tagc_say("tagc: nothing was compressed: no communicator had two ranks or more, so nothing was sent.");
  else if (reason == TAGC_REASON_compressed)
    tagc_say("tagc: nothing was compressed: no collective had a buffer of %s or more (TAGC_MIN_BYTES).",
             tagc_units_bytes(tagc_library_options()->min_bytes, least));
  else
    tagc_say("tagc: nothing was compressed, mostly for one reason: %s%s%s.", tagc_reason_words(reason),
             *advice ? ". What to do: " : "", advice);
}
