/* SPDX-License-Identifier: BSD-3-Clause
 * What has been inferred of the slots of a cycle, and why, for people: at TAGC_LOG=info a line for the guess, one for
 * what it may be instead, and one for each slot; and what lists of layers name in vain there.
 */
#ifndef INTERPOSE_STATS_LAYERS_LOG_H
#define INTERPOSE_STATS_LAYERS_LOG_H

#include "env/log.h"
#include "layermap/infer/layers.h"

enum { TAGC_LAYERS_WORDS = 256 }; /* room for a line */

/* Writes these lines to the log. `layers`: of the slots of the cycle, which are as many. */
void tagc_layers_log(uint64_t communicator, const struct tagc_slot_info *slots, const struct tagc_layers *layers);

/* Warns of each element of TAGC_LAYERS or TAGC_SKIP that names nothing there, and where kinds are asked for and what is
 * in slots is not known. `missing`: the level for a kind that the model has nothing of. */
void tagc_layers_log_unnamed(uint64_t communicator, const char *variable, const char *list, enum tagc_log_level missing,
                             const struct tagc_slot_info *slots, const struct tagc_layers *layers);

/* "llama, hidden 4096, ... (97% sure)". Returns `text`. */
const char *tagc_layers_words(const struct tagc_layers *layers, char text[TAGC_LAYERS_WORDS]);
/* The parameters of a layer that are selected: "mlp.up.weight mlp.down.weight"; of many the first ones, and how many
 * more. Returns `text`. */
const char *tagc_selected_words(const struct tagc_layer *layer, const bool *is_selected, char text[TAGC_LAYERS_WORDS]);
/* "block.3 is unit 4 (by gathers), 7 float32 avg: 12 parameters, norm1.weight to mlp.down.bias": which unit it is has
 * been found by the gathers of the forward pass, or by the reverse order of the gradients. Returns `text`. */
const char *tagc_layer_words(const struct tagc_slot_info *slot, const struct tagc_layer *layer,
                             char text[TAGC_LAYERS_WORDS]);

#endif
