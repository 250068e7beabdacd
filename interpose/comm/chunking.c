/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/comm/chunking.h"

/* What a rank sends of a piece, at least, and how many there are at most by itself: measured on the host (tests/bench/depth.sh), where more
 * gain little. The same for all devices, as bits may depend on it. */
enum { LEAST_BYTES = 512 << 10, MOST_BY_ITSELF = 4 };

/* What it must gain at least: estimates leave out what else the machine does. */
static const double WORTH_IT = 0.97;

static int room_of(uint64_t sent)
{
  const uint64_t most = sent / LEAST_BYTES;
  return most > MOST_BY_ITSELF ? MOST_BY_ITSELF : most > 1 ? (int)most : 1;
}

/* Short shards go in fewer pieces than are asked for. */
static int pieces_for(uint64_t n, int depth) { return tagc_pieces_of(n, depth).count; }

int tagc_depth_plan(const struct tagc_options *options, const struct tagc_codec *codec, const struct tagc_shape *shape,
                    const struct tagc_layout *layout, const struct tagc_call_times *times)
{
  if (!tagc_pieces_can(codec, layout))
    return 1;
  if (options->depth)
    return pieces_for(shape->n, (int)options->depth);
  const int room = pieces_for(shape->n, room_of(tagc_layout_wire_bytes(shape, layout)));
  if (!times)
    return room;
  int best = 1;
  for (int depth = 2; depth <= room; depth++)
    if (tagc_call_ns(times, depth) < tagc_call_ns(times, best))
      best = depth;
  return tagc_call_ns(times, best) <= WORTH_IT * tagc_call_ns(times, 1) ? best : 1;
}

int tagc_depth_plan_gather(const struct tagc_options *options, const struct tagc_allgather_shape *shape,
                           const struct tagc_allgather_layout *layout)
{
  return pieces_for(shape->n, options->depth ? (int)options->depth : room_of(layout->payload_bytes * (uint64_t)(shape->nranks - 1)));
}

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
