/* SPDX-License-Identifier: BSD-3-Clause
 * Memory of a CUDA device, and copies.
 *
 * Pool       Our own stream-ordered pool, opened to the other GPUs of this process, if they can access it: NCCL up to
 *            2.23 writes into the receive buffers of ranks in the same process, and ignores pools. (It exports and
 *            registers only buffers given to ncclCommRegister() or captured.) The later set-up opens the pools both
 *            ways; a process with one GPU opens none. No allocation waits for work of another stream: two communicators
 *            whose ranks come in different orders would deadlock. Freed memory goes to the driver when the program
 *            synchronises next: the pool keeps nothing.
 * Old way    Without pools: cuMemAlloc, and never cuMemFree, which waits for all work of the GPU, even work that waits
 *            for a call that the caller has yet to make. A freed block is reused for requests not much smaller, once
 *            its event has passed.
 * Pinned     Pinned host memory is never freed, for the same reason. Its first piece belongs to the set-up. Large
 *            requests have blocks of their own, which are used again like those of the old way.
 * Copies     Copies from the host go through pinned memory: from other memory the driver may wait for the stream, or
 *            (as documented up to CUDA 11.1) copy later, in a thread of its own. Larger copies are waited for. Copies
 *            on the device take whatever kernels reach: a program's buffers may be pinned, or managed.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/device/cuda_device.h"

/* From cuda.h. */
enum { MEMORY_POOLS = 115 }; /* a device attribute */
enum { POOL_PINNED = 1, LOCATION_DEVICE = 1, ACCESS_READ_WRITE = 3, POOL_INTERNAL_DEPENDENCIES = 3 };
enum { POINTER_MEMORY_TYPE = 2, POINTER_DEVICE = 3, POINTER_IS_MANAGED = 8, POINTER_ORDINAL = 9, MEMORY_HOST = 1 };

struct location {
  int type, id;
};

struct pool_properties {
  int type, handle_types;
  struct location location;
  void *security;
  size_t max_size;
  unsigned short usage;
  unsigned char reserved[54];
};

struct pool_access {
  struct location location;
  int flags;
};
static_assert(sizeof(struct pool_properties) == 88 && sizeof(struct pool_access) == 12, "as in cuda.h");

/* A piece of pinned memory holds the tallies of 3,000 calls: a vote takes them while other kernels run, and to allocate
 * more might wait for these. */
enum { PINNED_PIECE = 1 << 20, SLACK = 64 << 10, STAGE = 8 << 10 };

struct tagc_cuda_block {
  struct tagc_cuda_block *next;
  uint64_t memory;
  size_t bytes;
  void *event; /* of its last use */
  bool used, pinned;
};

/* A copy from the host, perhaps under way. */
struct tagc_cuda_stage {
  struct tagc_cuda_stage *next;
  char *pinned; /* STAGE bytes */
  void *event;  /* after the copy */
};

/* -- set-up -------------------------------------------------------------------------------------------------------- */

/* The devices whose memory is set up, lost ones too. */
static struct tagc_cuda_device *all;
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;

static bool make_pool(struct tagc_cuda_device *d) {
  const struct pool_properties properties = {.type = POOL_PINNED, .location = {LOCATION_DEVICE, d->number}};
  int has_pools = 0, no = 0;
  return d->driver->device_attribute(&has_pools, MEMORY_POOLS, d->number) == 0 && has_pools &&
         tagc_cuda_did(d, d->driver->pool_create(&d->pool, &properties), "cuMemPoolCreate") &&
         tagc_cuda_did(d, d->driver->pool_set(d->pool, POOL_INTERNAL_DEPENDENCIES, &no), "cuMemPoolSetAttribute");
}

static void drop_pool(struct tagc_cuda_device *d) {
  if (d->pool)
    tagc_cuda_did(d, d->driver->pool_destroy(d->pool), "cuMemPoolDestroy");
  d->pool = NULL;
}

/* Opens the pool, and memory already taken from it, to another GPU, if that can reach it at all. Returns an error. */
static int let_in(const struct tagc_cuda_device *d, const struct tagc_cuda_device *peer) {
  const struct pool_access access = {{LOCATION_DEVICE, peer->number}, ACCESS_READ_WRITE};
  int yes = 0;
  if (!d->pool || d->driver->device_reaches(&yes, peer->number, d->number) != 0 || !yes)
    return 0;
  return d->driver->pool_access(d->pool, &access, 1);
}

/* Only the pool of the new GPU can be dropped: those of the others are in use. */
bool tagc_cuda_memory_set_up(struct tagc_cuda_device *d) {
  int closed = 0;
  if (!make_pool(d))
    drop_pool(d);
  pthread_mutex_lock(&all_lock);
  for (struct tagc_cuda_device *other = all; other && !closed; other = other->next) {
    if (other->number == d->number || tagc_cuda_is_lost(other))
      continue;
    if (!tagc_cuda_did(d, let_in(d, other), "cuMemPoolSetAccess"))
      drop_pool(d);
    closed = let_in(other, d);
  }
  if (!closed) {
    d->next = all;
    all = d;
  }
  pthread_mutex_unlock(&all_lock);
  if (!closed)
    return true;
  drop_pool(d);
  tagc_cuda_words(closed, "cuMemPoolSetAccess for the pool of another GPU", d->why, sizeof d->why);
  return false;
}

/* -- blocks: large pinned memory, and the old way ------------------------------------------------------------------ */

/* Returns a freed block that no work uses any more; 0: none. */
static uint64_t take_block_again(struct tagc_cuda_device *d, size_t bytes, bool pinned) {
  uint64_t memory = 0;
  pthread_mutex_lock(&d->lock);
  for (struct tagc_cuda_block *b = d->blocks; b && !memory; b = b->next)
    if (!b->used && b->pinned == pinned && b->bytes >= bytes && b->bytes / 2 <= bytes + SLACK &&
        d->driver->event_query(b->event) == 0) {
      b->used = true;
      memory = b->memory;
    }
  pthread_mutex_unlock(&d->lock);
  return memory;
}

static bool alloc_block(struct tagc_cuda_device *d, uint64_t *memory, size_t bytes, bool pinned) {
  void *host = NULL;
  if (!pinned)
    return tagc_cuda_did(d, d->driver->alloc(memory, bytes), "cuMemAlloc");
  const bool good = tagc_cuda_did(d, d->driver->alloc_host(&host, bytes), "cuMemAllocHost");
  *memory = tagc_cuda_address(host);
  return good;
}

static uint64_t take_block(struct tagc_cuda_device *d, size_t bytes, bool pinned) {
  const uint64_t again = take_block_again(d, bytes, pinned);
  if (again)
    return again;
  struct tagc_cuda_block *block = calloc(1, sizeof *block);
  void *event = block ? tagc_cuda_event(d, false) : NULL;
  uint64_t memory = 0;
  if (!event || !alloc_block(d, &memory, bytes, pinned)) {
    if (event)
      tagc_cuda_did(d, d->driver->event_destroy(event), "cuEventDestroy");
    free(block);
    return 0;
  }
  pthread_mutex_lock(&d->lock);
  *block = (struct tagc_cuda_block){d->blocks, memory, bytes, event, true, pinned};
  d->blocks = block;
  pthread_mutex_unlock(&d->lock);
  return memory;
}

static struct tagc_cuda_block *find_block(struct tagc_cuda_device *d, uint64_t memory) {
  struct tagc_cuda_block *block;
  pthread_mutex_lock(&d->lock);
  for (block = d->blocks; block && block->memory != memory;)
    block = block->next;
  pthread_mutex_unlock(&d->lock);
  return block;
}

/* A block whose event cannot be recorded stays unused: reuse under a running kernel would be worse. */
static void give_back_block(struct tagc_cuda_device *d, struct tagc_cuda_block *block, void *stream) {
  if (!tagc_cuda_did(d, d->driver->event_record(block->event, stream), "cuEventRecord"))
    return;
  pthread_mutex_lock(&d->lock);
  block->used = false;
  pthread_mutex_unlock(&d->lock);
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

void *tagc_cuda_alloc(const struct tagc_device *self, size_t bytes, void *stream) {
  struct tagc_cuda_device *d = tagc_cuda_device_of(self);
  struct tagc_cuda_visit visit;
  uint64_t memory = 0;
  if (!tagc_cuda_enter_ready(self, &visit))
    return NULL;
  const size_t size = bytes ? bytes : 1;
  if (!tagc_cuda_takes(d, stream))
    memory = 0;
  else if (!d->pool)
    memory = take_block(d, size, false);
  else if (!tagc_cuda_did(d, d->driver->alloc_from_pool(&memory, size, d->pool, stream), "cuMemAllocFromPoolAsync"))
    memory = 0;
  tagc_cuda_leave(&visit, true);
  return (void *)(uintptr_t)memory;
}

static void give_memory_back(struct tagc_cuda_device *d, void *memory, void *stream) {
  struct tagc_cuda_block *block = find_block(d, tagc_cuda_address(memory));
  if (block)
    give_back_block(d, block, stream);
  else if (d->pool)
    tagc_cuda_did(d, d->driver->free_async(tagc_cuda_address(memory), stream), "cuMemFreeAsync");
}

void tagc_cuda_release(const struct tagc_device *self, void *memory, void *stream) {
  struct tagc_cuda_visit visit;
  if (!memory || !tagc_cuda_enter(self, &visit))
    return;
  give_memory_back(visit.device, memory, stream);
  tagc_cuda_leave(&visit, true);
}

void tagc_cuda_release_after(const struct tagc_device *self, void *memory, void *fence) {
  struct tagc_cuda_visit visit;
  if (!memory || !tagc_cuda_enter(self, &visit))
    return;
  struct tagc_cuda_device *d = visit.device;
  if (!fence || tagc_cuda_did(d, d->driver->stream_wait(d->service, fence, 0), "cuStreamWaitEvent"))
    give_memory_back(d, memory, d->service); /* else it leaks: freeing it under a kernel would be worse */
  tagc_cuda_leave(&visit, true);
}

static void *take_pinned(struct tagc_cuda_device *d, size_t room) {
  void *memory = NULL;
  pthread_mutex_lock(&d->lock);
  if (d->pinned && room <= d->pinned_left) {
    memory = d->pinned;
    d->pinned += room;
    d->pinned_left -= room;
  }
  pthread_mutex_unlock(&d->lock);
  return memory;
}

void *tagc_cuda_pinned(struct tagc_cuda_device *d, size_t bytes) {
  const size_t room = (bytes + 63) / 64 * 64, piece = room > PINNED_PIECE ? room : PINNED_PIECE;
  void *memory = take_pinned(d, room), *more = NULL;
  if (memory || !tagc_cuda_did(d, d->driver->alloc_host(&more, piece), "cuMemAllocHost"))
    return memory;
  pthread_mutex_lock(&d->lock);
  if (piece - room >= d->pinned_left) { /* keeps the larger rest */
    d->pinned = (char *)more + room;
    d->pinned_left = piece - room;
  }
  pthread_mutex_unlock(&d->lock);
  return more;
}

void *tagc_cuda_alloc_pinned(const struct tagc_device *self, size_t bytes) {
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter(self, &visit))
    return NULL;
  void *memory = bytes < TAGC_PINNED_LARGE ? tagc_cuda_pinned(visit.device, bytes)
                                           : (void *)(uintptr_t)take_block(visit.device, bytes, true);
  tagc_cuda_leave(&visit, true);
  return memory;
}

size_t tagc_cuda_spare(const struct tagc_device *self) {
  struct tagc_cuda_visit visit;
  size_t available = 0, total;
  if (!tagc_cuda_enter(self, &visit))
    return 0;
  const bool good = tagc_cuda_did(visit.device, visit.device->driver->memory_info(&available, &total), "cuMemGetInfo");
  return tagc_cuda_leave(&visit, good) ? available : 0;
}

/* For memory unknown to CUDA the driver answers zeros. Managed memory moves to whoever touches it, unless the GPU
 * cannot do that while the host runs. Some pinned memory has another address on the GPU, the only good one there. */
bool tagc_cuda_reaches(const struct tagc_device *self, const void *buffer) {
  const struct tagc_cuda_device *d = tagc_cuda_device_of(self);
  unsigned type = 0, managed = 0;
  int ordinal = -1;
  uint64_t there = 0;
  int asked[] = {POINTER_MEMORY_TYPE, POINTER_IS_MANAGED, POINTER_ORDINAL, POINTER_DEVICE};
  void *answers[] = {&type, &managed, &ordinal, &there};
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter(self, &visit))
    return true; /* nothing works here; later calls report it */
  const int error = d->driver->pointer_attributes(4, asked, answers, tagc_cuda_address(buffer));
  if (!tagc_cuda_leave(&visit, tagc_cuda_did(visit.device, error, "cuPointerGetAttributes")))
    return false;
  if (type == 0 && !managed)
    return d->reaches_pageable;
  if (managed)
    return d->reaches_managed;
  return there == tagc_cuda_address(buffer) && (type == MEMORY_HOST || ordinal == d->ordinal);
}

/* -- copies -------------------------------------------------------------------------------------------------------- */

bool tagc_cuda_clear(const struct tagc_device *self, void *memory, size_t bytes, void *stream) {
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter(self, &visit))
    return false;
  const int error = bytes ? visit.device->driver->clear(tagc_cuda_address(memory), 0, bytes, stream) : 0;
  return tagc_cuda_leave(&visit, tagc_cuda_did(visit.device, error, "cuMemsetD8Async"));
}

/* A stage whose last copy is over, or a new one; NULL without memory. */
static struct tagc_cuda_stage *take_stage(struct tagc_cuda_device *d) {
  struct tagc_cuda_stage **at, *stage;
  pthread_mutex_lock(&d->lock);
  for (at = &d->stages; *at && d->driver->event_query((*at)->event) != 0;)
    at = &(*at)->next;
  stage = *at;
  if (stage)
    *at = stage->next;
  pthread_mutex_unlock(&d->lock);
  if (stage || !(stage = calloc(1, sizeof *stage)))
    return stage;
  stage->event = tagc_cuda_event(d, false);
  stage->pinned = stage->event ? tagc_cuda_pinned(d, STAGE) : NULL;
  if (stage->pinned)
    return stage;
  if (stage->event)
    tagc_cuda_did(d, d->driver->event_destroy(stage->event), "cuEventDestroy");
  free(stage);
  return NULL;
}

/* A stage whose event cannot be recorded is not reused. */
static bool put_staged(struct tagc_cuda_device *d, struct tagc_cuda_stage *stage, void *to_device,
                       const void *from_host, size_t bytes, void *stream) {
  memcpy(stage->pinned, from_host, bytes);
  const bool copied =
    tagc_cuda_did(d, d->driver->put(tagc_cuda_address(to_device), stage->pinned, bytes, stream), "cuMemcpyHtoDAsync");
  if (!tagc_cuda_did(d, d->driver->event_record(stage->event, stream), "cuEventRecord")) {
    free(stage);
    return false;
  }
  pthread_mutex_lock(&d->lock);
  stage->next = d->stages;
  d->stages = stage;
  pthread_mutex_unlock(&d->lock);
  return copied;
}

bool tagc_cuda_put(const struct tagc_device *self, void *to_device, const void *from_host, size_t bytes, void *stream) {
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter(self, &visit))
    return false;
  struct tagc_cuda_device *d = visit.device;
  struct tagc_cuda_stage *stage = bytes <= STAGE && tagc_cuda_takes(d, stream) ? take_stage(d) : NULL;
  const bool done = stage ? put_staged(d, stage, to_device, from_host, bytes, stream)
                          : tagc_cuda_did(d, d->driver->put(tagc_cuda_address(to_device), from_host, bytes, stream),
                                          "cuMemcpyHtoDAsync") &&
                              tagc_cuda_did(d, d->driver->stream_synchronize(stream), "cuStreamSynchronize");
  return tagc_cuda_leave(&visit, done);
}

bool tagc_cuda_get(const struct tagc_device *self, void *to_host, const void *from_device, size_t bytes, void *stream) {
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter(self, &visit))
    return false;
  struct tagc_cuda_device *d = visit.device;
  const bool done =
    tagc_cuda_did(d, d->driver->get(to_host, tagc_cuda_address(from_device), bytes, stream), "cuMemcpyDtoHAsync") &&
    tagc_cuda_did(d, d->driver->stream_synchronize(stream), "cuStreamSynchronize");
  return tagc_cuda_leave(&visit, done);
}

/* Some drivers may refuse pitches that are large or not their own choice; none refuses a single row. */
static bool copy_row_by_row(struct tagc_cuda_device *d, uint64_t to, size_t to_pitch, uint64_t from, size_t from_pitch,
                            size_t width, size_t rows, void *stream) {
  bool good = true;
  for (size_t row = 0; row < rows && good; row++)
    good =
      tagc_cuda_did(d, d->driver->copy(to + row * to_pitch, from + row * from_pitch, width, stream), "cuMemcpyAsync");
  return good;
}

bool tagc_cuda_copy(const struct tagc_device *self, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                    size_t width, size_t rows, void *stream) {
  const struct tagc_cuda_rows both = {
    .from = {.memory = TAGC_CUDA_UNIFIED, .address = tagc_cuda_address(from), .pitch = from_pitch},
    .to = {.memory = TAGC_CUDA_UNIFIED, .address = tagc_cuda_address(to), .pitch = to_pitch},
    .width = width,
    .rows = rows,
  };
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter_ready(self, &visit))
    return false;
  struct tagc_cuda_device *d = visit.device;
  const int error = rows > 1 ? d->driver->copy_rows(&both, stream) : TAGC_CUDA_INVALID_VALUE;
  const bool done = error == TAGC_CUDA_INVALID_VALUE ? copy_row_by_row(d, both.to.address, to_pitch, both.from.address,
                                                                       from_pitch, width, rows, stream)
                                                     : tagc_cuda_did(d, error, "cuMemcpy2DAsync");
  return tagc_cuda_leave(&visit, done);
}
