/* SPDX-License-Identifier: BSD-3-Clause
 * The layers inferred for the slots of a cycle, for people: at TAGC_LOG=info a line for the guess, one for its
 * alternative, and one for each slot; and names in lists of layers that match nothing there.
 */
#ifndef INTERPOSE_STATS_LAYERS_LOG_H
#define INTERPOSE_STATS_LAYERS_LOG_H

#include "env/log.h"
#include "layermap/infer/layers.h"

enum { TAGC_LAYERS_WORDS = 256 }; /* room for a line */

/* Writes these lines to the log. `layers`: those of the slots of the cycle, equal in number. */
void tagc_layers_log(uint64_t communicator, const struct tagc_slot_info *slots, const struct tagc_layers *layers);

/* Warns of each element of TAGC_LAYERS or TAGC_SKIP that matches nothing, and if kinds are requested but the content of
 * slots is unknown. `missing`: the log level for a kind that the model lacks. */
void tagc_layers_log_unnamed(uint64_t communicator, const char *variable, const char *list, enum tagc_log_level missing,
                             const struct tagc_slot_info *slots, const struct tagc_layers *layers);

/* What a user writes whose selection needs to know parameters: how to get a map. It lives as long as the process. */
const char *tagc_layers_remedy(void);

/* "llama, hidden 4096, ... (97% sure)". Returns `text`. */
const char *tagc_layers_words(const struct tagc_layers *layers, char text[TAGC_LAYERS_WORDS]);
/* The selected parameters of a layer: "mlp.up.weight mlp.down.weight"; of many the first, and a number. Returns
 * `text`. */
const char *tagc_selected_words(const struct tagc_layer *layer, const bool *is_selected, char text[TAGC_LAYERS_WORDS]);
/* "block.3 is unit 4 (by gathers), 7 float32 avg: 12 parameters, norm1.weight to mlp.down.bias". The unit follows from
 * the gathers of the forward pass, or from the reverse order of the gradients. Returns `text`. */
const char *tagc_layer_words(const struct tagc_slot_info *slot, const struct tagc_layer *layer,
                             char text[TAGC_LAYERS_WORDS]);

#endif
