/* SPDX-License-Identifier: BSD-3-Clause
 * kernels/device/parameter_stats: bits and times of exact on samples of parameters, whose changes are known.
 */
#include "kernels/device/parameter_stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/tap.h"

enum { MOST = 9000 };

static double now_ms;
static double clock_of_test(void) { return now_ms += 0.25; }

static uint32_t noise(uint32_t x) {
  x = (x ^ x >> 16) * 0x7feb352du;
  return (x ^ x >> 15) * 0x846ca68bu;
}

/* Parameters of bf16, and the same after each `every`-th has moved by one step. */
static void make_parameters(uint16_t *before, uint16_t *after, size_t n, size_t every) {
  for (size_t i = 0; i < n; i++) {
    before[i] = (uint16_t)(0x3c00 + noise((uint32_t)i) % 128);
    after[i] = (uint16_t)(before[i] + (every && i % every == 0));
  }
}

static struct tagc_parameter_stats measure(size_t n, size_t every) {
  static uint16_t before[MOST], after[MOST];
  struct tagc_parameter_stats stats;
  make_parameters(before, after, n, every);
  ok(tagc_parameter_stats_measure(&tagc_allgather_exact, before, after, n, TAGC_BFLOAT16, clock_of_test, &stats),
     "%zu elements, each %zuth changes: measured", n, every);
  return stats;
}

int main(void) {
  const struct tagc_parameter_stats all = measure(1024, 1), few = measure(1024, 100), none = measure(1024, 0);
  ok(none.bits < few.bits && few.bits < all.bits && all.bits < 8, "bits follow the changes: %.3f, %.3f and %.3f",
     none.bits, few.bits, all.bits);
  ok(none.bits > 0.1 && none.bits < 0.3,
     "parameters that stand still: one element counts as changed, and blocks have heads");
  ok(all.encode_ns == 0.25e6 / 8192 && all.decode_ns == 0.25e6 / (2 * 8192),
     "times are of an element: %g and %g ns of 8,192", all.encode_ns, all.decode_ns);
  ok(measure(100, 1).encode_ns == 0.25e6 / 8100, "81 copies of a short sample");
  ok(measure(MOST, 1).encode_ns == 0.25e6 / MOST, "a long sample is taken as it is");

  uint32_t random[1024], other[1024];
  struct tagc_parameter_stats stats;
  for (uint32_t i = 0; i < 1024; i++)
    random[i] = noise(i), other[i] = noise(i + 4096);
  ok(tagc_parameter_stats_measure(&tagc_allgather_exact, random, other, 1024, TAGC_FLOAT32, NULL, &stats) &&
       isinf(stats.bits) && isinf(stats.encode_ns) && isinf(stats.decode_ns),
     "what does not fit a payload is infinite");
  other[0] = random[0] + 1;
  memcpy(other + 1, random + 1, sizeof other - sizeof *other);
  ok(tagc_parameter_stats_measure(&tagc_allgather_exact, random, other, 1024, TAGC_FLOAT32, NULL, &stats) &&
       stats.bits < 1 && stats.encode_ns == 0 && stats.decode_ns == 0,
     "no clock, no times");
  return tap_done();
}
