/* SPDX-License-Identifier: BSD-3-Clause
 * What the user wants compressed: TAGC_LAYERS and TAGC_SKIP.
 *
 * A selection is a comma-separated list; spaces around its elements are ignored. An element is
 *   7, 0-3      the number of a slot in forward order, or a range of them, both ends included: what starts with a digit
 *   mlp         a kind, of parameters (model.h): attn, mlp, embed, head, norm, bias, expert
 *   @paper      what the paper on TAGC compresses: linear layers outside attention, and embeddings; @all: everything
 *   block.3.*   any other text, without spaces and semicolons, and not after ! or -: a glob (glob.h) over the names of
 *               slots and of parameters; what it names, it names with all that is inside: "block.3" also
 *               "block.3.mlp.up.weight". Slot 7 is called "unit7", too, whatever its name is
 * A slot of which no parameters are known has no kinds: kinds and @paper name nothing there.
 *
 * Pure functions of their arguments (not even the locale matters, so that ranks select alike), any thread, no
 * allocation.
 */
#ifndef LAYERMAP_MODEL_SELECT_H
#define LAYERMAP_MODEL_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tagc_layer;

/* What is accepted, for complaints about a list. */
#define TAGC_SELECT_ACCEPTED \
  "accepted is a comma-separated list of globs (unit1*, block.*.mlp), kinds (attn, mlp, embed, " \
  "head, norm, bias, expert), numbers (7), ranges (0-3, block.0-3), @paper and @all"

/* Is `list` well formed? If not, *why is set to a constant string that says what was expected, and *at to the offset of
 * the offending element. An empty list is well formed and names nothing. */
bool tagc_select_valid(const char *list, const char **why, size_t *at);

/* Copies the element at *rest of a (valid) list, without the spaces around it; *rest, which must not be NULL, moves on
 * to the next one, or becomes NULL. Returns `text`: "" for an empty list. */
enum { TAGC_SELECT_ELEMENT = 256 };
const char *tagc_select_next(const char **rest, char text[TAGC_SELECT_ELEMENT]);

/* Does the element name something by what is in slots: is it a kind, or @paper? */
bool tagc_select_asks_kinds(const char *element);

/* For an element that names nothing: what its writer may have meant ("MLP", "ffn": "mlp"; "all": "@all"), or NULL. */
const char *tagc_select_meant(const char *element);

/* Does the (valid) list name the whole slot, whatever is in it? `unit`: its number in forward order. */
bool tagc_select_matches(const char *list, const char *name, uint32_t unit);

/* Does the (valid) list name the parameter `parameter` ("block.3.mlp.up.weight"), of these kinds (enum tagc_kind), in
 * the slot? */
bool tagc_select_parameter(const char *list, const char *name, uint32_t unit, const char *parameter, uint32_t kinds);

enum tagc_selection { TAGC_SELECT_NONE, TAGC_SELECT_SOME, TAGC_SELECT_ALL };

/* Does the (valid) list name the slot, or a parameter in it? */
bool tagc_select_names(const char *list, uint32_t unit, const struct tagc_layer *layer);

/* How much of a slot `layers` names and `skip` does not. `is_selected`, of layer->count entries, is filled with what
 * holds of each member (NULL where there are none, or nobody wants to know). */
enum tagc_selection tagc_select_layer(const char *layers, const char *skip, uint32_t unit,
                                      const struct tagc_layer *layer, bool *is_selected);

#endif
