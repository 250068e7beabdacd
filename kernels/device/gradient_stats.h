/* SPDX-License-Identifier: BSD-3-Clause
 * Statistics of one gradient, for the choice of its codec: the distribution of its values, each codec's error and time.
 *
 * Density    is counted over all elements of the foreign shards, wherever they are (nonzero_index.h). The fullest shard
 *            counts: codecs give every shard the same room.
 * Sample     of the foreign shards: up to 64 runs of 4,096 neighbours, evenly spread. Kurtosis, errors and times come
 *            from it. If it holds nothing but zeros, the runs begin at values instead.
 * Codecs     run on the sample as they do in a call, between two ranks in one thread, on memory that has left the
 *            caches; the best of three times counts.
 * Units      Error: relative L2 distance of the result of one call, without exceptions. Times: nanoseconds for an
 *            element of one foreign shard, but for call_ns. If the host cannot read the gradient, its sample is copied
 *            there, for errors only: times would be the host's.
 * Ownership  The send buffer is only read. Memory comes from the device, the sample's from the host, and is freed.
 * Threads    Reentrant. Failure: false without memory, or if the device fails.
 */
#ifndef KERNELS_DEVICE_GRADIENT_STATS_H
#define KERNELS_DEVICE_GRADIENT_STATS_H

#include "kernels/codec/codec.h"
#include "kernels/codec/device.h"

enum { TAGC_CANDIDATES = 7 };

/* A codec that a slot may get. NULL: none. */
struct tagc_candidate {
  const struct tagc_codec *codec;
  enum tagc_storage residual; /* the storage of its residual */
};

struct tagc_gradient_request {
  struct tagc_shape shape; /* keep_ppm and residual are ignored */
  int rank;
  const void *send;
  float scale;
  bool stochastic;                         /* as in tagc_job */
  const struct tagc_candidate *candidates; /* TAGC_CANDIDATES of them */
  double (*clock_ms)(void);                /* NULL: all times come out as 0 */
};

/* The part of a gradient that was read. */
struct tagc_gradient_sample {
  double density, kurtosis; /* as below */
  bool exceptions;
  uint32_t keep_ppm; /* the share that codecs with a residual keep; 0: by its density */
  double norm;       /* L2 of the elements that codecs were tried on */
  /* Two ranks of a reduce-scatter, whose one foreign shard is the sample. Memory: zeros, the sample, zeros. The send
   * buffer of rank 0 begins with the first part, that of rank 1 with the second. */
  uint64_t n, values;
  double gradient_norm; /* as below */
  enum tagc_dtype dtype;
  float scale;
  const struct tagc_device *memory; /* the device of the memory */
  uint8_t *shards, *recv;           /* one allocation */
  uint8_t *residuals, *payloads;    /* another one, while codecs are tried */
};

/* A codec's effect on the gradient. Error: infinite if untried, or if it cannot carry the shape; 0 if all is zero. */
struct tagc_codec_estimate {
  double error, encode_ns, decode_ns;
  double call_ns; /* of a call, whatever the number of foreign shards; 0 if times are measured */
};

struct tagc_gradient_stats {
  double density;  /* share of |x| >= 2^-120 in the fullest foreign shard */
  bool exceptions; /* some value is NaN, infinite or at least 2^120: the gradient is unusual */
  double norm;     /* L2 of all shards without exceptions: from the sample's mean square and the number of values */
  double kurtosis; /* fourth moment over the square of the second: 3 for a normal distribution */
  struct tagc_codec_estimate of[TAGC_CANDIDATES];
  double copy_ns; /* the time to copy an element, if only a part of the gradient is read; set by the caller */
};

/* Reads the gradient on `stream`, and waits if the host cannot read it directly. The caller frees the sample; after
 * false there is nothing to free. */
bool tagc_gradient_sample_read(const struct tagc_gradient_request *question, const struct tagc_device *device,
                               void *stream, struct tagc_gradient_sample *out);
void tagc_gradient_sample_free(struct tagc_gradient_sample *sample); /* also where all is zero */

/* Tries the codecs on the sample. With a clock, the host reads question->send again. */
bool tagc_gradient_stats_measure(const struct tagc_gradient_request *question, struct tagc_gradient_sample *sample,
                                 struct tagc_gradient_stats *out);

/* The loss of one encoding by a call's codec, on some thousand elements of a gradient that the host reads, at other
 * places each turn: the relative L2 error, and the norm of these elements. Uses all of shape, no candidates. False:
 * unknown. */
bool tagc_gradient_spot_check(const struct tagc_gradient_request *question, const struct tagc_codec *codec,
                              uint64_t turn, double *error, double *norm);

/* The share that a codec with a residual should keep of a gradient of this density, so that nothing is left for later
 * although densities change a little from step to step: 1.5 times the density, rounded up to the next of 1, 2, 3, 4, 6,
 * 8, 12 ... parts per million. 0: the gradient is not sparse. */
uint32_t tagc_gradient_keep_ppm(double density);

#endif
