/* SPDX-License-Identifier: BSD-3-Clause
 * Digests how a model divides slots: two readings of the same slots with equal digests select the same.
 *
 * Pure functions of their arguments; any thread.
 */
#ifndef LAYERMAP_INFER_DIVISION_H
#define LAYERMAP_INFER_DIVISION_H

#include "layermap/infer/match.h"

/* The equality required: of the kinds at each place (guessed names have these, too), or of the parameters. */
enum tagc_division { TAGC_DIVISION_KINDS, TAGC_DIVISION_PARAMETERS };

/* Digests the slots with these pieces in the layout of `match`. False: no memory. */
bool tagc_division_digest(enum tagc_division what, const struct tagc_model *model, const struct tagc_match *match,
                          const struct tagc_piece *pieces, size_t count, int nranks, size_t element_bytes,
                          uint64_t *digest);

#endif
