/* SPDX-License-Identifier: BSD-3-Clause
 * The list of codecs for all-gathers, a job's memory, and the shared functions on the host: see allgather.h, kernels.h.
 */
#include "kernels/allgather/kernels.h"

#include <string.h>

#include "kernels/codec/assign_buffer.h"
#include "kernels/codec/variant.h"

const struct tagc_allgather_codec *const tagc_allgather_codecs[] = {
  &tagc_allgather_bf16,  &tagc_allgather_q8,    &tagc_allgather_lossless,
  &tagc_allgather_delta, &tagc_allgather_exact, NULL,
};

const struct tagc_allgather_codec *tagc_allgather_codec_at(int i) {
  enum { ALL = sizeof tagc_allgather_codecs / sizeof *tagc_allgather_codecs };
  return i < ALL - 1 ? tagc_allgather_codecs[i] : i == ALL - 1 ? &tagc_allgather_support : NULL;
}

const struct tagc_allgather_kernels *tagc_allgather_kernels(void) { return TAGC_OF_VARIANT(tagc_allgather); }

size_t tagc_allgather_assign_buffers(struct tagc_allgather_job *job, uint8_t *base) {
  size_t used = 0;
  job->payloads = tagc_assign_buffer(base, &used, (size_t)job->shape.nranks * job->layout.payload_bytes);
  job->state = tagc_assign_buffer(base, &used, job->layout.state_bytes);
  return used;
}

bool tagc_allgather_any_refused(const struct tagc_allgather_job *job) {
  for (int rank = 0; rank < job->shape.nranks; rank++)
    if (((const struct tagc_allgather_header *)tagc_allgather_payload(job, rank))->flags & TAGC_ALLGATHER_REFUSED)
      return true;
  return false;
}

bool tagc_allgather_shape_fits(const struct tagc_allgather_shape *shape) {
  return shape->n > 0 && shape->n <= UINT32_MAX && shape->nranks >= 1 &&
         shape->n <= SIZE_MAX / 16 / (size_t)shape->nranks;
}

bool tagc_allgather_begin_decode(struct tagc_allgather_job *job) {
  job->refused = tagc_allgather_any_refused(job);
  if (job->refused && job->stats)
    job->stats->refused++;
  return !job->refused;
}

void tagc_allgather_decode_shards(struct tagc_allgather_job *job,
                                  void (*decode_shard)(const struct tagc_allgather_job *job, int rank)) {
  if (tagc_allgather_begin_decode(job))
    for (int rank = 0; rank < job->shape.nranks; rank++)
      if (rank != job->rank || !job->keep_own)
        decode_shard(job, rank);
}

void tagc_allgather_set_norms(struct tagc_allgather_job *job, struct tagc_allgather_norms norms) {
  if (!job->stats)
    return;
  job->stats->error2 = norms.error2;
  job->stats->norm2 = norms.norm2;
}

/* -- blocks -------------------------------------------------------------------------------------------------------- */

const void *tagc_allgather_whole(const void *shard, struct tagc_allgather_place place, enum tagc_dtype dtype,
                                 struct tagc_allgather_padded *room) {
  const char *from = (const char *)shard + place.from * tagc_dtype_size(dtype);
  if (place.count == TAGC_ALLGATHER_BLOCK)
    return from;
  memset(room, 0, sizeof *room);
  return memcpy(room->bytes, from, place.count * tagc_dtype_size(dtype));
}

void *tagc_allgather_target(void *shard, struct tagc_allgather_place place, enum tagc_dtype dtype,
                            struct tagc_allgather_padded *room) {
  return place.count == TAGC_ALLGATHER_BLOCK ? (char *)shard + place.from * tagc_dtype_size(dtype)
                                             : (void *)room->bytes;
}

void tagc_allgather_settle(void *shard, struct tagc_allgather_place place, enum tagc_dtype dtype,
                           const struct tagc_allgather_padded *room) {
  if (place.count < TAGC_ALLGATHER_BLOCK)
    memcpy((char *)shard + place.from * tagc_dtype_size(dtype), room->bytes, place.count * tagc_dtype_size(dtype));
}
