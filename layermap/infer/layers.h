/* SPDX-License-Identifier: BSD-3-Clause
 * The layers of the slots of a locked cycle: a name for each, and the places of parameters in its buffer.
 *
 * They come from a fitting map file, else from the arithmetic of transformers (solve.h), else from a slot's place in
 * the forward order ("unit7"). Layers choose what is compressed and appear in reports; no sum's correctness depends on
 * them.
 *
 * Purity      A function of its arguments, which are equal on all ranks: so are the layers. (A rank without memory has
 *             none: the ranks compare layers in the vote.)
 * Ownership   tagc_layers_free() frees all that layers point to, except the map's model, which must outlive them.
 */
#ifndef LAYERMAP_INFER_LAYERS_H
#define LAYERMAP_INFER_LAYERS_H

#include "layermap/cycle/cycle.h"
#include "layermap/model/contents.h"
#include "layermap/model/layout.h"

enum tagc_layer_source { TAGC_LAYER_POSITION, TAGC_LAYER_ARITHMETIC, TAGC_LAYER_MAP };

enum {
  TAGC_LAYERS_AMBIGUOUS = 50, /* below this confidence */
  TAGC_LAYERS_SELECT = 95     /* from here on a guess may select inside slots; a map may from 50 on */
};
/* The longest description of a model, with the NUL. */
enum { TAGC_LAYERS_WHAT = 128 };
struct tagc_layers {
  enum tagc_layer_source source;
  unsigned confidence;              /* per cent; of the whole guess. Below 50: ambiguous, as logs and reports say */
  char what[TAGC_LAYERS_WHAT];      /* "llama, hidden 4096, intermediate 11008, 32 blocks, vocabulary 32000, fsdp2" */
  char runner_up[TAGC_LAYERS_WHAT]; /* the next best guess that divides a slot otherwise; "": none */
  struct tagc_layer *layers;        /* one per slot */
  size_t count;
  bool proven;  /* of all-reduces: a model of known sizes explains all slots, cut where its parameters end, so they are
                   its gradients. An unproven guess is not used */
  void *memory; /* holds the targets of the pointers */
};

/* True if the contents of slots are certain enough to select inside them: a guess must be surer than a map. */
static inline bool tagc_layers_are_sure(const struct tagc_layers *layers) {
  return layers->confidence >= (layers->source == TAGC_LAYER_MAP ? TAGC_LAYERS_AMBIGUOUS : TAGC_LAYERS_SELECT);
}

/* The layers of the slots of a cycle (in the order of their calls) over nranks ranks; ranks do not cut all-reduces.
 * `map`: of TAGC_LAYERMAP, or NULL. *why, of 160 bytes: why a map does not fit (else ""). NULL: no memory. */
struct tagc_layers *tagc_layers_infer(const struct tagc_slot_info *slots, size_t count, int nranks,
                                      const struct tagc_model *map, char why[160]);
void tagc_layers_free(struct tagc_layers *layers);

#endif
