/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/comm/chunking.h"

bool tagc_depth_cut(const struct tagc_device *device, struct tagc_slot *slot, int depth)
{
  struct tagc_layout all = {0};
  bool good = device->layout(device, slot->codec, &slot->shape, &slot->layout);
  slot->pieces = tagc_pieces_of(slot->shape.n, depth);
  for (int k = 0; k < slot->pieces.count && good; k++) {
    const struct tagc_shape shape = tagc_piece_shape(&slot->shape, &slot->pieces, k);
    struct tagc_layout *its = &slot->piece[k];
    good = device->layout(device, slot->codec, &shape, its) && !its->exponent_bytes == !slot->layout.exponent_bytes &&
           !its->sketch_count == !slot->layout.sketch_count;
    all.exponent_bytes += its->exponent_bytes;
    all.sketch_count += its->sketch_count;
    all.message_bytes += its->message_bytes;
    all.state_bytes += its->state_bytes;
    all.capacity += its->capacity;
  }
  if (good)
    slot->layout = all;
  else
    slot->pieces = tagc_pieces_of(slot->shape.n, 1);
  return good;
}

size_t tagc_depth_carve(const struct tagc_slot *slot, struct tagc_job *job, struct tagc_job *piece, uint8_t *base)
{
  size_t used = 0;
  if (slot->pieces.count <= 1)
    return tagc_job_carve(job, base);
  for (int k = 0; k < slot->pieces.count; k++) {
    struct tagc_job sized = {.shape = tagc_piece_shape(&slot->shape, &slot->pieces, k)}, *to = base ? &piece[k] : &sized;
    if (base)
      *to = tagc_piece_job(job, &slot->pieces, k);
    to->layout = slot->piece[k];
    used += tagc_job_carve(to, base ? base + used : NULL);
  }
  return used;
}

/* ---- all-gathers ------------------------------------------------------------------------------------------------------ */

bool tagc_depth_cut_gather(const struct tagc_device *device, const struct tagc_allgather_codec *codec,
                           const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *layout,
                           struct tagc_gather_pieces *cut, int depth)
{
  struct tagc_allgather_layout all = {0};
  bool good = device->allgather_layout(device, codec, shape, layout);
  cut->pieces = tagc_pieces_of(shape->n, depth);
  for (int k = 0; k < cut->pieces.count && good; k++) {
    const struct tagc_allgather_shape its = tagc_piece_gather_shape(shape, &cut->pieces, k);
    good = device->allgather_layout(device, codec, &its, &cut->layout[k]);
    all.payload_bytes += cut->layout[k].payload_bytes;
    all.reference_bytes += cut->layout[k].reference_bytes;
    all.state_bytes += cut->layout[k].state_bytes;
  }
  if (good)
    *layout = all;
  else
    cut->pieces = tagc_pieces_of(shape->n, 1);
  return good;
}

size_t tagc_depth_carve_gather(const struct tagc_gather_pieces *cut, struct tagc_allgather_job *job, struct tagc_allgather_job *piece,
                               uint8_t *base)
{
  size_t used = 0;
  if (cut->pieces.count <= 1)
    return tagc_allgather_carve(job, base);
  for (int k = 0; k < cut->pieces.count; k++) {
    struct tagc_allgather_job sized = {.shape = tagc_piece_gather_shape(&job->shape, &cut->pieces, k)}, *to = base ? &piece[k] : &sized;
    if (base)
      *to = tagc_piece_gather_job(job, &cut->pieces, k);
    to->layout = cut->layout[k];
    used += tagc_allgather_carve(to, base ? base + used : NULL);
  }
  return used;
}

size_t tagc_depth_gather_bytes(const struct tagc_device *device, const struct tagc_allgather_codec *codec,
                               const struct tagc_allgather_shape *shape, const struct tagc_allgather_layout *layout,
                               const struct tagc_gather_pieces *cut)
{
  struct tagc_allgather_job job = {.shape = *shape, .layout = *layout};
  const size_t bytes = tagc_depth_carve_gather(cut, &job, NULL, NULL);
  if (cut->pieces.count <= 1 || !device->allgather_layout(device, codec, shape, &job.layout))
    return bytes;
  const size_t in_one = tagc_allgather_carve(&job, NULL);
  return in_one > bytes ? in_one : bytes;
}
