/* SPDX-License-Identifier: BSD-3-Clause
 * The layers of the slots of a locked cycle: a name for each, and which parameters lie where in its buffer.
 *
 * They come from a map file, where there is one that fits, else from the arithmetic of transformers (solve.h), else
 * every slot has but its place in the forward order ("unit7"). What comes of it chooses what is compressed, and is told
 * in reports; whether a sum is right never depends on it.
 *
 * Purity      A function of its arguments, which are equal on all ranks: so are the layers. (Without memory a rank has
 *             none: the ranks compare them in the vote.)
 * Ownership   tagc_layers_free() gives back all that layers point to, but for the map's model, which must outlive them.
 */
#ifndef LAYERMAP_INFER_LAYERS_H
#define LAYERMAP_INFER_LAYERS_H

#include "layermap/cycle/cycle.h"
#include "layermap/model/contents.h"
#include "layermap/model/layout.h"

enum tagc_layer_source { TAGC_LAYER_POSITION, TAGC_LAYER_ARITHMETIC, TAGC_LAYER_MAP };

enum { TAGC_LAYERS_AMBIGUOUS = 50 }; /* below so much confidence */
/* The longest description of a model, with the byte that ends it. */
enum { TAGC_LAYERS_WHAT = 128 };
struct tagc_layers {
  enum tagc_layer_source source;
  unsigned confidence;         /* per cent; of the guess as a whole. Below 50: ambiguous, said so in logs and reports */
  char what[TAGC_LAYERS_WHAT]; /* "llama, hidden 4096, intermediate 11008, 32 blocks, vocabulary 32000, fsdp2" */
  char runner_up[TAGC_LAYERS_WHAT]; /* what the next best guess that divides a slot otherwise is; "": none */
  struct tagc_layer *layers;        /* one a slot */
  size_t count;
  bool proven;  /* of all-reduces: a model of known sizes, in slots that are cut where its parameters end, explains all
                   of them, so that they are its gradients. Without that a guess is not taken */
  void *memory; /* what they point to */
};

/* The layers of the slots of a cycle (in the order of their calls) over nranks ranks; what all-reduces add up is not
 * cut by ranks. `map`: of TAGC_LAYERMAP, or NULL. *why, of 160 bytes: where there is a map that does not fit, what does
 * not ("" else). NULL without memory. */
struct tagc_layers *tagc_layers_infer(const struct tagc_slot_info *slots, size_t count, int nranks,
                                      const struct tagc_model *map, char why[160]);
void tagc_layers_free(struct tagc_layers *layers);

#endif
