/* SPDX-License-Identifier: BSD-3-Clause
 * A look at one gradient, for the choice of its codec: what its values are like, and what each codec makes of them.
 *
 * Density    is counted over all foreign shards, and the fullest one counts: codecs give every shard the same room.
 * Sample     of the foreign shards, up to 64 stretches of 4,096 neighbours, evenly spread. Kurtosis, errors and times are of
 *            it. Where it has met nothing but zeros, the stretches begin at values instead.
 * Codecs     are run on the sample as they are in a call, between two ranks that play in one thread, on memory that has left
 *            the caches; the best of three times counts.
 * Units      Error: relative L2 distance of what one call delivers, exceptions apart. Times: nanoseconds for an element of one
 *            foreign shard.
 * Ownership  The send buffer is only read, by the host (a copy of pieces, where it cannot); memory is taken from the device and given back.
 * Threads    Reentrant. Failure: false without memory.
 */
#ifndef KERNELS_SURVEY_H
#define KERNELS_SURVEY_H

#include "kernels/codec.h"
#include "kernels/device.h"

enum { TAGC_CANDIDATES = 5 };

/* A codec that a slot may get. NULL: none. */
struct tagc_candidate {
  const struct tagc_codec *codec;
  enum tagc_storage residual;       /* how its residual would be kept */
};

struct tagc_survey_question {
  struct tagc_shape shape;          /* keep_ppm and residual are not looked at */
  int rank;
  const void *send;
  float scale;
  bool stochastic;                  /* how codecs round: as in a job */
  const struct tagc_candidate *candidates;   /* TAGC_CANDIDATES of them */
  double (*clock_ms)(void);
};

/* What a codec does to the gradient. Error: infinite where it was not tried, or cannot carry the shape; 0 where there is nothing
 * but zeros. */
struct tagc_finding {
  double error, encode_ns, decode_ns;
};

struct tagc_survey {
  double density;                   /* share of |x| >= 2^-120 in the fullest foreign shard */
  bool exceptions;                  /* some value is NaN, infinite or at least 2^120: the gradient is not as it usually is */
  double kurtosis;                  /* fourth moment by the square of the second: 3 for a normal distribution */
  struct tagc_finding of[TAGC_CANDIDATES];
};

/* A gradient that the host cannot read: copies pieces of some of its shards, evenly spread, to the host, and makes the question one
 * about these. Waits for the stream. The copy, which question->send is then, is the caller's to free(); NULL without memory, or
 * where the device fails. */
void *tagc_survey_fetch(struct tagc_survey_question *question, const struct tagc_device *device, void *stream);

bool tagc_survey_take(const struct tagc_survey_question *question, const struct tagc_device *device,
                      struct tagc_survey *out);

/* How much a codec with a residual should keep of a gradient of this density, so that nothing is left for later although
 * densities change a little from step to step: half as much again, and up to the next of 1, 2, 3, 4, 6, 8, 12 ... parts per
 * million. 0: the gradient is not sparse. */
uint32_t tagc_survey_keep(double density);

#endif
