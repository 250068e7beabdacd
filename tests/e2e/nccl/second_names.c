/* SPDX-License-Identifier: BSD-3-Clause
 * A program that calls NCCL by a second name, which is for libraries in front of NCCL.
 */
#include "tests/e2e/harness.h"

extern __typeof__(ncclAllReduce) pncclAllReduce __attribute__((weak));

int main(void) {
  int one = 1, sum = 0;
  meet();
  bool good = ncclAllReduce(&one, &sum, 1, ncclInt32, ncclSum, world, NULL) == ncclSuccess && sum == nranks;
  good &= pncclAllReduce && pncclAllReduce(&one, &sum, 1, ncclInt32, ncclMax, world, NULL) == ncclSuccess && sum == 1;
  all_ok(good, "both names do the same");
  return finish();
}
