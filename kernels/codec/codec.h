/* SPDX-License-Identifier: BSD-3-Clause
 * A codec turns the gradient of one reduce-scatter into a smaller payload and back.
 *
 * Purpose     One table of functions a codec (none/codec.c is the commented template). The caller
 *             (interpose/exec/execute.c) owns all memory and does all communication; a codec only computes.
 * Shapes      A reduce-scatter of `n` elements a rank over `nranks` ranks: the send buffer holds nranks shards of n
 *             elements; rank j receives shard j. A *foreign* shard is one whose owner is another rank.
 * Exchange    Three kinds of payload, each optional (0 bytes: not used):
 *               exponents  uint8, nranks x exponent_bytes, all-reduced with max, in place
 *               sketch     int32, nranks x sketch_count, reduce-scattered with sum (wrapping)
 *               message    bytes, one of message_bytes to the owner of every foreign shard, all to all
 *             in the order prepare, {exponents}, encode, {sketch and messages}, decode. In chunks (chunks.h): measure
 *             of all, {exponents of all}, and then of each prepare, encode, {sketch and messages}, decode.
 * Decisions   layout() is a pure function: equal arguments give equal layouts on every rank (the plan relies on it).
 * Bits        The result is the same, bit for bit, on every device and every run (no libm, no contraction, round to
 *             nearest even, denormal modes set by the caller, |x| < 2^-120 counts as zero).
 * Threads     Functions are reentrant; one thread at a time uses a job.
 */
#ifndef KERNELS_CODEC_CODEC_H
#define KERNELS_CODEC_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The element types that can be compressed. */
enum tagc_dtype { TAGC_FLOAT32, TAGC_FLOAT16, TAGC_BFLOAT16 };

static inline size_t tagc_dtype_size(enum tagc_dtype t) { return t == TAGC_FLOAT32 ? 4 : 2; }

/* The storage of a residual between calls (residual.h). */
enum tagc_storage { TAGC_STORAGE_NONE, TAGC_STORAGE_FP32, TAGC_STORAGE_BF16, TAGC_STORAGE_INT8 };

/* Everything that a layout depends on. Equal on all ranks. */
struct tagc_shape {
  uint64_t n; /* elements of one shard, >= 1 */
  int nranks; /* >= 2 */
  enum tagc_dtype dtype;
  uint32_t keep_ppm; /* 1 - sparsity, in parts per million: a sender keeps this share of a shard (lhc, sparse) */
  enum tagc_storage residual;
  int local; /* two levels: the ranks of a host, whose values the codec adds itself; 0: NCCL has added them */
};

/* Sizes in bytes or elements of ONE shard, unless stated. Every part is a multiple of 16 bytes. */
struct tagc_layout {
  size_t exponent_bytes;
  size_t sketch_count; /* int32 counters */
  size_t message_bytes;
  size_t state_bytes; /* device memory of this rank that must stay untouched from prepare to decode; may be 0 */
  uint64_t capacity;  /* values that a sender can place in one shard's payload; n for dense codecs */
};

/* Counts of events. The codec adds to them and never clears them; the report reads them. Host memory. */
struct tagc_codec_stats {
  uint64_t selected;     /* values of foreign shards that were sent */
  uint64_t unrecovered;  /* values that peeling could not recover and estimated */
  uint64_t nonfinite;    /* values of this rank that travelled as exceptions */
  uint64_t overflowed;   /* shards that came out NaN because exceptions did not fit */
  uint64_t lost;         /* this rank's, too small to send, in no residual: below 2^-120, or in a block below 2^-110 */
  uint64_t dropped;      /* residuals that a device found void by itself (device.h), after a non-finite step */
  double residual_norm2; /* squared L2 norm of the residual after the last encode (set, not added) */
};

/* One reduce-scatter under way. Pointers are device memory of the codec's device unless said otherwise. */
struct tagc_job {
  struct tagc_shape shape;
  struct tagc_layout layout; /* of layout() for shape */
  int rank;                  /* of this process in the communicator */
  const void *send;          /* nranks shards of n elements of shape.dtype, read-only; of each local rank in turn */
  uint64_t stride;           /* elements between the starts of shards; 0: n. Larger in chunks of a call (chunks.h) */
  const void *values;        /* two levels: the values of hosts whose sums no message holds, laid out like send */
  bool has_values;           /* they have come */
  bool wants_values;         /* set by decode: they must come first, and nothing was written */
  bool continues;            /* a later chunk of a call: a device adds its counts to those of the chunks before */
  bool ends;                 /* decode may end the call (device.h): the last chunk, and no other rank's flags count */
  bool ended;                /* set by a device whose decode has done so */
  void *recv;                /* n elements of shape.dtype; may be send + rank * n (in place); decode writes it */
  float scale;               /* every element of send is multiplied by it in fp32 first (PreMulSum), else 1 */
  float divisor;             /* the sum is divided by it in fp32 at the end (Avg: nranks), else 1 */
  void *residual;            /* of the foreign shards, stored as shape.residual (residual.h); NULL: none */
  bool residual_empty;       /* the residual's content is void: read it as zero (but write it) */
  uint64_t seed;             /* equal on all ranks, different every call */
  bool stochastic;           /* round by chance, which keeps the mean, and not to nearest; reproducible */
  bool nonfinite_before;     /* in an earlier call of the cycle: messages tell others (with a tally: health) */
  bool beside;         /* the program's own work goes on meanwhile: a device leaves it most of itself. Changes no bit */
  uint8_t *exponents;  /* nranks x exponent_bytes */
  bool measured;       /* they are those of all ranks already: prepare leaves them alone */
  int32_t *sketch_out; /* nranks x sketch_count; the own shard's part is zero */
  int32_t *sketch_in;  /* sketch_count: the sum over ranks of this rank's shard */
  uint8_t *message_out;           /* nranks x message_bytes; the own shard's part is never sent */
  uint8_t *message_in;            /* nranks x message_bytes, by sender; the own part is never read */
  void *state;                    /* state_bytes */
  struct tagc_codec_stats *stats; /* host memory */
  void *tally;                    /* replaces stats and the flags below on a device that counts by itself (device.h) */
  void *health;                   /* with a tally: the communicator's (device.h); NULL: no residual needs it */
  uint64_t cycle, residual_cycle; /* with a tally: of this call, and of the one that wrote the residual; from 1 on */
  bool nonfinite_seen;            /* set by decode: some rank had a non-finite value, or this one has such a result */
  bool surplus_seen; /* set by decode: some rank filled the capacity of a shard in this call and left much behind */
};

/* How a codec adds the values of a host's ranks itself (shape.local). Their values must be scaled already. */
struct tagc_codec_levels {
  int least; /* ranks a host; with fewer, its sums would take more bytes than their values, and calls stay flat */
  /* Could the message hold no sums? Its receiver, which sees this, too, then needs the values (job->values). The host
   * reads it; a device says it in exponents, whose bytes are 0 if no message lacks its sums. */
  bool (*lacks_sums)(const struct tagc_job *job, const uint8_t *message);
};

struct tagc_codec {
  const char *name;                       /* as in TAGC_CODEC */
  bool needs_residual;                    /* refuses to run without one: its unsent values would be lost */
  const struct tagc_codec_levels *levels; /* NULL: NCCL adds the values of a host's ranks */

  /* Fills *out for a shape. False if this codec cannot carry it (*out is undefined then). Pure. */
  bool (*layout)(const struct tagc_shape *shape, struct tagc_layout *out);

  /* Only reads: fills job->exponents for all shards as prepare would. So calls with exponents can be cut in chunks
   * (chunks.h). Needs no state. NULL: calls with exponents are not cut. */
  void (*measure)(struct tagc_job *job);

  /* Adds the residual to the scaled gradient, selects, and fills job->exponents for all shards; may begin messages.
   * NULL: nothing to prepare. The residual then holds scale*g + e minus the selected values. */
  void (*prepare)(struct tagc_job *job);

  /* Completes message_out and sketch_out of every foreign shard, with the exponents that are now the max over ranks.
   * Adds the rounding errors to the residual. */
  void (*encode)(struct tagc_job *job);

  /* Sums the received values (fp32, senders in rank order), then this rank's own shard exactly, then exceptions.
   * Divides by divisor, rounds once to shape.dtype and writes recv. */
  void (*decode)(struct tagc_job *job);
};

/* Points the payloads and the state of a job (shape and layout are set) into the memory at `base`, aligned to 64 bytes.
 * Returns the bytes that they take (`base` may be NULL for that). */
size_t tagc_job_assign_buffers(struct tagc_job *job, uint8_t *base);

/* All codecs, NULL-terminated, in the order in which they are documented. */
extern const struct tagc_codec *const tagc_codecs[];

/* The codec of that name, or NULL. */
const struct tagc_codec *tagc_codec_find(const char *name);

/* Writes their names as "none|bf16|...", cut at `size`. Returns `text`. */
const char *tagc_codec_names(char *text, size_t size);

#endif
