/* SPDX-License-Identifier: BSD-3-Clause
 * What a codec for all-gathers makes of parameters, for the choice whether it is used.
 *
 * Sample     the same elements of a shard in two calls in a row. Copies of it, one behind the other, are a shard of
 *            some thousands of elements, which fills the caches' first level like a part of a real one.
 * Codec      runs on it as it does in a call between two ranks, whose other shard is decoded; the best of three times
 *            counts. One element counts as changed, so that even a sample that stands still is encoded.
 * Units      bits of an element that travel, with the margin of sizes. Nanoseconds for an element of the own shard
 *            (encode), for an element of each shard (decode), and for a call whatever its size: 0 on the host.
 * Ownership  Memory comes from the host and is freed.
 * Threads    Reentrant. Failure: false without memory, or if the codec cannot have the shape.
 */
#ifndef KERNELS_DEVICE_PARAMETER_STATS_H
#define KERNELS_DEVICE_PARAMETER_STATS_H

#include "kernels/codec/allgather.h"

/* All infinite: the codec cannot carry the parameters, or nobody knows. */
struct tagc_parameter_stats {
  double bits, encode_ns, decode_ns, call_ns;
};

/* `before` and `after`: n >= 1 elements in host memory. `codec` has a reference and payloads of any size. clock_ms:
 * NULL: times come out as 0. */
bool tagc_parameter_stats_measure(const struct tagc_allgather_codec *codec, const void *before, const void *after,
                                  size_t n, enum tagc_dtype dtype, double (*clock_ms)(void),
                                  struct tagc_parameter_stats *out);

#endif
