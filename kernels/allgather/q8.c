/* SPDX-License-Identifier: BSD-3-Clause
 * The codec for all-gathers that sends 8 bits an element, with a scale for each half block (ZeRO++, arXiv 2306.10209).
 *
 * Payload    header (allgather.h), then
 *              exceptions  exceptions.h: values that are not finite, or 2^120 and more. If there are more than fit, all
 *                          scales are NaN, so that the whole shard comes out NaN, and no entry counts. Such a shard is
 *                          not refused: a GPU's caller would have to wait for that after each call
 *              scales      uint16 x 2 x blocks of 256: bf16; the largest magnitude of 128 elements / 127, rounded up; 0
 *                          below 2^-110
 *              codes       int8 x 256 x blocks: x * (1 / scale), rounded to nearest even, within +-127
 *            A value is code * scale, rounded to the type; in fp16 within +-65504.
 * Example    n = 3, fp32, shard (127, -1, 0.5): the scale is 1.
 *              (16 zeros)                                the header
 *              00 00 00 00  00 00 00 00  (8 zeros)       no exceptions, room for one
 *              80 3f  00 00  (12 zeros)
 *              7f  ff  00  (253 zeros)                   a half is rounded to even
 */
#include <string.h>

#include "kernels/allgather/kernels.h"
#include "kernels/dense/dense.h"
#include "kernels/codec/fpmode.h"
#include "kernels/codec/variant.h"

static bool allgather_q8_layout(const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *out) {
  if (!tagc_allgather_shape_fits(shape))
    return false;
  *out = (struct tagc_allgather_layout){.payload_bytes = tagc_q8_gather_of(shape->n).bytes};
  return out->payload_bytes < shape->n * tagc_dtype_size(shape->dtype);
}

/* Takes exceptions, and values that count as zero, out of a block. */
static void take_q8_exceptions(struct tagc_exceptions *list, uint64_t n, struct tagc_allgather_place place,
                               float values[TAGC_ALLGATHER_BLOCK]) {
  for (uint32_t i = 0; i < place.count; i++) {
    if (tagc_is_exception(tagc_bits_of(values[i])))
      tagc_exceptions_add(list, n, (uint32_t)place.from + i, values[i]);
    values[i] = tagc_dense_strip(values[i]);
  }
}

static void allgather_q8_encode(struct tagc_allgather_job *job) {
  tagc_fpmode mode = tagc_fpmode_enter();
  const struct tagc_dense_kernels *dense = TAGC_OF_VARIANT(tagc_dense);
  const uint64_t n = job->shape.n;
  const struct tagc_q8_gather at = tagc_q8_gather_of(n);
  uint8_t *payload = tagc_allgather_payload(job, job->rank);
  struct tagc_exceptions *list = (struct tagc_exceptions *)(payload + at.exceptions);
  struct tagc_allgather_norms norms = {0};
  memset(payload, 0, sizeof(struct tagc_allgather_header));
  memset(payload + at.codes - 16, 0, 16); /* the place of padding: scales are written later */
  tagc_exceptions_clear(list, n);
  for (uint64_t block = 0; block < tagc_allgather_blocks(n); block++) {
    const struct tagc_allgather_place place = tagc_allgather_place(block, n);
    struct tagc_allgather_padded room;
    _Alignas(64) float values[TAGC_ALLGATHER_BLOCK];
    if (!dense->load(tagc_allgather_whole(job->send, place, job->shape.dtype, &room), job->shape.dtype, 1, NULL,
                     values))
      take_q8_exceptions(list, n, place, values);
    tagc_allgather_kernels()->q8_encode(values, job->shape.dtype, (uint16_t *)(payload + at.scales) + 2 * block,
                                        payload + at.codes + block * TAGC_ALLGATHER_BLOCK, job->stats ? &norms : NULL);
  }
  const uint32_t count = tagc_exceptions_close(list, n);
  for (uint64_t i = 0; count > tagc_exceptions_capacity(n) && i < 2 * tagc_allgather_blocks(n); i++)
    ((uint16_t *)(payload + at.scales))[i] = TAGC_Q8_LOST;
  if (job->stats)
    job->stats->nonfinite += count;
  tagc_allgather_set_norms(job, norms);
  tagc_fpmode_leave(mode);
}

/* A damaged list may have positions outside of the shard; a list that is too long has no entries. */
static void put_exceptions(const struct tagc_exceptions *list, const struct tagc_allgather_shape *shape, void *shard) {
  const uint64_t count = list->count <= tagc_exceptions_capacity(shape->n) ? list->count : 0;
  for (uint64_t i = 0; i < count; i++)
    if (list->entry[i].position < shape->n)
      tagc_store(shard, list->entry[i].position, shape->dtype, tagc_float_of(list->entry[i].bits));
}

static void decode_q8_shard(const struct tagc_allgather_job *job, int rank) {
  const uint64_t n = job->shape.n;
  const struct tagc_q8_gather at = tagc_q8_gather_of(n);
  const uint8_t *payload = tagc_allgather_payload(job, rank);
  void *shard = tagc_allgather_shard(job, rank);
  for (uint64_t block = 0; block < tagc_allgather_blocks(n); block++) {
    const struct tagc_allgather_place place = tagc_allgather_place(block, n);
    struct tagc_allgather_padded room;
    tagc_allgather_kernels()->q8_decode((const uint16_t *)(payload + at.scales) + 2 * block,
                                        payload + at.codes + block * TAGC_ALLGATHER_BLOCK, job->shape.dtype,
                                        tagc_allgather_target(shard, place, job->shape.dtype, &room));
    tagc_allgather_settle(shard, place, job->shape.dtype, &room);
  }
  put_exceptions((const struct tagc_exceptions *)(payload + at.exceptions), &job->shape, shard);
}

static void allgather_q8_decode(struct tagc_allgather_job *job) {
  tagc_fpmode mode = tagc_fpmode_enter();
  for (int rank = 0; rank < job->shape.nranks; rank++)
    if (rank != job->rank || !job->keep_own)
      decode_q8_shard(job, rank);
  job->refused = false;
  tagc_fpmode_leave(mode);
}

const struct tagc_allgather_codec tagc_allgather_q8 = {
  .name = "q8",
  .exact = false,
  .may_refuse = false,
  .layout = allgather_q8_layout,
  .encode = allgather_q8_encode,
  .decode = allgather_q8_decode,
  .refer = NULL,
};
