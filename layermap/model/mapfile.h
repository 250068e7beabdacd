/* SPDX-License-Identifier: BSD-3-Clause
 * Map files: the layers of a model, as a person or tagc-map writes them down; the format is in man/tagc-map.5:
 *
 *   tagc-map 1
 *   family llama                          optional
 *   unit embed                            one of it, in forward order
 *     parameter embed.weight 32000x4096   in the order in which the framework registers them
 *   unit block 0,2-31                     blocks that are alike; where units of one name follow one another, their
 *   blocks come in
 *     parameter attn.q.weight 4096x4096   the order of their numbers
 *     parameter odd 4096 attn,norm        with its kinds, where the name does not tell them
 *   unit block 1
 *     ...
 */
#ifndef LAYERMAP_MODEL_MAPFILE_H
#define LAYERMAP_MODEL_MAPFILE_H

#include <stdio.h>

#include "layermap/model/complaint.h"
#include "layermap/model/model.h"

/* No map file is larger. */
enum { TAGC_MAPFILE_BYTES = 16 << 20 };

/* The model in the text, which need not end with a 0. NULL: *complaint says why. */
struct tagc_model *tagc_mapfile_parse(const char *text, size_t bytes, struct tagc_complaint *complaint);
/* The same for a regular file; *digest (may be NULL): of its bytes, never 0. */
struct tagc_model *tagc_mapfile_read(const char *path, uint64_t *digest, struct tagc_complaint *complaint);
/* Writes what tagc_mapfile_parse() reads as a model with the same units at the same places (units without a place are
 * left out). False: the file said so (errno), or no map says what the model does (EINVAL): a unit without parameters, a
 * name of other characters than names in maps, a place that is there twice, blocks of one name in another order than
 * that of their numbers. */
bool tagc_mapfile_write(FILE *file, const struct tagc_model *model);

/* The numbers of the unit's blocks at the places from *at to `end`, as a map has them ("0,2-31"), as far as there is
 * room for them; *at is then where to go on. Returns `text`. */
const char *tagc_mapfile_blocks(const struct tagc_model *model, uint32_t unit, size_t *at, size_t end, char *text,
                                size_t size);

/* May a unit, a parameter or a family of a map be called that? */
bool tagc_mapfile_is_name(const char *name, size_t length);

#endif
