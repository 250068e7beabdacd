/* SPDX-License-Identifier: BSD-3-Clause
 * The names of entries.def.
 */
#include <stdio.h>
#include <string.h>

#include "interpose/nccl/real.h"
#include "interpose/nccl/unknown.h"

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

bool tagc_unknown_is(const char *name) {
  static const char *const mentioned[] = {
#define ENTRY(name) #name,
#define USED(name) #name,
#define KNOWN(name) #name,
#include "interpose/nccl/entries.def"
  };
  static const char *const families[] = {
#define FAMILY(prefix) prefix,
#include "interpose/nccl/entries.def"
  };
  if (strncmp(name, "nccl", 4) != 0 || name[4] < 'A' || name[4] > 'Z')
    return false;
  for (size_t i = 0; i < sizeof mentioned / sizeof *mentioned; i++)
    if (strcmp(name, mentioned[i]) == 0)
      return false;
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    if (strncmp(name, families[i], strlen(families[i])) == 0)
      return false;
  return true;
}

void tagc_unknown_add(struct tagc_unknown_list *list, const char *name) {
  enum { ROOM_FOR_REST = 32 }; /* " and 18446744073709551615 more" */
  const size_t room = sizeof list->text - ROOM_FOR_REST;
  char *end = list->text + list->used;
  if (list->more || list->used + strlen(name) + 2 > room)
    sprintf(end, " and %zu more", ++list->more);
  else
    list->used += (size_t)sprintf(end, "%s%s", list->named++ ? ", " : "", name);
}
