/* SPDX-License-Identifier: BSD-3-Clause
 * The codec for all-gathers that loses nothing: signs and mantissas as they are, exponents in 3 bits. bf16: 11.8 of 16
 * bits, fp32: 27.8 of 32. Weights have few exponents: seven of 256 hold 97 of 100 in most blocks (DFloat11, arXiv
 * 2504.11651, has their entropy).
 *
 * Payload    header (allgather.h), then
 *              starts   uint32 x blocks of 256: the number of escapes in the blocks before
 *              escaped  ceil(n / 12) + 256 bytes: the exponents without a code, in order of position; unused ones are
 *                       zero. More: the shard is refused
 *              bases    uint8 x blocks: the exponent of code 0 (steps.h explains the choice)
 *              blocks   352 bytes a block: three planes of 32 bytes, bit i of plane p is bit p of element i's code,
 *                       from the lowest bit of the first byte on; then 256 bytes: the sign above the upper 7 bits of
 *                       the mantissa
 *              lows     fp32: 256 x uint16 a block: the lower 16 bits
 *            Code 0 to 6: the exponent is base - code, modulo 256; 7: it is the block's next escape. A shard is padded
 *            with its last element to whole blocks.
 * Example    bf16, n = 1000, all of it 1.0 (80 3f), but element 2 is -3.0 (40 c0) and element 300 is 0: 4 blocks.
 *              (16 zeros)                                          the header
 *              00 00 00 00  00 00 00 00  01 00 00 00  01 00 00 00  starts
 *              00  (351 zeros)                                     escaped: exponent 0; room for 340, padded to 352
 *              80  7f  7f  7f  (12 zeros)                          bases: in block 0, 127 has one escape, 128 none
 *            block 0: codes 1, but element 2's is 0
 *              fb ff ... (30 times)    ff  0 ...                   plane 0; planes 1 and 2: 64 zeros
 *              00  00  c0  (253 zeros)                             the sign and the mantissa of -3.0 are 1 and 1000000
 *            block 1: codes 0, but element 44's is 7: each plane is 5 zeros, 10, 26 zeros; then 256 zeros
 *            blocks 2 and 3: 352 zeros each
 * fp16       has 5 bits of exponent, of which 2 could be saved: not worth it; layout() refuses it.
 */
#include <string.h>

#include "kernels/allgather/kernels.h"

static bool lossless_layout(const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *out) {
  if (shape->dtype == TAGC_FLOAT16 || !tagc_allgather_shape_fits(shape))
    return false;
  *out = (struct tagc_allgather_layout){.payload_bytes = tagc_lossless_gather_of(shape->n, shape->dtype).bytes};
  return out->payload_bytes < shape->n * tagc_dtype_size(shape->dtype);
}

/* Like tagc_allgather_whole(), padded with the last element. */
static const void *whole(const void *shard, struct tagc_allgather_place place, enum tagc_dtype dtype,
                         struct tagc_allgather_padded *room) {
  const size_t size = tagc_dtype_size(dtype);
  const void *from = tagc_allgather_whole(shard, place, dtype, room);
  for (uint32_t i = place.count; i < TAGC_ALLGATHER_BLOCK; i++)
    memcpy(room->bytes + i * size, room->bytes + (place.count - 1) * size, size);
  return from;
}

static void allgather_lossless_encode(struct tagc_allgather_job *job) {
  const uint64_t n = job->shape.n, blocks = tagc_allgather_blocks(n);
  const enum tagc_dtype dtype = job->shape.dtype;
  const struct tagc_lossless_gather at = tagc_lossless_gather_of(n, dtype);
  uint8_t *payload = tagc_allgather_payload(job, job->rank), *escaped = payload + at.escaped;
  uint64_t count = 0;
  memset(payload, 0, sizeof(struct tagc_allgather_header));
  memset(payload + at.escaped - 16, 0, 16); /* the places of padding: values are written later */
  memset(payload + at.blocks - 16, 0, 16);
  for (uint64_t block = 0; block < blocks; block++) {
    struct tagc_allgather_padded room;
    uint8_t beside[TAGC_LOSSLESS_ROOM];
    const bool fits = count + sizeof beside <= at.escapes;
    ((uint32_t *)(payload + at.starts))[block] = (uint32_t)count;
    const uint32_t more = tagc_allgather_kernels()->lossless_encode(
      whole(job->send, tagc_allgather_place(block, n), dtype, &room), dtype,
      payload + at.blocks + block * TAGC_LOSSLESS_RECORD, payload + at.bases + block,
      (uint16_t *)(payload + at.lows) + block * TAGC_ALLGATHER_BLOCK, fits ? escaped + count : beside);
    if (!fits && count < at.escapes)
      memcpy(escaped + count, beside, more < at.escapes - count ? more : at.escapes - count);
    count += more;
  }
  if (count > at.escapes)
    ((struct tagc_allgather_header *)payload)->flags = TAGC_ALLGATHER_REFUSED;
  else
    memset(escaped + count, 0, at.bases - at.escaped - count);
  if (job->stats)
    job->stats->escapes += count;
  tagc_allgather_set_norms(job, (struct tagc_allgather_norms){0});
}

/* A block's escapes, of which TAGC_LOSSLESS_ROOM may be read; a damaged payload cannot lead out of it. */
static const uint8_t *escapes_of(const uint8_t *payload, const struct tagc_lossless_gather *at, uint64_t block,
                                 uint8_t room[TAGC_LOSSLESS_ROOM]) {
  const uint32_t said = ((const uint32_t *)(payload + at->starts))[block];
  const size_t start = said < at->escapes ? said : at->escapes, left = at->bases - at->escaped - start;
  if (left >= TAGC_LOSSLESS_ROOM)
    return payload + at->escaped + start;
  memset(room, 0, TAGC_LOSSLESS_ROOM);
  return memcpy(room, payload + at->escaped + start, left);
}

static void decode_lossless_shard(const struct tagc_allgather_job *job, int rank) {
  const uint64_t n = job->shape.n;
  const enum tagc_dtype dtype = job->shape.dtype;
  const struct tagc_lossless_gather at = tagc_lossless_gather_of(n, dtype);
  const uint8_t *payload = tagc_allgather_payload(job, rank);
  void *shard = tagc_allgather_shard(job, rank);
  for (uint64_t block = 0; block < tagc_allgather_blocks(n); block++) {
    const struct tagc_allgather_place place = tagc_allgather_place(block, n);
    struct tagc_allgather_padded room;
    uint8_t beside[TAGC_LOSSLESS_ROOM];
    tagc_allgather_kernels()->lossless_decode(
      payload + at.blocks + block * TAGC_LOSSLESS_RECORD, payload[at.bases + block],
      (const uint16_t *)(payload + at.lows) + block * TAGC_ALLGATHER_BLOCK, escapes_of(payload, &at, block, beside),
      dtype, tagc_allgather_target(shard, place, dtype, &room));
    tagc_allgather_settle(shard, place, dtype, &room);
  }
}

/* The own shard comes from its payload, too: all ranks see the same values. */
static void allgather_lossless_decode(struct tagc_allgather_job *job) {
  tagc_allgather_decode_shards(job, decode_lossless_shard);
}

const struct tagc_allgather_codec tagc_allgather_lossless = {
  .name = "lossless",
  .exact = true,
  .may_refuse = true,
  .layout = lossless_layout,
  .encode = allgather_lossless_encode,
  .decode = allgather_lossless_decode,
  .refer = NULL,
};
