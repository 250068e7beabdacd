/* SPDX-License-Identifier: BSD-3-Clause
 * A profiler plugin of the user, in the first version of the interface. It says on stderr that NCCL uses it. Preloaded,
 * it also makes every file system as small as that of a container without shared memory, if SMALL is set.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SEEN __attribute__((visibility("default")))

int statvfs(const char *path, struct statvfs *found) SEEN;
int statvfs(const char *path, struct statvfs *found) {
  *found = (struct statvfs){.f_frsize = 4096, .f_bavail = *path && getenv("SMALL") ? 16384 : 1 << 30};
  return 0;
}

static int begin(void **context, int *mask) {
  static const char text[] = "other profiler: used\n";
  (void)mask;
  *context = NULL;
  return write(STDERR_FILENO, text, sizeof text - 1) < 0;
}
static int start(void *context, void **handle, void *descriptor) {
  (void)context, (void)descriptor;
  *handle = NULL;
  return 0;
}
static int stop(void *handle) { return handle != NULL; }
static int record(void *handle, int state, void *arguments) {
  (void)state, (void)arguments;
  return handle != NULL;
}
static int end(void *context) { return context != NULL; }

extern const struct plugin {
  const char *name;
  int (*init)(void **, int *);
  int (*start)(void *, void **, void *);
  int (*stop)(void *);
  int (*record)(void *, int, void *);
  int (*finalize)(void *);
} ncclProfiler_v1 SEEN;
const struct plugin ncclProfiler_v1 = {"other", begin, start, stop, record, end};
