/* SPDX-License-Identifier: BSD-3-Clause
 * Makes many equal calls, with one on another communicator among them.
 *
 *   many_calls COUNT             ends properly
 *   many_calls COUNT exit        exits without destroying its communicators
 *   many_calls COUNT kill        destroys them, then ends at once
 *   many_calls COUNT usurp PATH  in between puts its own files, PATH.RANK, in place of the library's descriptors
 *   many_calls COUNT refused     then makes calls that NCCL refuses, with invalid counts
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>

#include "tests/e2e/harness.h"

/* Acts like a program that closes all descriptors, and goes on opening files. Waits up to two minutes for the library's
 * file. */
static void usurp(const char *path) {
  char name[4096], target[4096];
  snprintf(name, sizeof name, "%s.%d", path, rank);
  const int own = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (own < 0 || write(own, "mine\n", 5) != 5)
    exit(1);
  enum { LOOKS = 20 }; /* the library moves its file once: its number is final if so many looks in a row find it */
  int number = -1, looks = 0;
  bool done = false;
  for (int tries = 0; !done && tries < 2400; tries++, usleep(50000)) {
    DIR *files = opendir("/proc/self/fd");
    for (const struct dirent *entry; (entry = readdir(files));) {
      snprintf(name, sizeof name, "/proc/self/fd/%s", entry->d_name);
      const ssize_t length = readlink(name, target, sizeof target - 1);
      const char *end = target + (length < 6 ? 0 : length - 6);
      target[length < 0 ? 0 : length] = '\0';
      if (strcmp(end, ".calls") != 0 && strcmp(end, ".trace") != 0)
        continue;
      looks = atoi(entry->d_name) == number ? looks + 1 : 1;
      number = atoi(entry->d_name);
      done = done || (looks == LOOKS && dup2(own, number) >= 0);
    }
    closedir(files);
  }
}

int main(int argc, char **argv) {
  float x = 1, sum = 0;
  if (argc < 2)
    return 2;
  meet();
  CHECK(ncclCommSplit(world, 0, rank, &other, NULL));
  for (unsigned long i = 0, count = strtoul(argv[1], NULL, 10); i < count; i++) {
    if (i == count / 2 && argc > 3)
      usurp(argv[3]);
    CHECK(ncclAllReduce(&x, &sum, 1, ncclFloat32, ncclSum, i == 500 ? other : world, NULL));
  }
  if (argc > 2 && strcmp(argv[2], "refused") == 0) {
    ncclComm_t child;
    ncclUniqueId id = {{0}};
    int none = 0;
    CHECK(ncclCommShrink(world, &none, 1 << 28, &child, NULL, 0) == ncclInvalidArgument ? ncclSuccess
                                                                                        : ncclInternalError);
    CHECK(ncclCommInitRankScalable(&child, 2, rank, 1 << 24, &id, NULL) == ncclInvalidArgument ? ncclSuccess
                                                                                               : ncclInternalError);
    return 0;
  }
  if (argc > 2 && strcmp(argv[2], "exit") == 0)
    return 0;
  CHECK(ncclCommDestroy(other));
  other = NULL;
  CHECK(ncclCommDestroy(world));
  if (argc == 3)
    raise(SIGKILL);
  return 0;
}
