/* SPDX-License-Identifier: BSD-3-Clause
 * A codec for all-gathers turns a rank's shard of the parameters into a smaller payload, and all payloads back into
 * them.
 *
 * Purpose     One table of functions a codec (allgather/bf16.c is the commented template). The caller (interpose/) owns
 *             all memory and does all communication; a codec only computes.
 * Shapes      An all-gather of `n` elements a rank over `nranks` ranks: the receive buffer holds nranks shards of n
 *             elements; rank j sent shard j.
 * Payload     One of payload_bytes a rank. It begins with a struct tagc_allgather_header; other parts begin at
 *             multiples of 16 bytes. A plain all-gather carries the payloads, as bytes.
 * Identity    All ranks decode the same values from a payload, the sender included: it decodes its own payload, too. If
 *             the program gathers in place (send is recv + rank * n), its own shard stays: it may be the only copy.
 * Refusal     A codec refuses a shard that it cannot carry as promised (lossless: too many escapes; delta: too large a
 *             difference), and says so in the payload's header. All ranks receive all payloads, so all see the refusal
 *             and then make the plain call. If any payload is refused, decode leaves recv and the reference untouched.
 * Decisions   layout() is a pure function: equal arguments give equal layouts on every rank.
 * Bits        The same on every device and every run (no libm, no contraction, denormal modes set by the caller).
 * Threads     Functions are reentrant; one thread at a time uses a job.
 */
#ifndef KERNELS_CODEC_ALLGATHER_H
#define KERNELS_CODEC_ALLGATHER_H

#include "kernels/codec/codec.h"

/* Everything that a layout depends on. Equal on all ranks. */
struct tagc_allgather_shape {
  uint64_t n; /* elements of one shard, >= 1 */
  int nranks; /* >= 1; a broadcast has one shard, and only its root has the job's rank 0 */
  enum tagc_dtype dtype;
};

/* In bytes. */
struct tagc_allgather_layout {
  size_t payload_bytes;   /* of one rank; a multiple of 16 */
  size_t reference_bytes; /* of the data kept between calls of a slot, for all shards; 0: none */
  size_t tables_bytes;    /* of what a device keeps beside a reference, in its own memory; 0: nothing */
  size_t state_bytes;     /* device memory that must stay untouched from encode to decode; may be 0 */
};

/* The bits of `flags`. */
enum { TAGC_ALLGATHER_REFUSED = 1 };

struct tagc_allgather_header {
  uint32_t flags;     /* others than TAGC_ALLGATHER_REFUSED are the codec's own */
  uint32_t unused[3]; /* zero */
};

/* Counts of events, added to by the codec on the host. Host memory. */
struct tagc_allgather_stats {
  uint64_t escapes;     /* lossless: exponents of this rank sent as they are */
  uint64_t nonfinite;   /* q8: values of this rank sent as exceptions */
  uint64_t refused;     /* calls with a refused shard */
  double error2, norm2; /* squared L2 norms of the error of this rank's last shard, and of that shard, without values
                         * that are not finite; set, not added, by encode or (delta) decode; lossless: both 0 */
};

/* The error relative to the shard; NaN: not known. */
static inline double tagc_allgather_error(const struct tagc_allgather_stats *stats) {
  return stats->norm2 > 0 ? __builtin_sqrt(stats->error2 / stats->norm2) : __builtin_nan("");
}

/* What a codec whose payloads have no fixed size (exact) remembers from call to call: equal on all ranks that took part
 * in the same calls. Set to zero before the first one. */
struct tagc_allgather_sizes {
  uint64_t payload_bytes; /* of the next call, at most the layout's; 0: the layout's */
  uint64_t calls;         /* that have set them */
  uint64_t margin;        /* for the changes of the next call, in 1/64 of those of the last one */
};

/* One all-gather under way. Pointers are device memory of the codec's device unless said otherwise. */
struct tagc_allgather_job {
  struct tagc_allgather_shape shape;
  struct tagc_allgather_layout layout; /* what layout() gave for shape */
  uint64_t stride; /* elements between the starts of consecutive shards of recv and of the reference; 0: shape.n */
  int rank;
  const void *send;                   /* n elements of shape.dtype */
  void *recv;                         /* nranks x n elements, `stride` apart; decode writes it */
  bool keep_own;                      /* do not write the own shard of recv: it is `send` itself, and exact */
  uint64_t seed;                      /* equal on all ranks, different every call */
  bool beside;                        /* as in tagc_job */
  uint8_t *payloads;                  /* nranks x payload_bytes, by rank; encode writes this rank's */
  void *reference;                    /* reference_bytes; shards are as far apart as in recv; NULL: not needed */
  void *tables;                       /* tables_bytes; each reference has its own */
  struct tagc_allgather_sizes *sizes; /* host memory; decode sets it (a GPU: refused of device.h); NULL: not needed */
  uint64_t *digest; /* of the reference, host memory; decode and refer set it (a GPU: allgather_digest of device.h);
                     * NULL: none */
  void *state;      /* state_bytes */
  struct tagc_allgather_stats *stats; /* host memory; NULL: not wanted */
  void *tally;                        /* replaces stats and refused on a device that counts by itself (device.h) */
  bool refused;                       /* set by decode: some rank's payload was refused */
  bool failed;                        /* set by decode: what came out is not what the sender had */
};

struct tagc_allgather_codec {
  const char *name; /* as in TAGC_ALLGATHER */
  /* Payloads have the bytes of job->sizes, which decode sets, and at least so many; calls are not cut into chunks. 0:
   * payloads are always as large as the layout says. */
  size_t least_bytes;
  bool exact;      /* decoding gives the input, bit for bit */
  bool may_refuse; /* the caller must look at `refused` after decode */

  /* Fills *out for a shape. False (*out is undefined then): this codec cannot carry it, or would save nothing. Pure. */
  bool (*layout)(const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *out);

  /* Fills this rank's payload from send and the reference. */
  void (*encode)(struct tagc_allgather_job *job);

  /* Fills recv from all payloads and the reference, and updates the reference. */
  void (*decode)(struct tagc_allgather_job *job);

  /* Copies recv to the reference after a plain call: the next one sends changes. Whole shards only. NULL: none. */
  void (*refer)(struct tagc_allgather_job *job);

  /* Sets job->sizes for the next call from what all ranks have seen in this one: job->refused, and the bytes that the
   * largest shard needed. decode calls it itself on the host. NULL: payloads of one size. */
  void (*choose_size)(struct tagc_allgather_job *job, uint64_t needed);
};

/* Those for parameters, NULL-terminated, in the order of TAGC_ALLGATHER's choices after "off". */
extern const struct tagc_allgather_codec *const tagc_allgather_codecs[];

extern const struct tagc_allgather_codec tagc_allgather_bf16, tagc_allgather_q8, tagc_allgather_lossless,
  tagc_allgather_delta, tagc_allgather_exact;

/* For the sums of an all-reduce alone (allgather/support.h). */
extern const struct tagc_allgather_codec tagc_allgather_support;

/* Those for parameters, and then that for sums; NULL behind it. */
const struct tagc_allgather_codec *tagc_allgather_codec_at(int i);

/* Points the payloads and the state of a job (shape and layout are set) into the memory at `base`, aligned to 64 bytes.
 * Returns the bytes that they take (`base` may be NULL for that). */
size_t tagc_allgather_assign_buffers(struct tagc_allgather_job *job, uint8_t *base);

static inline uint8_t *tagc_allgather_payload(const struct tagc_allgather_job *job, int rank) {
  return job->payloads + (size_t)rank * job->layout.payload_bytes;
}

/* True if some payload was refused. */
bool tagc_allgather_any_refused(const struct tagc_allgather_job *job);

#endif
