/* SPDX-License-Identifier: BSD-3-Clause
 * The exported tables of NCCL's profiler interface, as NCCL finds them by name. All versions have these fields.
 */
#ifndef INTERPOSE_PROFILER_VERSIONS_H
#define INTERPOSE_PROFILER_VERSIONS_H

#include "interpose/nccl/nccl_newer.h"

struct tagc_profiler_table {
  const char *name;
  void (*init)(void); /* with other arguments in each version: see versions.c */
  ncclResult_t (*start_event)(void *context, void **handle, const void *descriptor);
  ncclResult_t (*stop_event)(void *handle);
  ncclResult_t (*record_state)(void *handle, int state, const void *arguments);
  ncclResult_t (*finalize)(void *context);
};

extern const struct tagc_profiler_table ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3, ncclProfiler_v4,
  ncclProfiler_v5, ncclProfiler_v6;

#endif
