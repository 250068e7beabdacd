/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/policy/chunk_count.h"

/* The least bytes that a rank sends of a chunk, and the most chunks without TAGC_DEPTH: measured on the host
 * (tests/bench/depth.sh), where more gain little. The same for all devices, because bits may depend on it. */
enum { LEAST_BYTES = 512 << 10, MOST_BY_ITSELF = 4 };

/* The least gain: estimates leave out the machine's other work. */
static const double WORTH_IT = 0.97;

static int room_of(uint64_t sent) {
  const uint64_t most = sent / LEAST_BYTES;
  return most > MOST_BY_ITSELF ? MOST_BY_ITSELF : most > 1 ? (int)most : 1;
}

/* Short shards go in fewer chunks than requested. */
static int chunks_for(uint64_t n, int count) { return tagc_chunks_of(n, count).count; }

int tagc_chunk_count(const struct tagc_options *options, const struct tagc_codec *codec, const struct tagc_shape *shape,
                     const struct tagc_layout *layout, const struct tagc_call_times *times) {
  if (!tagc_chunks_possible(codec, layout))
    return 1;
  if (options->depth)
    return chunks_for(shape->n, (int)options->depth);
  const int room = chunks_for(shape->n, room_of(tagc_layout_wire_bytes(shape, layout)));
  if (!times)
    return room;
  int best = 1;
  for (int count = 2; count <= room; count++)
    if (tagc_call_ns(times, count) < tagc_call_ns(times, best))
      best = count;
  return tagc_call_ns(times, best) <= WORTH_IT * tagc_call_ns(times, 1) ? best : 1;
}

int tagc_chunk_count_allgather(const struct tagc_options *options, const struct tagc_allgather_shape *shape,
                               const struct tagc_allgather_layout *layout) {
  return chunks_for(shape->n, options->depth ? (int)options->depth
                                             : room_of(layout->payload_bytes * (uint64_t)(shape->nranks - 1)));
}
