/* SPDX-License-Identifier: BSD-3-Clause
 * Many calls that are alike, with one on another communicator among them.
 *
 *   many_calls COUNT             ends as it should
 *   many_calls COUNT exit        without giving its communicators back
 *   many_calls COUNT kill        having given them back, but at once
 */
#include <signal.h>

#include "tests/e2e/harness.h"

int main(int argc, char **argv)
{
  float x = 1, sum = 0;
  if (argc < 2)
    return 2;
  meet();
  CHECK(ncclCommSplit(world, 0, rank, &other, NULL));
  for (unsigned long i = 0, count = strtoul(argv[1], NULL, 10); i < count; i++)
    CHECK(ncclAllReduce(&x, &sum, 1, ncclFloat32, ncclSum, i == 500 ? other : world, NULL));
  if (argc > 2 && strcmp(argv[2], "exit") == 0)
    return 0;
  CHECK(ncclCommDestroy(other));
  other = NULL;
  CHECK(ncclCommDestroy(world));
  if (argc > 2)
    raise(SIGKILL);
  return 0;
}
