/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/comm/chunking.h"

#include "interpose/comm/comm.h"
#include "interpose/nccl/process.h"
#include "kernels/codec/assign_buffer.h"

bool tagc_chunking_set(const struct tagc_device *device, struct tagc_slot *slot, int count) {
  struct tagc_layout all = {0};
  bool good = device->layout(device, slot->codec, &slot->packed, &slot->layout);
  slot->chunking.chunks = tagc_chunks_of(slot->packed.n, count);
  for (int k = 0; k < slot->chunking.chunks.count && good; k++) {
    const struct tagc_shape shape = tagc_chunk_shape(&slot->packed, &slot->chunking.chunks, k);
    struct tagc_layout *its = &slot->chunking.layout[k];
    good = device->layout(device, slot->codec, &shape, its) &&
           (slot->chunking.chunks.count == 1 || tagc_chunks_possible(slot->codec, its));
    all.exponent_bytes += its->exponent_bytes;
    all.sketch_count += its->sketch_count;
    all.message_bytes += its->message_bytes;
    all.state_bytes += its->state_bytes;
    all.capacity += its->capacity;
  }
  if (good)
    slot->layout = all;
  else
    slot->chunking.chunks = tagc_chunks_of(slot->packed.n, 1);
  return good;
}

bool tagc_chunking_set_stage(const struct tagc_device *device, struct tagc_slot *slot, uint32_t stage, int count) {
  const struct tagc_schedule *schedule = &tagc_library_options()->sparsity;
  struct tagc_slot at = *slot;
  at.stages.now = stage;
  if (schedule->count > 1) /* else TAGC_CODEC=auto may have chosen it */
    at.packed.keep_ppm = 1000000 - schedule->ppm[stage];
  if (!tagc_chunking_set(device, &at, count))
    return false;
  *slot = at;
  return true;
}

size_t tagc_chunking_assign(const struct tagc_slot *slot, struct tagc_job *job, struct tagc_job *chunk, uint8_t *base) {
  size_t used = 0, measured = 0;
  if (slot->chunking.chunks.count <= 1)
    return tagc_job_assign_buffers(job, base);
  job->exponents = tagc_assign_buffer(base, &used, (size_t)slot->packed.nranks * slot->layout.exponent_bytes);
  for (int k = 0; k < slot->chunking.chunks.count; k++) {
    struct tagc_job sized = {.shape = tagc_chunk_shape(&slot->packed, &slot->chunking.chunks, k)},
                    *to = base ? &chunk[k] : &sized;
    if (base)
      *to = tagc_chunk_job(job, &slot->chunking.chunks, k);
    to->layout = slot->chunking.layout[k];
    to->layout.exponent_bytes = 0; /* they lie together */
    used += tagc_job_assign_buffers(to, base ? base + used : NULL);
    to->layout = slot->chunking.layout[k];
    to->exponents = base ? job->exponents + measured : NULL;
    measured += (size_t)slot->packed.nranks * to->layout.exponent_bytes;
  }
  return used;
}

/* ---- all-gathers ------------------------------------------------------------------------------------------------- */

bool tagc_chunking_set_allgather(const struct tagc_device *device, const struct tagc_allgather_codec *codec,
                                 const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *layout,
                                 struct tagc_allgather_chunking *chunking, int count) {
  struct tagc_allgather_layout all = {0};
  bool good = device->allgather_layout(device, codec, shape, layout);
  chunking->chunks = tagc_chunks_of(shape->n, count);
  for (int k = 0; k < chunking->chunks.count && good; k++) {
    const struct tagc_allgather_shape its = tagc_chunk_allgather_shape(shape, &chunking->chunks, k);
    good = device->allgather_layout(device, codec, &its, &chunking->layout[k]);
    all.payload_bytes += chunking->layout[k].payload_bytes;
    all.reference_bytes += chunking->layout[k].reference_bytes;
    all.tables_bytes += chunking->layout[k].tables_bytes;
    all.state_bytes += chunking->layout[k].state_bytes;
  }
  if (good)
    *layout = all;
  else
    chunking->chunks = tagc_chunks_of(shape->n, 1);
  return good;
}

size_t tagc_chunking_assign_allgather(const struct tagc_allgather_chunking *chunking, struct tagc_allgather_job *job,
                                      struct tagc_allgather_job *chunk, uint8_t *base) {
  size_t used = 0;
  if (chunking->chunks.count <= 1)
    return tagc_allgather_assign_buffers(job, base);
  for (int k = 0; k < chunking->chunks.count; k++) {
    struct tagc_allgather_job sized = {.shape = tagc_chunk_allgather_shape(&job->shape, &chunking->chunks, k)},
                              *to = base ? &chunk[k] : &sized;
    if (base)
      *to = tagc_chunk_allgather_job(job, &chunking->chunks, k);
    to->layout = chunking->layout[k];
    used += tagc_allgather_assign_buffers(to, base ? base + used : NULL);
  }
  return used;
}

size_t tagc_chunking_allgather_bytes(const struct tagc_device *device, const struct tagc_allgather_codec *codec,
                                     const struct tagc_allgather_shape *shape,
                                     const struct tagc_allgather_layout *layout,
                                     const struct tagc_allgather_chunking *chunking) {
  struct tagc_allgather_job job = {.shape = *shape, .layout = *layout};
  const size_t bytes = tagc_chunking_assign_allgather(chunking, &job, NULL, NULL);
  if (chunking->chunks.count <= 1 || !device->allgather_layout(device, codec, shape, &job.layout))
    return bytes;
  const size_t in_one = tagc_allgather_assign_buffers(&job, NULL);
  return in_one > bytes ? in_one : bytes;
}
