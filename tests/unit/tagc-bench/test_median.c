/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-bench: the median of times.
 */
#include "kernels/tagc-bench/bench.h"
#include "tests/unit/tap.h"

static void is_median(double *times, int count, double want) {
  const double got = bench_median(times, count);
  ok(got == want, "of %d times: %g", count, got);
}

int main(void) {
  is_median((double[]){7}, 1, 7);
  is_median((double[]){8, 2}, 2, 5);
  is_median((double[]){9, 1, 4}, 3, 4);
  is_median((double[]){100, 1, 3, 2}, 4, 2.5);
  return tap_done();
}
