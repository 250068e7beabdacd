/* SPDX-License-Identifier: BSD-3-Clause
 * The names of entries.def.
 */
#include <string.h>

#include "interpose/nccl/real.h"

static const struct {
  const char *name;
  bool exported;
} entries[] = {
#define ENTRY(name) {#name, true},
#define USED(name) {#name, false},
#include "interpose/nccl/entries.def"
};

const char *tagc_real_name(enum tagc_entry entry) { return entries[entry].name; }

bool tagc_real_is_exported(enum tagc_entry entry) { return entries[entry].exported; }

enum tagc_entry tagc_real_find_entry(const char *name) {
  if (strncmp(name, "nccl", 4) != 0)
    return TAGC_ENTRY_COUNT;
  for (int i = 0; i < TAGC_ENTRY_COUNT; i++)
    if (entries[i].exported && strcmp(entries[i].name, name) == 0)
      return (enum tagc_entry)i;
  return TAGC_ENTRY_COUNT;
}
