/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/broadcast/references.h"

#include <stdlib.h>
#include <string.h>

#include "env/hash.h"

enum {
  OLD = 4, /* a reference is old if so many calls for each of them have gone by without it */
  REFUSALS = 3,
  LONGEST_REST = 64,
};

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

bool tagc_broadcast_shape_of(uint64_t count, size_t element_bytes, bool half, int root,
                             struct tagc_broadcast_shape *out) {
  const uint64_t bytes = count * element_bytes;
  const bool wide = element_bytes >= 4;
  *out = (struct tagc_broadcast_shape){.words = bytes / (wide ? 4 : 2),
                                       .dtype = wide   ? TAGC_FLOAT32
                                                : half ? TAGC_FLOAT16
                                                       : TAGC_BFLOAT16,
                                       .root = root};
  return bytes % 2 == 0 && element_bytes && bytes / element_bytes == count;
}

bool tagc_broadcast_is_same(const struct tagc_broadcast_shape *a, const struct tagc_broadcast_shape *b) {
  return a->words == b->words && a->dtype == b->dtype && a->root == b->root;
}

struct tagc_allgather_shape tagc_broadcast_codec_shape(const struct tagc_broadcast_shape *shape) {
  return (struct tagc_allgather_shape){.n = shape->words, .nranks = 1, .dtype = shape->dtype};
}

/* ---- the choice of the root -------------------------------------------------------------------------------------- */

static uint64_t count_samples(const struct tagc_broadcast_shape *shape) {
  return shape->words < TAGC_BROADCAST_SAMPLES ? shape->words : TAGC_BROADCAST_SAMPLES;
}

/* A word without its lowest bits: a step of training leaves it as it is, most of the time. */
static uint16_t rough_word(const uint8_t *data, uint64_t at, enum tagc_dtype dtype) {
  uint32_t wide;
  uint16_t narrow;
  if (dtype == TAGC_FLOAT32) {
    memcpy(&wide, data + 4 * at, sizeof wide);
    return (uint16_t)(wide >> 20);
  }
  memcpy(&narrow, data + 2 * at, sizeof narrow);
  return narrow >> 4;
}

/* Samples lie an odd number of words apart, so that those of a matrix come from many of its columns. */
bool tagc_references_sample(struct tagc_references *refs, const struct tagc_device *device,
                            const struct tagc_broadcast_shape *shape, const void *send, void *stream) {
  const size_t word = tagc_dtype_size(shape->dtype);
  const uint64_t count = count_samples(shape), apart = count ? (shape->words / count - 1) | 1 : 1;
  uint8_t words[4 * TAGC_BROADCAST_SAMPLES];
  if (!device->copy(device, refs->packed, word, send, apart * word, word, count, stream) ||
      !device->get(device, words, refs->packed, count * word, stream))
    return false;
  for (uint64_t i = 0; i < count; i++)
    refs->sampled.rough[i] = rough_word(words, i, shape->dtype);
  return true;
}

/* The eighths of the samples that are alike. Two tensors of random weights agree in a fiftieth; weights of a few steps
 * later, in nearly all. */
enum { LIKE = 4, SURELY = 7 };

static uint64_t likeness(const struct tagc_references *refs, const struct tagc_reference *reference) {
  const uint64_t count = count_samples(&reference->shape);
  uint64_t alike = 0;
  for (uint64_t i = 0; i < count; i++)
    alike += refs->sampled.rough[i] == reference->samples.rough[i];
  return count ? 8 * alike / count : 0;
}

/* The reference that the content is like, and first of all the one that came next the last time. */
static uint32_t find_like(const struct tagc_references *refs, const struct tagc_broadcast_shape *shape) {
  const uint32_t expected = refs->last < refs->count ? refs->all[refs->last].next : TAGC_NO_REFERENCE;
  uint32_t best = TAGC_NO_REFERENCE;
  uint64_t most = LIKE - 1;
  if (expected < refs->count && tagc_broadcast_is_same(&refs->all[expected].shape, shape) &&
      likeness(refs, &refs->all[expected]) >= SURELY)
    return expected;
  for (uint32_t i = 0; i < refs->count; i++) {
    const uint64_t alike = tagc_broadcast_is_same(&refs->all[i].shape, shape) ? likeness(refs, &refs->all[i]) : 0;
    best = alike > most ? i : best;
    most = alike > most ? alike : most;
  }
  return best;
}

static uint32_t oldest_of(const struct tagc_references *refs) {
  uint32_t oldest = TAGC_NO_REFERENCE;
  for (uint32_t i = 0; i < refs->count; i++)
    if (oldest == TAGC_NO_REFERENCE || refs->all[i].used < refs->all[oldest].used)
      oldest = i;
  return oldest;
}

bool tagc_references_have_room(const struct tagc_references *refs, const struct tagc_broadcast_shape *shape,
                               uint32_t reference, uint64_t most) {
  const uint64_t bytes = tagc_broadcast_bytes(shape);
  const uint64_t old = reference < refs->count ? tagc_broadcast_bytes(&refs->all[reference].shape) : 0;
  return reference <= refs->count && reference < TAGC_REFERENCES_MOST && bytes <= most &&
         refs->bytes - old <= most - bytes;
}

/* The reference of this shape whose turn it is, if calls come round as they did the last time. Its content has then
 * changed wholly: after another checkpoint is loaded, say. */
static uint32_t find_turn(const struct tagc_references *refs, const struct tagc_broadcast_shape *shape) {
  uint32_t found = TAGC_NO_REFERENCE;
  uint64_t least = UINT64_MAX;
  for (uint32_t i = 0; i < refs->count; i++) {
    const struct tagc_reference *r = &refs->all[i];
    const uint64_t age = refs->calls - r->used;
    if (!r->period || age < r->period || age - r->period >= least || !tagc_broadcast_is_same(&r->shape, shape))
      continue;
    found = i;
    least = age - r->period;
  }
  return found;
}

/* The place of a broadcast that is like no reference. */
static struct tagc_broadcast_choice choose_place(const struct tagc_references *refs,
                                                 const struct tagc_broadcast_shape *shape, uint64_t most) {
  const uint32_t turn = find_turn(refs, shape), oldest = oldest_of(refs);
  if (turn != TAGC_NO_REFERENCE && tagc_references_have_room(refs, shape, turn, most))
    return (struct tagc_broadcast_choice){TAGC_BROADCAST_KEEP, turn};
  if (tagc_references_have_room(refs, shape, refs->count, most))
    return (struct tagc_broadcast_choice){TAGC_BROADCAST_KEEP, refs->count};
  if (oldest < refs->count && refs->calls - refs->all[oldest].used > OLD * (uint64_t)refs->count &&
      tagc_references_have_room(refs, shape, oldest, most))
    return (struct tagc_broadcast_choice){TAGC_BROADCAST_KEEP, oldest};
  return (struct tagc_broadcast_choice){TAGC_BROADCAST_PLAIN, TAGC_NO_REFERENCE};
}

struct tagc_broadcast_choice tagc_references_choose(struct tagc_references *refs,
                                                    const struct tagc_broadcast_shape *shape, uint64_t most) {
  const uint32_t like = find_like(refs, shape);
  if (like == TAGC_NO_REFERENCE)
    return choose_place(refs, shape, most);
  struct tagc_reference *reference = &refs->all[like];
  if (!reference->rest)
    return (struct tagc_broadcast_choice){TAGC_BROADCAST_CHANGES, like};
  reference->rest--;
  return (struct tagc_broadcast_choice){TAGC_BROADCAST_KEEP, like};
}

void tagc_references_watch(struct tagc_references *refs, uint32_t reference, bool refused) {
  struct tagc_reference *r = &refs->all[reference];
  r->refused = refused ? r->refused + 1 : 0;
  if (!refused)
    r->rested = 0;
  if (r->refused < REFUSALS)
    return;
  r->refused = 0;
  r->rested = r->rested ? 2 * r->rested : 2;
  r->rest = r->rested = r->rested < LONGEST_REST ? r->rested : LONGEST_REST;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

uint64_t tagc_references_digest(const struct tagc_references *refs) {
  uint64_t hash = TAGC_HASH_START;
  for (uint32_t i = 0; i < refs->count; i++) {
    const struct tagc_reference *r = &refs->all[i];
    const uint64_t words[] = {r->shape.words, (uint64_t)r->shape.dtype, (uint64_t)r->shape.root, r->digest, hash};
    hash = tagc_hash_words(words, sizeof words);
  }
  return hash;
}

void tagc_references_use(struct tagc_references *refs, uint32_t reference) {
  if (refs->last < refs->count)
    refs->all[refs->last].next = reference;
  refs->all[reference].period = refs->all[reference].used ? refs->calls - refs->all[reference].used : 0;
  refs->all[reference].used = refs->calls;
  refs->all[reference].samples = refs->sampled;
  refs->last = reference;
}

/* Without memory for the list nothing is lost but references: this rank says that it has none. */
static bool grow_list(struct tagc_references *refs) {
  const uint32_t room = refs->room ? 2 * refs->room : 16;
  struct tagc_reference *all = realloc(refs->all, room * sizeof *all);
  if (!all)
    return false;
  refs->all = all;
  refs->room = room;
  return true;
}

static void forget_memory(struct tagc_references *refs, struct tagc_reference *r) {
  refs->pinned -= r->pinned ? tagc_broadcast_bytes(&r->shape) : 0;
  r->memory = r->tables = NULL;
  r->pinned = false;
}

static void give_back_reference(struct tagc_references *refs, const struct tagc_device *device,
                                struct tagc_reference *r, void *fence) {
  device->release_after(device, r->memory, fence);
  device->release_after(device, r->tables, fence);
  forget_memory(refs, r);
}

/* The reference's bytes are part of refs->bytes already. Those of all references are within both limits together, so
 * one that the device's limit excludes may exceed the other limit. One for which the device has no memory may not. */
static void *find_memory(struct tagc_references *refs, const struct tagc_device *device, struct tagc_reference *r,
                         size_t needed, const struct tagc_reference_limits *limits, void *stream) {
  const uint64_t bytes = tagc_broadcast_bytes(&r->shape);
  const bool fits = refs->bytes - refs->pinned <= limits->device || bytes < TAGC_PINNED_LARGE;
  void *memory = fits ? device->alloc(device, needed, stream) : NULL;
  if (memory || !limits->pinned || (fits && refs->pinned + bytes > limits->pinned))
    return memory;
  memory = device->alloc_pinned(device, needed);
  r->pinned = memory;
  refs->pinned += memory ? bytes : 0;
  return memory;
}

bool tagc_references_keep(struct tagc_references *refs, const struct tagc_device *device,
                          const struct tagc_broadcast_shape *shape, const struct tagc_allgather_layout *layout,
                          uint32_t reference, const struct tagc_reference_limits *limits, void *stream) {
  if (reference == refs->count && refs->count == refs->room && !grow_list(refs)) {
    refs->no_memory = true;
    return false;
  }
  struct tagc_reference *r = &refs->all[reference];
  if (reference == refs->count) {
    *r = (struct tagc_reference){.next = TAGC_NO_REFERENCE};
    refs->count++;
  }
  if (!tagc_broadcast_is_same(&r->shape, shape)) {
    device->release(device, r->memory, stream);
    device->release(device, r->tables, stream);
    forget_memory(refs, r);
  }
  refs->bytes += tagc_broadcast_bytes(shape) - tagc_broadcast_bytes(&r->shape);
  r->shape = *shape;
  if (!r->memory)
    r->memory = find_memory(refs, device, r, layout->reference_bytes, limits, stream);
  if (!r->tables && layout->tables_bytes)
    r->tables = device->alloc(device, layout->tables_bytes, stream);
  refs->no_memory |= !r->memory || (!r->tables && layout->tables_bytes);
  tagc_references_use(refs, reference);
  return !refs->no_memory;
}

void tagc_references_forget(struct tagc_references *refs, const struct tagc_device *device, void *fence) {
  for (uint32_t i = 0; i < refs->count; i++)
    give_back_reference(refs, device, &refs->all[i], fence);
  refs->count = 0;
  refs->bytes = 0;
  refs->last = TAGC_NO_REFERENCE;
  refs->lost = false;
}

bool tagc_references_reserve_statuses(struct tagc_references *refs, const struct tagc_device *device, int nranks,
                                      void *stream) {
  const size_t bytes = (size_t)nranks * TAGC_BROADCAST_STATUS_BYTES;
  if (!refs->told) {
    refs->last = TAGC_NO_REFERENCE;
    refs->told = device->alloc(device, bytes, stream);
    refs->told_pinned = !refs->told;
  }
  if (!refs->told)
    refs->told = device->alloc_pinned(device, bytes);
  if (!refs->heard)
    refs->heard = malloc(bytes);
  return refs->told && refs->heard;
}

bool tagc_references_reserve_payload(struct tagc_references *refs, const struct tagc_device *device, size_t bytes,
                                     void *stream) {
  const size_t samples = 4 * TAGC_BROADCAST_SAMPLES, needed = bytes > samples ? bytes : samples;
  if (refs->packed_bytes >= needed)
    return true;
  uint8_t *packed = device->alloc(device, needed, stream);
  if (packed) {
    device->release(device, refs->packed, stream);
    refs->packed = packed;
    refs->packed_bytes = needed;
  }
  refs->no_memory |= !packed;
  return packed != NULL;
}

void tagc_references_free(struct tagc_references *refs, const struct tagc_device *device, void *fence, bool leak) {
  for (uint32_t i = 0; i < refs->count && !leak; i++)
    give_back_reference(refs, device, &refs->all[i], fence);
  if (!leak && refs->told && !refs->told_pinned)
    device->release_after(device, refs->told, fence);
  if (!leak && refs->packed)
    device->release_after(device, refs->packed, fence);
  free(refs->heard);
  free(refs->all);
  *refs = (struct tagc_references){.last = TAGC_NO_REFERENCE};
}
