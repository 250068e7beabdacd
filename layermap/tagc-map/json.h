/* SPDX-License-Identifier: BSD-3-Clause
 * JSON for tagc-map. jansson reads it but drops the places of values: complaints look them up in the text. One thread.
 * tagc_json_free() frees everything in a document.
 */
#ifndef LAYERMAP_TAGC_MAP_JSON_H
#define LAYERMAP_TAGC_MAP_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "layermap/model/complaint.h"

struct tagc_json_document {
  json_t *root; /* an object */
  char *text;   /* owned, ends with a NUL */
  size_t bytes;
};

/* Takes ownership of `text` (from malloc(), NUL-terminated), also on failure. Refuses objects with duplicate keys, and
 * too deep nesting. False: see *complaint. */
bool tagc_json_parse(struct tagc_json_document *json, char *text, size_t bytes, struct tagc_complaint *complaint);
void tagc_json_free(struct tagc_json_document *json);

/* The start of the value of the first such key behind `from`; `from` if none. */
size_t tagc_json_find(const struct tagc_json_document *json, size_t from, const char *key);

/* Fills the complaint with the line and the column of `at`. Returns false. */
__attribute__((format(printf, 4, 5))) bool tagc_json_complain(const struct tagc_json_document *json, size_t at,
                                                              struct tagc_complaint *complaint, const char *text, ...);

/* Complains about a file as a whole. Returns false. */
__attribute__((format(printf, 2, 3))) bool tagc_file_complain(struct tagc_complaint *complaint, const char *text, ...);

/* "a string", "null" and so on. */
const char *tagc_json_kind(const json_t *value);

/* The printable form of the text, at most 63 bytes: '?' replaces bytes that could steer a terminal. Returns `shown`. */
const char *tagc_json_show(const char *text, char shown[64]);

#endif
