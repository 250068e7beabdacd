/* SPDX-License-Identifier: BSD-3-Clause
 * The references of a communicator: earlier broadcasts, which all of its ranks hold.
 *
 * All ranks have the same list of references, each with the same content. The root alone chooses the one that a call
 * refers to, by the contents of its buffer, and its status names it (verdict.h). So programs may send in any order, in
 * buckets of one size, or leave calls out. A rank that cannot hold a reference, or may hold another than the others,
 * says so in its next status.
 * Memory     Of the communicator's device, at most TAGC_BROADCAST_MAX: the sum of the references' bytes. On a GPU also
 *            pinned memory of the host, at most TAGC_BROADCAST_PINNED: where a reference lies is a rank's own affair. A
 *            payload takes seven eighths of the largest call beside that, and on a GPU each reference 64 KiB of tables.
 * Threads    One at a time: the calls of a communicator.
 */
#ifndef INTERPOSE_BROADCAST_REFERENCES_H
#define INTERPOSE_BROADCAST_REFERENCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/codec/allgather.h"
#include "kernels/codec/device.h"

/* A broadcast as the codec takes it: whatever its elements are, words of 16 or of 32 bits lose nothing. */
struct tagc_broadcast_shape {
  uint64_t words;
  enum tagc_dtype dtype;
  int root;
};

/* Fills the shape of a broadcast of so many elements; `half`: they are fp16. False for an odd number of bytes. */
bool tagc_broadcast_shape_of(uint64_t count, size_t element_bytes, bool half, int root,
                             struct tagc_broadcast_shape *out);

static inline uint64_t tagc_broadcast_bytes(const struct tagc_broadcast_shape *shape) {
  return shape->words * tagc_dtype_size(shape->dtype);
}

bool tagc_broadcast_is_same(const struct tagc_broadcast_shape *a, const struct tagc_broadcast_shape *b);

/* The shape for the codec: that of an all-gather whose one shard is the root's. */
struct tagc_allgather_shape tagc_broadcast_codec_shape(const struct tagc_broadcast_shape *shape);

#define TAGC_NO_REFERENCE UINT32_MAX
enum { TAGC_REFERENCES_MOST = 1 << 20, TAGC_BROADCAST_STATUS_BYTES = 64, TAGC_BROADCAST_SAMPLES = 256 };

/* Words of a content without their lowest bits, at places that follow from its shape. */
struct tagc_broadcast_samples {
  uint16_t rough[TAGC_BROADCAST_SAMPLES];
};

struct tagc_reference {
  struct tagc_broadcast_shape shape;
  void *memory;    /* NULL: this rank has none */
  void *tables;    /* what a GPU keeps beside it; NULL: nothing */
  bool pinned;     /* the memory is the host's */
  uint64_t digest; /* of its content */
  uint64_t used;   /* the number of the last call that used it */
  uint64_t period; /* the number of calls between the last two that did; 0: there was but one */
  uint32_t next;   /* the reference of the call behind that; TAGC_NO_REFERENCE: none so far */
  /* For the root alone. */
  struct tagc_broadcast_samples samples;
  unsigned refused;      /* calls in a row whose changes were too many */
  unsigned rest, rested; /* so many calls are sent plainly now without a look at their changes, and were the last time
                          */
};

struct tagc_references {
  struct tagc_reference *all;
  uint32_t count, room;
  uint64_t bytes;  /* of all of them */
  uint64_t pinned; /* of those in pinned memory, on this rank */
  uint64_t calls;  /* so far */
  uint32_t last;   /* of the last call; TAGC_NO_REFERENCE: none */
  bool lost;       /* a call has failed here: other ranks may have other references */
  bool no_memory;  /* this rank lacks memory, for good */
  bool complained; /* that the device cannot take a call */
  uint8_t *told;   /* a status a rank: device memory, or, if that had none, pinned memory that is never freed */
  bool told_pinned;
  void *heard;     /* host memory: the same */
  uint8_t *packed; /* device memory: a payload, and the codec's state */
  size_t packed_bytes;
  struct tagc_broadcast_samples sampled; /* at the root: of the call's content */
};

/* The actions of a root. */
enum tagc_broadcast_action {
  TAGC_BROADCAST_PLAIN,   /* sends it plainly */
  TAGC_BROADCAST_KEEP,    /* the same, and it becomes a reference: an old one's successor, or a new one at the end */
  TAGC_BROADCAST_CHANGES, /* sends what has changed since a reference */
};

struct tagc_broadcast_choice {
  enum tagc_broadcast_action action;
  uint32_t reference;
};

/* At the root: samples the content at `send`, memory of the device. Waits for the stream. The reference that the call
 * uses gets these samples. False if the device fails. */
bool tagc_references_sample(struct tagc_references *refs, const struct tagc_device *device,
                            const struct tagc_broadcast_shape *shape, const void *send, void *stream);

/* At the root: chooses by the samples, with the references' bytes at `most`. Changes may turn out to be too many; the
 * root then keeps the call in the place of the reference. */
struct tagc_broadcast_choice tagc_references_choose(struct tagc_references *refs,
                                                    const struct tagc_broadcast_shape *shape, uint64_t most);

/* At the root: were the changes of a call too many? */
void tagc_references_watch(struct tagc_references *refs, uint32_t reference, bool refused);

/* Is there room for a broadcast in place of a reference (count: beside all)? */
bool tagc_references_have_room(const struct tagc_references *refs, const struct tagc_broadcast_shape *shape,
                               uint32_t reference, uint64_t most);

/* A digest of all references: of ranks that have the same ones, it is the same. */
uint64_t tagc_references_digest(const struct tagc_references *refs);

/* A call uses a reference, on all ranks alike. */
void tagc_references_use(struct tagc_references *refs, uint32_t reference);

/* The most bytes of references: in memory of the device, and in pinned memory. */
struct tagc_reference_limits {
  uint64_t device, pinned;
};

/* Makes the place for a call that is kept, and uses it. `layout`: of this shape on the device. Without memory this rank
 * cannot compress from here on (no_memory), but its list is that of the others. False if it cannot even have that list.
 */
bool tagc_references_keep(struct tagc_references *refs, const struct tagc_device *device,
                          const struct tagc_broadcast_shape *shape, const struct tagc_allgather_layout *layout,
                          uint32_t reference, const struct tagc_reference_limits *limits, void *stream);

/* Forgets all references: all ranks begin anew. Gives their memory back behind the fence of the last call. */
void tagc_references_forget(struct tagc_references *refs, const struct tagc_device *device, void *fence);

/* Reserves the memory of statuses, one a rank, or of a payload with the codec's state. False without any: the call
 * fails without statuses; without a payload no_memory is set. */
bool tagc_references_reserve_statuses(struct tagc_references *refs, const struct tagc_device *device, int nranks,
                                      void *stream);
bool tagc_references_reserve_payload(struct tagc_references *refs, const struct tagc_device *device, size_t bytes,
                                     void *stream);

/* Gives all memory back behind the fence, or never if some of it may still be in use (`leak`). */
void tagc_references_free(struct tagc_references *refs, const struct tagc_device *device, void *fence, bool leak);

#endif
