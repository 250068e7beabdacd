/* SPDX-License-Identifier: BSD-3-Clause
 * The keys of a config.json. The first error ends the reading: after it, readers return the default and complain no
 * more.
 */
#ifndef LAYERMAP_TAGC_MAP_KEYS_H
#define LAYERMAP_TAGC_MAP_KEYS_H

#include <stdint.h>
#include <stdio.h>

#include "layermap/tagc-map/json.h"

/* The largest size. */
enum { TAGC_LARGEST_SIZE = INT32_MAX };

struct tagc_keys {
  struct tagc_json_document json;
  const json_t *object; /* holds the sizes ... */
  size_t from;          /* ... and begins here */
  struct tagc_complaint *complaint;
  bool is_good, is_part; /* part: `object` is one of several models in the file */
  FILE *notes;           /* gets a line per important key that is absent; NULL: nobody reads them */
  const char *path;      /* of the file, for these lines ... */
  const char *type;      /* ... and the type of the model whose defaults are taken */
};

/* The value of a key; NULL: absent, or null. */
const json_t *tagc_keys_value(const struct tagc_keys *r, const char *key);
/* The start of a key's value, for complaints. */
size_t tagc_keys_place(const struct tagc_keys *r, const char *key);

/* Read a whole number >= `least`, or a flag. */
uint32_t tagc_keys_size(struct tagc_keys *r, const char *key, uint32_t by_default, uint32_t least);
/* As tagc_keys_size(), and notes an absent key, if it has a default: such a file is more often cut short than of the
 * default. */
uint32_t tagc_keys_important(struct tagc_keys *r, const char *key, uint32_t by_default, uint32_t least);
bool tagc_keys_flag(struct tagc_keys *r, const char *key, bool by_default);
/* Refuses a flag whose other value changes parameters in an unknown way. */
void tagc_keys_require(struct tagc_keys *r, const char *key, bool required);

/* The first entry of "architectures", or "". */
const char *tagc_keys_class(struct tagc_keys *r);
bool tagc_ends_with(const char *text, const char *end);

/* Goes to one of several models in the file, which must be there, and back to the whole. */
void tagc_keys_enter(struct tagc_keys *r, const char *key);
void tagc_keys_leave(struct tagc_keys *r);

#endif
