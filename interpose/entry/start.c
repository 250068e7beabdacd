/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/entry/start.h"

#include <errno.h>
#include <pthread.h>

#include "env/log.h"
#include "env/mark.h"
#include "interpose/comm/traced.h"
#include "interpose/entry/background.h"
#include "interpose/exec/hierarchy.h"
#include "interpose/exec/order.h"
#include "interpose/metrics/metrics.h"
#include "interpose/nccl/process.h"
#include "interpose/policy/option_check.h"

atomic_int tagc_library_state;

/* Checks what env/ cannot know: names of codecs, lists of layers, and options that need others. */
static void check_options(const struct tagc_options *options) {
  char why[TAGC_OPTION_WHY];
  for (int i = 0; i < TAGC_OPTION_COUNT; i++)
    if (!tagc_option_check(options, (enum tagc_option_index)i, why)) {
      tagc_library_refuse();
      tagc_log(TAGC_LOG_ERROR, "env", "%s; this process passes every call through", why);
    } else if (tagc_option_is_idle(options, (enum tagc_option_index)i, why)) {
      tagc_log(TAGC_LOG_WARN, "env", "%s", why);
    }
}

static void read_map(const struct tagc_options *options) {
  char why[TAGC_OPTION_WHY];
  uint64_t digest = 0;
  if (tagc_options_have_no_map(options))
    return;
  const struct tagc_model *map = tagc_option_map(options->layermap, &digest, why);
  if (map) {
    tagc_library_set_map(map, digest);
    return;
  }
  tagc_library_refuse();
  tagc_log(TAGC_LOG_ERROR, "layermap", "%s; this process passes every call through", why);
}

static void end_comm_rooms(struct tagc_comm *comm) {
  tagc_background_release(comm->background);
  tagc_hierarchy_end(comm, true); /* the children made while the communicator was aborted */
  tagc_order_keep(comm, false);
}

static void start_library(void) {
  const int saved = errno;
  const struct tagc_options *options = tagc_library_options();
  tagc_mark_remove();
  check_options(options);
  tagc_comm_at_end(end_comm_rooms);
  if (options->mode != TAGC_MODE_OFF) {
    read_map(options);
    tagc_trace_at_restart(tagc_trace_forget_comms);
    tagc_trace_start(options);
    tagc_metrics_start(options);
  }
  atomic_store_explicit(&tagc_library_state, options->mode == TAGC_MODE_OFF ? TAGC_LIBRARY_OFF : TAGC_LIBRARY_ON,
                        memory_order_release);
  errno = saved;
}

/* The one thing that a process without an NCCL call may notice, at its end, and only the one that tagc-run became. */
__attribute__((destructor)) static void tell_unreached(void) {
  const int saved = errno;
  tagc_mark_end();
  errno = saved;
}

bool tagc_library_start(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, start_library);
  return atomic_load(&tagc_library_state) == TAGC_LIBRARY_ON;
}
