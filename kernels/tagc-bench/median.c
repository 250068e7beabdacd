/* SPDX-License-Identifier: BSD-3-Clause
 * The median of times.
 */
#include <stdlib.h>

#include "kernels/tagc-bench/bench.h"

static int compare_times(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double bench_median(double *times, int count) {
  qsort(times, (size_t)count, sizeof *times, compare_times);
  return (times[(count - 1) / 2] + times[count / 2]) / 2;
}
