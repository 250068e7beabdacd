/* SPDX-License-Identifier: BSD-3-Clause
 * How a model divides slots, as a number: two readings of the same slots that have the same number select the same.
 *
 * Pure functions of their arguments; any thread.
 */
#ifndef LAYERMAP_INFER_DIVISION_H
#define LAYERMAP_INFER_DIVISION_H

#include "layermap/infer/match.h"

/* What has to be the same: the kinds at each place, where names are guessed, too; or the parameters. */
enum tagc_division { TAGC_DIVISION_KINDS, TAGC_DIVISION_PARAMETERS };

/* Of the slots with these pieces, laid out as in `match`. False: without memory. */
bool tagc_division_digest(enum tagc_division what, const struct tagc_model *model, const struct tagc_match *match,
                          const struct tagc_piece *pieces, size_t count, int nranks, size_t element_bytes,
                          uint64_t *digest);

#endif
