/* SPDX-License-Identifier: BSD-3-Clause
 * Prints the times and states in traces, as lines of numbers; nanoseconds since the first call of the trace.
 *
 *   trace_times FILE...
 *
 *   call FILE NUMBER FUNCTION ACTION SLOT BEGAN HOST GROUP COUNT RESULT COMM      names, in the file's order
 *   times FILE CALL SUM ENCODE EXCHANGE DECODE BY_DEVICE HIDDEN HIDDEN_UNKNOWN
 *   profile FILE CALL FUNCTION COMM BEGAN KERNEL BY_DEVICE CHANNELS SENT RECEIVED SENDS SENDING NETWORK
 *   state FILE CYCLE SLOT RESIDUAL GRADIENT ERROR
 *   end FILE AT DROPPED
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "interpose/tagc-report/read/records.h"

static char names[2][256][64];

static void name(const struct tagc_trace_record *record) {
  const struct tagc_trace_name *n = (const void *)record;
  if ((n->table == TAGC_TRACE_FUNCTIONS || n->table == TAGC_TRACE_ACTIONS) && n->code < 256)
    snprintf(names[n->table == TAGC_TRACE_ACTIONS][n->code], sizeof names[0][0], "%s",
             tagc_trace_text(record, n->text, 0));
}

static void print(const struct tagc_trace_record *record, int file, uint64_t *first) {
  const struct tagc_trace_call *call = (const void *)record;
  const struct tagc_trace_times *times = (const void *)record;
  const struct tagc_trace_state *state = (const void *)record;
  const struct tagc_trace_end *end = (const void *)record;
  const struct tagc_trace_profile *profile = (const void *)record;
  switch (record->kind) {
  case TAGC_TRACE_NAME: name(record); break;
  case TAGC_TRACE_CALL:
    *first = *first && *first < call->began_ns ? *first : call->began_ns;
    printf("call %d %" PRIu64 " %s %s %d %" PRIu64 " %" PRIu64 " %u %" PRIu64 " %d %u\n", file, call->number,
           names[0][call->function & 255], names[1][call->action], call->slot, call->began_ns - *first, call->host_ns,
           call->group, call->count, call->result, call->record.comm);
    break;
  case TAGC_TRACE_TIMES:
    printf("times %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %" PRIu64 " %u\n", file,
           times->call, times->sum_ns, times->encode_ns, times->exchange_ns, times->decode_ns, times->by_device,
           times->hidden_ns, times->hidden_unknown);
    break;
  case TAGC_TRACE_PROFILE:
    printf("profile %d %" PRIu64 " %s %u %" PRId64 " %" PRIu64 " %u %u %" PRIu64 " %" PRIu64 " %u %" PRIu64 " %" PRIu64
           "\n",
           file, profile->call, names[0][profile->function & 255], profile->record.comm,
           (int64_t)(profile->kernel_began_ns - *first), profile->kernel_ns, profile->by_device, profile->channels,
           profile->sent_bytes, profile->received_bytes, profile->sends, profile->sending_ns, profile->network_ns);
    break;
  case TAGC_TRACE_STATE:
    printf("state %d %" PRIu64 " %u %.6g %.6g %.6g\n", file, state->cycle, state->slot, state->residual_norm,
           state->gradient_norm, state->error);
    break;
  case TAGC_TRACE_END: printf("end %d %" PRIu64 " %" PRIu64 "\n", file, end->at_ns - *first, end->dropped); break;
  }
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    char why[TAGC_TRACE_WHY];
    struct tagc_trace_file *file = tagc_trace_open(argv[i], why);
    const struct tagc_trace_record *record;
    uint64_t first = 0;
    if (!file) {
      fprintf(stderr, "%s\n", why);
      return 1;
    }
    while ((record = tagc_trace_next(file)))
      print(record, i, &first);
    tagc_trace_close(file);
  }
  return 0;
}
