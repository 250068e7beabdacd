/* SPDX-License-Identifier: BSD-3-Clause
 * tests/standin/versions.def against the nccl.h of this build, of any version: the layout of a configuration, its size
 * in every release, and the library's other assumptions.
 */
#include <limits.h>
#include <stddef.h>

#include "interpose/nccl/nccl_newer.h"
#include "tests/unit/tap.h"

#define CODE(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))

typedef const void *pointer;
struct known_config {
#define CONFIG(type, field, major, minor, patch, low, high) type field;
#include "tests/standin/versions.def"
};

static const struct {
  const char *name;
  size_t end;
  int since;
} fields[] = {
#define CONFIG(type, field, major, minor, patch, low, high) \
  {#field, offsetof(struct known_config, field) + sizeof(type), CODE(major, minor, patch)},
#include "tests/standin/versions.def"
};

static const struct {
  const char *name;
  size_t offset, of_table;
} in_header[] = {
#define CONFIG_UP_TO NCCL_VERSION_CODE
#define CONFIG(type, field, major, minor, patch, low, high) \
  {#field, offsetof(ncclConfig_t, field), offsetof(struct known_config, field)},
#include "tests/standin/versions.def"
};

static const struct {
  size_t bytes;
  int since;
} sizes[] = {
#define CONFIG_SIZE(bytes, major, minor, patch) {bytes, CODE(major, minor, patch)},
#include "tests/standin/versions.def"
};

static size_t size_of_version(int code) {
  size_t size = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (sizes[i].since <= code)
      size = sizes[i].bytes;
  return size;
}

int main(void) {
  note("nccl.h: version code %d", NCCL_VERSION_CODE);
  for (size_t i = 0; i < sizeof in_header / sizeof *in_header; i++)
    ok(in_header[i].offset == in_header[i].of_table, "ncclConfig_t.%s is at %zu, in the table at %zu",
       in_header[i].name, in_header[i].offset, in_header[i].of_table);
  ok(sizeof(ncclConfig_t) == size_of_version(NCCL_VERSION_CODE), "ncclConfig_t has %zu bytes, in the table %zu",
     sizeof(ncclConfig_t), size_of_version(NCCL_VERSION_CODE));

  /* A struct ends with its last field, and is padded to the alignment of a pointer. */
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (i + 1 == sizeof fields / sizeof *fields || fields[i + 1].since != fields[i].since)
      ok((fields[i].end + 7) / 8 * 8 == size_of_version(fields[i].since),
         "up to %s, of %d, it has %zu bytes, in the table %zu", fields[i].name, fields[i].since,
         (fields[i].end + 7) / 8 * 8, size_of_version(fields[i].since));

#if NCCL_VERSION_CODE >= 22403 /* before, it depended on CUDA's header */
  ok((int)ncclNumTypes == 12, "%d element types", (int)ncclNumTypes);
#endif
  ok((int)ncclNumResults == (NCCL_VERSION_CODE < 23003 ? 8 : 9), "%d results", (int)ncclNumResults);
  ok(sizeof(ncclUniqueId) == 128 && sizeof(ncclSimInfo_t) == 24 && sizeof(ncclWaitSignalDesc_t) == 16,
     "an id has 128 bytes, an estimate 24, a signal to wait for 16");
  return tap_done();
}
