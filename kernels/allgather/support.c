/* SPDX-License-Identifier: BSD-3-Clause
 * The codec for the sums of an all-reduce whose gradients are sparse: see support.h.
 */
#include "kernels/allgather/support.h"

#include <string.h>

#include "kernels/allgather/kernels.h"

/* As much as is less than the shard. */
static bool support_layout(const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *out) {
  if (!tagc_allgather_shape_fits(shape))
    return false;
  *out = (struct tagc_allgather_layout){
    .payload_bytes = (shape->n * tagc_dtype_size(shape->dtype) - 1) / 16 * 16,
    /* the indexes, until their place is known */
    .state_bytes = tagc_allgather_blocks(shape->n) * TAGC_SUPPORT_INDEX_MOST,
  };
  return out->payload_bytes >= tagc_support_bytes(shape->n, shape->dtype, 0);
}

/* Writes kinds and as many values as fit; the indexes into the state. Returns the bytes of these. */
static size_t encode_support_blocks(const struct tagc_allgather_job *job, uint8_t *payload, uint64_t *values) {
  const enum tagc_dtype dtype = job->shape.dtype;
  const struct tagc_support_parts at = tagc_support_parts_of(job->shape.n);
  const size_t size = tagc_dtype_size(dtype), room = (job->layout.payload_bytes - at.values) / size;
  uint8_t *indexes = job->state;
  size_t used = 0;
  *values = 0;
  for (uint64_t block = 0; block < tagc_allgather_blocks(job->shape.n); block++) {
    struct tagc_allgather_padded padded, beside;
    const void *from = tagc_allgather_whole(job->send, tagc_allgather_place(block, job->shape.n), dtype, &padded);
    const bool fits = *values + TAGC_ALLGATHER_BLOCK <= room;
    uint8_t *to = payload + at.values + *values * size, *kind = payload + at.kinds + block;
    const uint32_t more =
      tagc_allgather_kernels()->support_encode(from, dtype, fits ? to : beside.bytes, indexes + used, kind);
    if (!fits && *values + more <= room)
      memcpy(to, beside.bytes, more * size);
    used += tagc_support_index_bytes(*kind);
    *values += more;
  }
  return used;
}

static void support_encode(struct tagc_allgather_job *job) {
  uint8_t *payload = tagc_allgather_payload(job, job->rank);
  const struct tagc_support_parts at = tagc_support_parts_of(job->shape.n);
  struct tagc_support_header header = {0};
  memset(payload + at.values - 16, 0, 16); /* the place of padding: kinds are written later */
  const size_t used = encode_support_blocks(job, payload, &header.values);
  const size_t end = at.values + header.values * tagc_dtype_size(job->shape.dtype);
  header.needed = tagc_pad16(end) + tagc_pad16(used);
  if (header.needed > job->layout.payload_bytes) {
    header.common.flags = TAGC_ALLGATHER_REFUSED;
  } else {
    memset(payload + end, 0, job->layout.payload_bytes - end);
    memcpy(payload + tagc_pad16(end), job->state, used);
  }
  memcpy(payload, &header, sizeof header);
  tagc_allgather_set_norms(job, (struct tagc_allgather_norms){0});
}

/* The number of values of a block. */
static uint32_t count_support(uint8_t kind, const uint8_t *index) {
  uint64_t mask[TAGC_SUPPORT_INDEX_MOST / sizeof(uint64_t)];
  uint32_t count = 0;
  if (kind != TAGC_SUPPORT_BITMAP)
    return kind < TAGC_SUPPORT_BITMAP ? kind : TAGC_ALLGATHER_BLOCK;
  memcpy(mask, index, sizeof mask);
  for (size_t i = 0; i < sizeof mask / sizeof *mask; i++)
    count += (uint32_t)__builtin_popcountll(mask[i]);
  return count;
}

static bool places_ascend(uint8_t kind, const uint8_t *index) {
  for (uint8_t i = 1; i < kind && kind < TAGC_SUPPORT_BITMAP; i++)
    if (index[i] <= index[i - 1])
      return false;
  return true;
}

static void decode_support_shard(const struct tagc_allgather_job *job, int rank) {
  const enum tagc_dtype dtype = job->shape.dtype;
  const struct tagc_support_parts at = tagc_support_parts_of(job->shape.n);
  const size_t size = tagc_dtype_size(dtype), room = job->layout.payload_bytes;
  const uint8_t *payload = tagc_allgather_payload(job, rank);
  struct tagc_support_header header;
  memcpy(&header, payload, sizeof header);
  const uint64_t values = header.values < job->shape.n ? header.values : job->shape.n;
  size_t value = at.values, index = at.values + tagc_pad16(values * size);
  const size_t values_end = index < room ? index : room;
  for (uint64_t block = 0; block < tagc_allgather_blocks(job->shape.n); block++) {
    const struct tagc_allgather_place place = tagc_allgather_place(block, job->shape.n);
    struct tagc_allgather_padded padded;
    uint8_t kind = payload[at.kinds + block];
    const uint32_t bytes = tagc_support_index_bytes(kind);
    if (index > room || bytes > room - index)
      kind = 0;
    const size_t count = count_support(kind, payload + index);
    const bool fits = value <= values_end && count * size <= values_end - value;
    if (!fits || !places_ascend(kind, payload + index))
      kind = 0;
    tagc_allgather_kernels()->support_decode(
      kind, payload + index, payload + value, dtype,
      tagc_allgather_target(tagc_allgather_shard(job, rank), place, dtype, &padded));
    tagc_allgather_settle(tagc_allgather_shard(job, rank), place, dtype, &padded);
    index += bytes;
    value += count * size;
  }
}

static void support_decode(struct tagc_allgather_job *job) { tagc_allgather_decode_shards(job, decode_support_shard); }

const struct tagc_allgather_codec tagc_allgather_support = {
  .name = "support",
  .exact = true,
  .may_refuse = true,
  .layout = support_layout,
  .encode = support_encode,
  .decode = support_decode,
};
