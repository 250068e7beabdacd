/* SPDX-License-Identifier: BSD-3-Clause
 * JSON for tagc-map: jansson reads it; what it does not keep, where a value stands in the text, is looked up again for
 * complaints. One thread; tagc_json_free() gives all back.
 */
#ifndef LAYERMAP_TAGC_MAP_JSON_H
#define LAYERMAP_TAGC_MAP_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "layermap/model/complaint.h"

struct tagc_json_document {
  json_t *root; /* an object */
  char *text;   /* owned, ends with a 0 */
  size_t bytes;
};

/* Takes `text` over (from malloc(), with a 0 behind it), also where it fails. Objects with a key twice are refused, as
 * is what is nested too deep. False: *complaint says why. */
bool tagc_json_parse(struct tagc_json_document *json, char *text, size_t bytes, struct tagc_complaint *complaint);
void tagc_json_free(struct tagc_json_document *json);

/* Where the value of the first such key behind `from` begins; `from` where there is none. */
size_t tagc_json_find(const struct tagc_json_document *json, size_t from, const char *key);

/* Fills the complaint with the line and the column of `at`. Returns false. */
__attribute__((format(printf, 4, 5))) bool tagc_json_complain(const struct tagc_json_document *json, size_t at,
                                                              struct tagc_complaint *complaint, const char *text, ...);

/* A complaint about a file as a whole. Returns false. */
__attribute__((format(printf, 2, 3))) bool tagc_file_complain(struct tagc_complaint *complaint, const char *text, ...);

/* "a string", "null" and so on. */
const char *tagc_json_kind(const json_t *value);

/* The text as it can be shown: at most 63 bytes, those that a terminal might take for something else as '?'. Returns
 * `shown`. */
const char *tagc_json_show(const char *text, char shown[64]);

#endif
