/* SPDX-License-Identifier: BSD-3-Clause
 * The user's choice of layers: TAGC_LAYERS and TAGC_SKIP.
 *
 * A selection is a comma-separated list; spaces around its elements are ignored. An element is
 *   7, 0-3      the number of a slot in forward order, or an inclusive range: anything that starts with a digit
 *   mlp         a kind of parameters (model.h): attn, mlp, embed, head, norm, bias, expert
 *   @paper      all that the paper on TAGC compresses: linear layers outside attention, embeddings; @all: everything
 *   block.3.*   any other text, without spaces and semicolons, not starting with ! or -: a glob (glob.h) over the names
 *               of slots and parameters. It includes all that is inside: "block.3" also "block.3.mlp.up.weight". Slot 7
 *               is also called "unit7", whatever its name
 * A slot with unknown parameters has no kinds: kinds and @paper do not name it. A parameter of which some kinds are
 * unsure is selected only if it would be with each of these kinds and without.
 *
 * Pure functions of their arguments (independent of the locale, so that ranks select alike), any thread, no allocation.
 */
#ifndef LAYERMAP_MODEL_SELECT_H
#define LAYERMAP_MODEL_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tagc_layer;

/* Describes accepted lists, for complaints. */
#define TAGC_SELECT_ACCEPTED \
  "accepted is a comma-separated list of globs (unit1*, block.*.mlp), kinds (attn, mlp, embed, " \
  "head, norm, bias, expert), numbers (7), ranges (0-3, block.0-3), @paper and @all"

/* True if `list` is well formed. Else *why is a constant string with the expectation, *at the offset of the bad
 * element. An empty list is well formed and names nothing. */
bool tagc_select_valid(const char *list, const char **why, size_t *at);

/* Copies the element at *rest of a (valid) list, without spaces around it. *rest must not be NULL; it moves to the next
 * element, or becomes NULL. Returns `text`: "" for an empty list. */
enum { TAGC_SELECT_ELEMENT = 256 };
const char *tagc_select_next(const char **rest, char text[TAGC_SELECT_ELEMENT]);

/* True if the element names parameters by their kind: a kind, or @paper. */
bool tagc_select_asks_kinds(const char *element);

/* For an element that names nothing: the likely intention ("MLP", "ffn": "mlp"; "all": "@all"), or NULL. */
const char *tagc_select_meant(const char *element);

/* True if the (valid) list names the whole slot, whatever its contents. `unit`: its number in forward order. */
bool tagc_select_matches(const char *list, const char *name, uint32_t unit);

/* True if the (valid) list names `parameter` ("block.3.mlp.up.weight"), of these kinds, in the slot. */
bool tagc_select_parameter(const char *list, const char *name, uint32_t unit, const char *parameter, uint32_t kinds);

/* True if the (valid) lists leave the layer's member out only because some of its kinds are unsure. */
bool tagc_select_is_unsure(const char *layers, const char *skip, uint32_t unit, const struct tagc_layer *layer,
                           size_t member);

enum tagc_selection { TAGC_SELECT_NONE, TAGC_SELECT_SOME, TAGC_SELECT_ALL };

/* True if the (valid) list names the slot, or a parameter in it. */
bool tagc_select_names(const char *list, uint32_t unit, const struct tagc_layer *layer);

/* How much of a slot `layers` names and `skip` does not. Fills `is_selected`, of layer->count entries, with the same
 * per member (NULL: no members, or not wanted). */
enum tagc_selection tagc_select_layer(const char *layers, const char *skip, uint32_t unit,
                                      const struct tagc_layer *layer, bool *is_selected);

#endif
