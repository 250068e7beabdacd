/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/vote/tune_allgathers.h"

#include "env/clock.h"
#include "interpose/comm/allgathers.h"
#include "interpose/nccl/process.h"
#include "interpose/policy/choose_allgather.h"

/* All-gathers that share a reference share the numbers of the first. */
static bool is_tuned(const struct tagc_comm *comm, size_t i) {
  return tagc_choose_allgathers_may(tagc_library_options()) && i < comm->allgather_count &&
         comm->allgathers[i].first == i && comm->allgathers[i].shape.n;
}

static size_t count_tuned(const struct tagc_comm *comm) {
  size_t count = 0;
  for (size_t i = 0; i < comm->allgather_count; i++)
    count += is_tuned(comm, i);
  return count;
}

void tagc_tune_allgather(struct tagc_comm *comm, size_t i, const void *before, const void *after, size_t n) {
  if (!is_tuned(comm, i) || !n)
    return;
  struct tagc_allgather *a = &comm->allgathers[i];
  const bool host = comm->device->host_reads;
  struct tagc_gpu_cost cost;
  a->measured =
    tagc_parameter_stats_measure(a->codec, before, after, n, a->shape.dtype, host ? tagc_clock_ms : NULL, &a->stats);
  if (host || !a->measured)
    return;
  /* The host's codec has told the bits; the times are the device's. */
  a->measured = comm->device->allgather_cost(comm->device, a->codec, &cost);
  if (!a->measured)
    return;
  a->stats.encode_ns = cost.encode_ns;
  a->stats.decode_ns = cost.decode_ns;
  a->stats.call_ns = cost.call_ns;
}

size_t tagc_tune_allgathers_words(const struct tagc_comm *comm) { return TAGC_MESSAGE_PARAMETERS * count_tuned(comm); }

void tagc_tune_allgathers_pack(const struct tagc_comm *comm, struct tagc_message *message) {
  const struct tagc_parameter_stats unknown = {__builtin_inf(), __builtin_inf(), __builtin_inf(), 0};
  for (size_t i = 0; i < comm->allgather_count; i++) {
    const struct tagc_allgather *a = &comm->allgathers[i];
    struct tagc_parameter_stats own = a->measured ? a->stats : unknown;
    if (is_tuned(comm, i))
      tagc_message_parameters(message, &own);
  }
}

bool tagc_tune_allgathers_resolve(struct tagc_comm *comm, struct tagc_message *message) {
  bool any = false;
  for (size_t i = 0; i < comm->allgather_count; i++) {
    if (!is_tuned(comm, i))
      continue;
    tagc_message_parameters(message, &comm->allgathers[i].stats);
    any |= comm->allgathers[i].stats.bits < __builtin_inf();
  }
  return any;
}
