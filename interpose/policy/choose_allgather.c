/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/policy/choose_allgather.h"

bool tagc_choose_allgathers_may(const struct tagc_options *options) {
  return options->allgather == TAGC_ALLGATHER_AUTO && tagc_options_auto(options);
}

static double ring_ns(const struct tagc_allgather_shape *shape, const struct tagc_wire *wire, double bytes) {
  return (shape->nranks - 1) * (wire->plain.latency_ns + bytes * wire->plain.ns_per_byte);
}

double tagc_choose_allgather_plain_ns(const struct tagc_allgather_shape *shape, const struct tagc_wire *wire) {
  return ring_ns(shape, wire, (double)shape->n * (double)tagc_dtype_size(shape->dtype));
}

double tagc_choose_allgather_ns(const struct tagc_allgather_shape *shape, const struct tagc_parameter_stats *stats,
                                const struct tagc_wire *wire, double payload_bytes) {
  const double n = (double)shape->n;
  return stats->call_ns + n * stats->encode_ns + n * shape->nranks * stats->decode_ns +
         ring_ns(shape, wire, payload_bytes);
}

enum tagc_reason tagc_choose_allgather(const struct tagc_allgather_shape *shape,
                                       const struct tagc_parameter_stats *stats, const struct tagc_wire *wire) {
  if (!wire)
    return TAGC_REASON_vote;
  if (!(stats->bits < __builtin_inf()))
    return TAGC_REASON_unseen;
  const double ns = tagc_choose_allgather_ns(shape, stats, wire, (double)shape->n * stats->bits / 8);
  return tagc_choose_is_worth_it(ns, tagc_choose_allgather_plain_ns(shape, wire)) ? TAGC_REASON_NONE
                                                                                  : TAGC_REASON_allgather_slower;
}
