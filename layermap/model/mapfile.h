/* SPDX-License-Identifier: BSD-3-Clause
 * Map files: the layers of a model, written by a person or tagc-map; the format is in man/tagc-map.5:
 *
 *   tagc-map 1
 *   family llama                          optional
 *   order guessed                         optional: units may be registered in another order than that of the file
 *   unit embed                            a single one, in forward order
 *     parameter embed.weight 32000x4096   in the order in which the framework registers them
 *   unit block 0,2-31                     blocks that are alike; adjacent units of one name:
 *     parameter attn.q.weight 4096x4096   their blocks come in the order of their numbers
 *     parameter odd 4096 attn,norm        with its kinds, if the name does not tell them
 *     parameter new 64x4096 attn?,mlp?    kinds that it may have; "unknown": any
 *   unit block 1
 *     order guessed                       the same for the parameters of this unit
 *     ...
 */
#ifndef LAYERMAP_MODEL_MAPFILE_H
#define LAYERMAP_MODEL_MAPFILE_H

#include <stdio.h>

#include "layermap/model/complaint.h"
#include "layermap/model/model.h"

/* The most bytes of a map file. */
enum { TAGC_MAPFILE_BYTES = 16 << 20 };

/* Parses text, which needs no NUL. NULL: see *complaint. */
struct tagc_model *tagc_mapfile_parse(const char *text, size_t bytes, struct tagc_complaint *complaint);
/* As tagc_mapfile_parse(), for a regular file; *digest (may be NULL): of its bytes, never 0. */
struct tagc_model *tagc_mapfile_read(const char *path, uint64_t *digest, struct tagc_complaint *complaint);
/* Writes a map that tagc_mapfile_parse() reads as a model with the same units at the same places; units without a place
 * are left out. False with errno: the file's, or EINVAL if no map can express the model: a unit without parameters, a
 * name with excluded characters, a duplicate place, blocks of one name not ordered by number. */
bool tagc_mapfile_write(FILE *file, const struct tagc_model *model);

/* Prints the numbers of the unit's blocks at the places from *at to `end` as in a map ("0,2-31"), while they fit. *at
 * moves to the first one left. Returns `text`. */
const char *tagc_mapfile_blocks(const struct tagc_model *model, uint32_t unit, size_t *at, size_t end, char *text,
                                size_t size);

/* True if a unit, a parameter or a family of a map may have this name. */
bool tagc_mapfile_is_name(const char *name, size_t length);

#endif
