/* SPDX-License-Identifier: BSD-3-Clause
 * Prints a trace, for trace.test:
 *
 *   trace calls FILE       FUNCTION CALLS BYTES (sent): a line per function that was called, by name
 *   trace comms FILE       IDENTITY RANK NRANKS PARENT FUNCTION AGREED ENDED: a line per communicator, as known at the
 *                          end
 *   trace reasons FILE     FUNCTION FLAGS ACTION REASON CALLS: a line each
 *   trace rest FILE        all other records: one line of counts
 * Complains, with status 1, if the file is not whole, calls are missing or double, or a call's communicator has no
 * record.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/tagc-report/read/records.h"

enum { MOST = 4096 };

static char names[6][256][160];
static struct tagc_trace_comm comms[MOST];
static uint16_t ended[MOST];
static uint64_t kinds[TAGC_TRACE_KINDS], functions[256][2];
static struct reason {
  uint16_t function, reason;
  uint8_t action, flags;
  uint64_t calls;
} reasons[MOST];
static size_t reason_count;
static uint8_t seen[1 << 20];
static uint64_t most, told, cycles[3], disturbed, compressed_slots;
static int bad;

static void complain(const char *what, uint64_t number) {
  if (bad++ < 5)
    fprintf(stderr, "%s: %" PRIu64 "\n", what, number);
}

static void count_reason(const struct tagc_trace_call *call) {
  size_t i = 0;
  while (i < reason_count && (reasons[i].function != call->function || reasons[i].reason != call->reason ||
                              reasons[i].action != call->action || reasons[i].flags != call->flags))
    i++;
  if (i == reason_count && i < MOST)
    reasons[reason_count++] = (struct reason){call->function, call->reason, call->action, call->flags, 0};
  reasons[i].calls++;
}

static void see_call(const struct tagc_trace_call *call) {
  functions[call->function % 256][0]++;
  functions[call->function % 256][1] += call->inside + call->between;
  if (call->number == 0 || call->number >= sizeof seen || seen[call->number]++)
    complain("a call that is there twice, or has no number", call->number);
  if (call->record.comm && (call->record.comm >= MOST || !comms[call->record.comm].record.comm))
    complain("a communicator that nobody has told of", call->record.comm);
  most = call->number > most ? call->number : most;
  count_reason(call);
}

static void see(const struct tagc_trace_record *record) {
  const void *r = record;
  kinds[record->kind]++;
  if (record->kind == TAGC_TRACE_NAME) {
    const struct tagc_trace_name *name = r;
    snprintf(names[name->table % 6][name->code % 256], sizeof names[0][0], "%s",
             tagc_trace_text(record, name->text, 0));
  } else if (record->kind == TAGC_TRACE_COMM && record->comm < MOST) {
    comms[record->comm] = *(const struct tagc_trace_comm *)r;
  } else if (record->kind == TAGC_TRACE_COMM_END && record->comm < MOST) {
    if (ended[record->comm])
      complain("a communicator that ends twice", record->comm);
    ended[record->comm] = (uint16_t)(1 + ((const struct tagc_trace_comm_end *)r)->function);
  } else if (record->kind == TAGC_TRACE_CALL) {
    see_call(r);
  } else if (record->kind == TAGC_TRACE_CYCLE) {
    cycles[((const struct tagc_trace_cycle *)r)->side % 3]++;
    disturbed += ((const struct tagc_trace_cycle *)r)->disturbed;
  } else if (record->kind == TAGC_TRACE_SLOT) {
    compressed_slots += *tagc_trace_text(record, ((const struct tagc_trace_slot *)r)->text, 1) != '\0';
  } else if (record->kind == TAGC_TRACE_TIMES) {
    const struct tagc_trace_times *times = r;
    told += times->exchange_ns > 0 && times->call > 0;
  } else if (record->kind == TAGC_TRACE_END && ((const struct tagc_trace_end *)r)->calls != most) {
    complain("calls that the end tells of", ((const struct tagc_trace_end *)r)->calls);
  }
}

static void print(const char *what) {
  const char(*name)[160] = (const char(*)[160])names[TAGC_TRACE_FUNCTIONS];
  if (strcmp(what, "calls") == 0)
    for (int i = 0; i < 256; i++)
      if (functions[i][0])
        printf("%s %" PRIu64 " %" PRIu64 "\n", name[i], functions[i][0], functions[i][1]);
  if (strcmp(what, "comms") == 0)
    for (int i = 0; i < MOST; i++)
      if (comms[i].record.comm)
        printf("%016" PRIx64 " %d %d %u %s %u %s\n", comms[i].identity, comms[i].rank, comms[i].nranks, comms[i].parent,
               name[comms[i].function % 256], comms[i].agreed, ended[i] ? name[ended[i] - 1] : "-");
  if (strcmp(what, "reasons") == 0)
    for (size_t i = 0; i < reason_count; i++)
      printf("%s %u %s %" PRIu64 " %s\n", name[reasons[i].function % 256], reasons[i].flags,
             names[TAGC_TRACE_ACTIONS][reasons[i].action], reasons[i].calls,
             names[TAGC_TRACE_REASONS][reasons[i].reason % 256]);
  if (strcmp(what, "rest") == 0)
    printf("locks %" PRIu64 " slots %" PRIu64 " compressed %" PRIu64 " times %" PRIu64 " cycles %" PRIu64
           " plain %" PRIu64 " compressed %" PRIu64 " disturbed %" PRIu64 "\n",
           kinds[TAGC_TRACE_LOCK], kinds[TAGC_TRACE_SLOT], compressed_slots, told, cycles[0], cycles[1], cycles[2],
           disturbed);
}

int main(int argc, char **argv) {
  char why[TAGC_TRACE_WHY];
  struct tagc_trace_file *file = argc == 3 ? tagc_trace_open(argv[2], why) : NULL;
  if (!file) {
    fprintf(stderr, "%s\n", argc == 3 ? why : "usage: trace calls|comms|reasons|rest FILE");
    return 2;
  }
  for (const struct tagc_trace_record *record; (record = tagc_trace_next(file));)
    see(record);
  const struct tagc_trace_health *health = tagc_trace_health(file);
  if (health->damaged_chunks || health->skipped_bytes || health->refused_records || health->dropped || health->cut ||
      !health->ended)
    complain("not whole, at byte", health->bytes);
  for (uint64_t i = 1; i <= most && i < sizeof seen; i++)
    if (!seen[i])
      complain(i + 2 == most ? "the last call but two is missing" : "a call that is missing", i);
  print(argv[1]);
  tagc_trace_close(file);
  return bad != 0;
}
