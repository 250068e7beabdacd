/* SPDX-License-Identifier: BSD-3-Clause
 * The begin of a trace: the process, its options, and the names of all codes.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "env/clock.h"
#include "env/host.h"
#include "interpose/nccl/process.h"
#include "interpose/nccl/real.h"
#include "interpose/policy/plan.h"
#include "interpose/trace/trace.h"

void tagc_trace_add_texts(union tagc_trace_room *room, enum tagc_trace_kind kind, size_t size, const char *const *texts,
                          size_t count) {
  size_t used = size;
  for (size_t i = 0; i < count; i++) {
    const size_t left = sizeof room->bytes - 8 - used - (count - 1 - i), length = strlen(texts[i]);
    const size_t taken = length < left ? length : left;
    memcpy(room->bytes + used, texts[i], taken);
    room->bytes[used + taken] = '\0';
    used += taken + 1;
  }
  while (used % 8)
    room->bytes[used++] = '\0';
  room->record.kind = (uint16_t)kind;
  room->record.bytes = (uint16_t)used;
  tagc_trace_add(&room->record);
}

void tagc_trace_process(int nccl_version) {
  char host[65] = "", host_id[24];
  union tagc_trace_room room;
  struct timespec real;
  gethostname(host, sizeof host - 1);
  snprintf(host_id, sizeof host_id, "%016llx", (unsigned long long)tagc_host_id());
  clock_gettime(CLOCK_REALTIME, &real);
  room.process = (struct tagc_trace_process){
    .pid = (int32_t)getpid(),
    .nccl_version = (uint32_t)nccl_version,
    .realtime_ns = (int64_t)real.tv_sec * 1000000000 + real.tv_nsec,
    .monotonic_ns = tagc_clock_ns(),
  };
  const char *const texts[] = {host, program_invocation_short_name, PACKAGE_VERSION, host_id};
  tagc_trace_add_texts(&room, TAGC_TRACE_PROCESS, sizeof room.process, texts, 4);
}

static void add_name(enum tagc_trace_table table, unsigned code, const char *name) {
  union tagc_trace_room room;
  room.name = (struct tagc_trace_name){.table = (uint16_t)table, .code = (uint16_t)code};
  tagc_trace_add_texts(&room, TAGC_TRACE_NAME, sizeof room.name, &name, 1);
}

void tagc_trace_head(void) {
  static const char *const actions[] = {"pass", "compress", "flush"};
  static const char *const types[] = {"int8",    "uint8",   "int32",   "uint32",   "int64",      "uint64",
                                      "float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  static const char *const ops[] = {"sum", "prod", "max", "min", "avg", "premulsum", "other"};
  _Static_assert(TAGC_FLUSH == 2 && ncclFloat8e5m2 == 11 && ncclBfloat16 == 9 && ncclAvg == 4 &&
                   TAGC_TRACE_OP_OTHER == 6,
                 "the lists");
  union tagc_trace_room room;
  char options[TAGC_OPTIONS_LIST];
  const char *text = options;
  tagc_trace_process(0);
  for (int i = 0; i < TAGC_ENTRY_COUNT; i++)
    if (tagc_real_is_exported((enum tagc_entry)i))
      add_name(TAGC_TRACE_FUNCTIONS, (unsigned)i, tagc_real_name((enum tagc_entry)i));
  for (int i = 0; i < TAGC_REASON_COUNT; i++)
    add_name(TAGC_TRACE_REASONS, (unsigned)i, tagc_reason_words((enum tagc_reason)i));
  for (unsigned i = 0; i < sizeof actions / sizeof *actions; i++)
    add_name(TAGC_TRACE_ACTIONS, i, actions[i]);
  for (unsigned i = 0; i < sizeof types / sizeof *types; i++)
    add_name(TAGC_TRACE_TYPES, i, types[i]);
  for (unsigned i = 0; i < sizeof ops / sizeof *ops; i++)
    add_name(TAGC_TRACE_OPS, i, ops[i]);
  if (!tagc_options_list(tagc_library_options(), options, sizeof options))
    *options = '\0';
  tagc_trace_add_texts(&room, TAGC_TRACE_OPTIONS, sizeof room.options, &text, 1);
}
