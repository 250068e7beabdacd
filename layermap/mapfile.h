/* SPDX-License-Identifier: BSD-3-Clause
 * Map files: the layers of a model, as a person or tagc-map writes them down; the format is in man/tagc-map.5.
 */
#ifndef LAYERMAP_MAPFILE_H
#define LAYERMAP_MAPFILE_H

#include <stdio.h>

#include "layermap/complaint.h"
#include "layermap/model.h"

/* No map file is larger. */
enum { TAGC_MAPFILE_BYTES = 16 << 20 };

/* The model in the text, which need not end with a 0. NULL: *complaint says why. */
struct tagc_model *tagc_mapfile_parse(const char *text, size_t bytes, struct tagc_complaint *complaint);
/* The same for a file; *digest (may be NULL): of its bytes, never 0. */
struct tagc_model *tagc_mapfile_read(const char *path, uint64_t *digest, struct tagc_complaint *complaint);
/* Writes what tagc_mapfile_parse() reads. False: the file said so (errno). */
bool tagc_mapfile_write(FILE *file, const struct tagc_model *model);

#endif
