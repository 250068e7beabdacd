/* SPDX-License-Identifier: BSD-3-Clause
 * Statistics of one gradient, for the choice of its codec: what its values are like, and what each codec makes of them.
 *
 * Density    is counted over all elements of the foreign shards, where they are (nonzero_index.h), and the fullest
 *            shard counts: codecs give every shard the same room.
 * Sample     of the foreign shards, up to 64 runs of 4,096 neighbours, evenly spread. Kurtosis, errors and times are of
 *            it. Where it has met nothing but zeros, the runs begin at values instead.
 * Codecs     are run on the sample as they are in a call, between two ranks that play in one thread, on memory that has
 *            left the caches; the best of three times counts.
 * Units      Error: relative L2 distance of what one call delivers, exceptions apart. Times: nanoseconds for an element
 *            of one foreign shard, but for call_ns.
 *            Where the host cannot read the gradient, its sample is copied there, for errors: times would be the
 *            host's.
 * Ownership  The send buffer is only read; memory is taken from the device, and for the sample the host, and given
 *            back.
 * Threads    Reentrant. Failure: false without memory, or where the device fails.
 */
#ifndef KERNELS_DEVICE_GRADIENT_STATS_H
#define KERNELS_DEVICE_GRADIENT_STATS_H

#include "kernels/codec/codec.h"
#include "kernels/codec/device.h"

enum { TAGC_CANDIDATES = 6 };

/* A codec that a slot may get. NULL: none. */
struct tagc_candidate {
  const struct tagc_codec *codec;
  enum tagc_storage residual; /* how its residual would be kept */
};

struct tagc_gradient_request {
  struct tagc_shape shape; /* keep_ppm and residual are not looked at */
  int rank;
  const void *send;
  float scale;
  bool stochastic;                         /* how codecs round: as in a job */
  const struct tagc_candidate *candidates; /* TAGC_CANDIDATES of them */
  double (*clock_ms)(void);                /* NULL: times are not asked for, and come out as 0 */
};

/* What was read of a gradient. */
struct tagc_gradient_sample {
  double density, kurtosis; /* as below */
  bool exceptions;
  uint32_t keep_ppm; /* what codecs with a residual keep of it; 0: by its density */
  double norm;       /* L2 of what a codec was tried on */
  /* Two ranks of a reduce-scatter, whose one foreign shard is the sample. Its memory holds zeros, the sample, zeros:
   * the send buffer of rank 0 begins with the first, that of rank 1 with the second. */
  uint64_t n, values;
  double gradient_norm; /* as below */
  enum tagc_dtype dtype;
  float scale;
  const struct tagc_device *memory; /* whose memory it is */
  uint8_t *shards, *recv;           /* one memory */
  uint8_t *residuals, *payloads;    /* another one, while codecs are tried */
};

/* What a codec does to the gradient. Error: infinite where it was not tried, or cannot carry the shape; 0 where there
 * is nothing but zeros. */
struct tagc_codec_estimate {
  double error, encode_ns, decode_ns;
  double call_ns; /* of a call, whatever the number of foreign shards; 0 where times are measured */
};

struct tagc_gradient_stats {
  double density;  /* share of |x| >= 2^-120 in the fullest foreign shard */
  bool exceptions; /* some value is NaN, infinite or at least 2^120: the gradient is not as it usually is */
  double norm;     /* L2 of all shards, exceptions apart: by the mean square of the sample's values, and how many values
                    * the foreign shards have */
  double kurtosis; /* fourth moment by the square of the second: 3 for a normal distribution */
  struct tagc_codec_estimate of[TAGC_CANDIDATES];
  double copy_ns; /* where but a part of the gradient is looked at: what it takes to copy an element of it */
};

/* Reads the gradient on `stream`, and waits for it where the host cannot read it by itself. What it has taken is the
 * caller's to free; after false, nothing. */
bool tagc_gradient_sample_read(const struct tagc_gradient_request *question, const struct tagc_device *device,
                               void *stream, struct tagc_gradient_sample *out);
void tagc_gradient_sample_free(struct tagc_gradient_sample *sample); /* also where all is zero */

/* Tries the codecs on what was read. Where the question has a clock, the host reads its send buffer again. */
bool tagc_gradient_stats_measure(const struct tagc_gradient_request *question, struct tagc_gradient_sample *sample,
                                 struct tagc_gradient_stats *out);

/* What one encoding by the codec of a call loses, on a few thousand elements of a gradient that the host reads, in
 * other places each turn: the relative L2 error, and the norm of these elements. Of the shape all counts, of the
 * question no candidates. False where nothing can be said. */
bool tagc_gradient_spot_check(const struct tagc_gradient_request *question, const struct tagc_codec *codec,
                              uint64_t turn, double *error, double *norm);

/* How much a codec with a residual should keep of a gradient of this density, so that nothing is left for later
 * although densities change a little from step to step: half as much again, and up to the next of 1, 2, 3, 4, 6, 8, 12
 * ... parts per million. 0: the gradient is not sparse. */
uint32_t tagc_gradient_keep_ppm(double density);

#endif
