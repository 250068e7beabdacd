/* SPDX-License-Identifier: BSD-3-Clause
 * The headers of a checkpoint's files: every tensor that may be a parameter, by name, checked against the files' sizes.
 */
#ifndef LAYERMAP_TAGC_MAP_HEADER_H
#define LAYERMAP_TAGC_MAP_HEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "layermap/tagc-map/json.h"

struct tagc_tensor {
  const char *name;       /* in the JSON of its file */
  uint64_t rows, columns; /* as in model.h */
  uint64_t begin, end;    /* bytes, behind the header */
  int file;
  bool is_buffer; /* stored, but no parameter */
};

struct tagc_headers {
  char *const *paths;
  int count;
  struct tagc_json_document *files;
  uint64_t *data_bytes; /* of each file, behind its header */
  struct tagc_tensor *tensors;
  size_t tensor_count, room;
  struct tagc_complaint *complaint;
};

/* Reads the headers of all files. Then the tensors are the parameters: at least one, each once, sorted by name. False:
 * see *complaint. In both cases call tagc_headers_free(). */
bool tagc_headers_read(struct tagc_headers *headers, char *const *paths, int count, struct tagc_complaint *complaint);
void tagc_headers_free(struct tagc_headers *headers);

#endif
