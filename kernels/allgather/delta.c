/* SPDX-License-Identifier: BSD-3-Clause
 * The codec for all-gathers that sends the changes since the last one in 4 bits an element (SDP4Bit, arXiv 2410.15526).
 *
 * Reference  The last result, all shards, in the type of the call, the same on all ranks. The sender takes the
 *            difference from it, so the rounding error of one call is in the difference of the next.
 * Payload    header (allgather.h), then, for the differences as q4.c does it for gradients,
 *              scales   uint16 x 2 x blocks of 256: bf16; for the rotated elements (rotate.h) 0 to 127, and 128 to 255,
 *                       of a block: the largest magnitude / 7, rounded up; 0 below 2^-110
 *              codes    128 bytes x blocks: byte j has in its lower half the code of rotated element j, in its upper
 *                       half that of j + 128: c * (1 / scale), rounded to nearest even, within +-7, two's complement
 *            The new reference, and the result: reference + difference, rounded to the type; in fp16 within +-65504.
 * Example    n = 1, fp32, seed 1, rank 1, reference 10000, shard (8208): the difference is -1792, element 0 keeps its
 *            sign there and all rotated ones are -7, the scales 1.
 *              (16 zeros)  80 3f  80 3f  (12 zeros)  99 (128 times)
 * Refused    A shard with a value or difference that is not finite, or 2^56 and more. Also a shard with more than a
 *            quarter of its blocks far from the reference: the squared norm of the difference is more than 1/16 of that
 *            of the block (another slot's reference, a loaded checkpoint). The caller then gathers plainly and calls
 *            refer(), as it does at first.
 * Norms      come from decode: the loss is the difference of the own shard from its part of the new reference.
 */
#include <string.h>

#include "kernels/allgather/kernels.h"
#include "kernels/dense/dense.h"
#include "kernels/codec/fpmode.h"
#include "kernels/codec/variant.h"

static bool delta_layout(const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *out) {
  if (!tagc_allgather_shape_fits(shape))
    return false;
  const size_t shard = shape->n * tagc_dtype_size(shape->dtype);
  *out = (struct tagc_allgather_layout){
    .payload_bytes = tagc_delta_gather_of(shape->n).bytes,
    .reference_bytes = (size_t)shape->nranks * shard,
  };
  return out->payload_bytes < shard;
}

static void find_shard_signs(uint64_t signs[TAGC_ROTATION_WORDS], const struct tagc_allgather_job *job, int rank,
                             uint64_t block) {
  const uint64_t key = tagc_rotation_key(job->seed, (uint32_t)rank);
  for (uint32_t word = 0; word < TAGC_ROTATION_WORDS; word++)
    signs[word] = tagc_rotation_signs(key, block, word);
}

static void allgather_delta_encode(struct tagc_allgather_job *job) {
  tagc_fpmode mode = tagc_fpmode_enter();
  const struct tagc_dense_kernels *dense = TAGC_OF_VARIANT(tagc_dense);
  const uint64_t n = job->shape.n, blocks = tagc_allgather_blocks(n);
  const struct tagc_delta_gather at = tagc_delta_gather_of(n);
  uint8_t *payload = tagc_allgather_payload(job, job->rank);
  uint64_t far = 0;
  bool unfit = false;
  struct tagc_dense_context context = {.stochastic = false};
  memset(payload, 0, sizeof(struct tagc_allgather_header));
  memset(payload + at.codes - 16, 0, 16); /* the place of padding: scales are written later */
  for (uint64_t block = 0; block < blocks && !unfit; block++) {
    const struct tagc_allgather_place place = tagc_allgather_place(block, n);
    struct tagc_allgather_padded value, reference;
    _Alignas(64) float differences[TAGC_ALLGATHER_BLOCK];
    const uint32_t look = tagc_allgather_kernels()->delta_differ(
      tagc_allgather_whole(job->send, place, job->shape.dtype, &value),
      tagc_allgather_whole(tagc_allgather_part(job, job->reference, job->rank), place, job->shape.dtype, &reference),
      job->shape.dtype, differences);
    for (uint32_t i = 0; look & TAGC_DELTA_TINY && i < TAGC_ALLGATHER_BLOCK; i++)
      differences[i] = tagc_dense_strip(differences[i]);
    far += (look & TAGC_DELTA_FAR) != 0;
    unfit = look & TAGC_DELTA_UNFIT;
    find_shard_signs(context.signs, job, job->rank, block);
    dense->codec[TAGC_DENSE_Q4].encode(differences, &context, (uint16_t *)(payload + at.scales) + 2 * block,
                                       payload + at.codes + block * TAGC_ALLGATHER_HALF, NULL);
  }
  if (unfit || tagc_delta_refuses(far, blocks))
    ((struct tagc_allgather_header *)payload)->flags = TAGC_ALLGATHER_REFUSED;
  tagc_fpmode_leave(mode);
}

static void decode_delta_shard(const struct tagc_allgather_job *job, int rank) {
  const struct tagc_dense_kernels *dense = TAGC_OF_VARIANT(tagc_dense);
  const uint64_t n = job->shape.n;
  const enum tagc_dtype dtype = job->shape.dtype;
  const struct tagc_delta_gather at = tagc_delta_gather_of(n);
  const uint8_t *payload = tagc_allgather_payload(job, rank);
  void *shard = rank == job->rank && job->keep_own ? NULL : tagc_allgather_shard(job, rank);
  void *references = tagc_allgather_part(job, job->reference, rank);
  for (uint64_t block = 0; block < tagc_allgather_blocks(n); block++) {
    const struct tagc_allgather_place place = tagc_allgather_place(block, n);
    struct tagc_allgather_padded received, reference;
    uint64_t signs[TAGC_ROTATION_WORDS];
    _Alignas(64) float sum[TAGC_ALLGATHER_BLOCK] = {0};
    dense->codec[TAGC_DENSE_Q4].add(sum, (const uint16_t *)(payload + at.scales) + 2 * block,
                                    payload + at.codes + block * TAGC_ALLGATHER_HALF);
    find_shard_signs(signs, job, rank, block);
    dense->turn_back(sum, signs);
    (void)tagc_allgather_whole(references, place, dtype, &reference);
    tagc_allgather_kernels()->delta_add(sum, dtype, tagc_allgather_target(references, place, dtype, &reference),
                                        shard ? tagc_allgather_target(shard, place, dtype, &received) : NULL);
    tagc_allgather_settle(references, place, dtype, &reference);
    if (shard)
      tagc_allgather_settle(shard, place, dtype, &received);
  }
}

static void allgather_delta_decode(struct tagc_allgather_job *job) {
  tagc_fpmode mode = tagc_fpmode_enter();
  if (tagc_allgather_begin_decode(job)) {
    struct tagc_allgather_norms norms = {0};
    for (int rank = 0; rank < job->shape.nranks; rank++)
      decode_delta_shard(job, rank);
    if (job->stats)
      tagc_allgather_kernels()->compare(job->send, tagc_allgather_part(job, job->reference, job->rank), job->shape.n,
                                        job->shape.dtype, &norms);
    tagc_allgather_set_norms(job, norms);
  }
  tagc_fpmode_leave(mode);
}

static void delta_refer(struct tagc_allgather_job *job) {
  memcpy(job->reference, job->recv, job->layout.reference_bytes);
}

const struct tagc_allgather_codec tagc_allgather_delta = {
  .name = "delta",
  .exact = false,
  .may_refuse = true,
  .layout = delta_layout,
  .encode = allgather_delta_encode,
  .decode = allgather_delta_decode,
  .refer = delta_refer,
};
