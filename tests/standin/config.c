/* SPDX-License-Identifier: BSD-3-Clause
 * Checks a communicator's configuration as the emulated NCCL does.
 *
 * Programs pass the struct of the header they were compiled with, older or newer than ours. No byte beyond its `size`
 * is read, and no field that the emulated version or the program's does not know.
 */
#include "tests/standin/standin.h"

#include <limits.h>
#include <string.h>

#define CODE(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))

typedef const void *pointer;
struct known_config {
#define CONFIG(type, field, major, minor, patch, low, high) type field;
#include "versions.def"
};

struct field {
  const char *name;
  size_t offset;
  int since, low, high;
  bool is_int;
};

static const struct field fields[] = {
#define CONFIG(type, field, major, minor, patch, low, high) \
  {#field, \
   offsetof(struct known_config, field), \
   CODE(major, minor, patch), \
   low, \
   high, \
   _Generic(((struct known_config *)NULL)->field, int \
            : true, default \
            : false)},
#include "versions.def"
};

/* sizeof(ncclConfig_t) of the emulated version. */
static size_t own_size(void) {
  size_t size = 0;
#define CONFIG_SIZE(bytes, major, minor, patch) \
  if (standin_version >= CODE(major, minor, patch)) \
    size = bytes;
#include "versions.def"
  return size;
}

/* Every field undefined, as in the initializer, but no magic number. */
static struct known_config undefined(void) {
  struct known_config config = {0};
  int none = NCCL_CONFIG_UNDEF_INT;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (fields[i].is_int)
      memcpy((char *)&config + fields[i].offset, &none, sizeof none);
  return config;
}

ncclResult_t standin_config_check(const ncclConfig_t *config) {
  struct known_config known = undefined();
  size_t size, own = own_size();
  if (!config)
    return ncclSuccess;
  memcpy(&size, config, sizeof size);
  memcpy(&known, config, size < own ? size : own);
  if (known.magic != 0xcafebeef)
    return standin_fail(ncclInvalidArgument, "the config was not made with NCCL_CONFIG_INITIALIZER");
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    const struct field *field = &fields[i];
    int value;
    if (!field->is_int || field->since > standin_version || field->since > (int)known.version)
      continue;
    memcpy(&value, (const char *)&known + field->offset, sizeof value);
    if (value != NCCL_CONFIG_UNDEF_INT && (value < field->low || value > field->high))
      return standin_fail(ncclInvalidArgument, "invalid config: %s is %d", field->name, value);
  }
  if (known.minCTAs > known.maxCTAs)
    return standin_fail(ncclInvalidArgument, "invalid config: minCTAs is %d, maxCTAs %d", known.minCTAs, known.maxCTAs);
  return ncclSuccess;
}
