/* SPDX-License-Identifier: BSD-3-Clause
 * A transformer as the layer map sees it: units in forward order, each with its parameters.
 *
 * A *unit* is what a program communicates at once where every part is wrapped by itself: the embedding, one block, the
 * final norm with the head. Blocks that are alike share one unit; a *place* is where a unit stands in the forward
 * order, and for a block its number. How a program wraps units into calls (several blocks at once, attention and MLP
 * apart, all that is not wrapped in the root) is for those to find out who hold a model against calls (match.h).
 *
 * Shapes      A parameter has `rows` (its first dimension) and `columns` (the product of the others, 1 for a vector),
 *             in the order in which frameworks keep them: a linear layer from h to i is i x h.
 * Ownership   A model owns all that it points to; tagc_model_free() (NULL is allowed).
 * Threads     Plain data: any thread may read a model that nobody changes.
 */
#ifndef LAYERMAP_MODEL_MODEL_H
#define LAYERMAP_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a parameter is for. Several may hold: the bias of a norm in a block is TAGC_KIND_NORM | TAGC_KIND_BIAS; the bias
 * of a query projection TAGC_KIND_ATTN | TAGC_KIND_BIAS. A norm inside attention (of queries and keys) is
 * TAGC_KIND_ATTN | TAGC_KIND_NORM. The matrices of experts, shared ones too, are TAGC_KIND_MLP | TAGC_KIND_EXPERT; a
 * router is TAGC_KIND_EXPERT. Embeddings are those of tokens, positions, types and patches. What nobody knows has
 * none. */
enum tagc_kind {
  TAGC_KIND_ATTN = 1,
  TAGC_KIND_MLP = 2,
  TAGC_KIND_EMBED = 4,
  TAGC_KIND_HEAD = 8,
  TAGC_KIND_NORM = 16,
  TAGC_KIND_BIAS = 32,
  TAGC_KIND_EXPERT = 64
};

/* How a framework lays parameters out in the buffer of a call: see layout.h. */
enum tagc_layout_kind {
  TAGC_LAYOUT_FSDP1,
  TAGC_LAYOUT_FSDP1_ALIGNED,
  TAGC_LAYOUT_FSDP2,
  TAGC_LAYOUT_ZERO3,
  TAGC_LAYOUT_MEGATRON,
  TAGC_LAYOUTS
};

/* The longest names, with the byte that ends them. */
enum { TAGC_PARAMETER_NAME = 64, TAGC_UNIT_NAME = 32 };

/* More than that no model has, and no map file may: parameters of all units together, units or places, elements of a
 * parameter, of a unit: so that sums never overflow. */
enum { TAGC_MODEL_PARAMETERS = 65536, TAGC_MODEL_PLACES = 16383 };
#define TAGC_PARAMETER_ELEMENTS (UINT64_C(1) << 48)
#define TAGC_UNIT_ELEMENTS (UINT64_C(1) << 56)

struct tagc_parameter {
  char name[TAGC_PARAMETER_NAME]; /* in its unit: "attn.q.weight", "mlp.up.weight", "embed.weight", "norm.weight" */
  uint32_t kinds;                 /* enum tagc_kind */
  uint64_t rows, columns;         /* both >= 1 */
};

struct tagc_unit {
  char name[TAGC_UNIT_NAME];         /* "block", "embed", "head", ...: of a block without its number */
  struct tagc_parameter *parameters; /* in the order in which the framework registers them */
  size_t count;
  uint64_t elements; /* so many as were added; tagc_unit_elements() counts them */
};

struct tagc_model_place {
  uint32_t unit; /* index into units */
  int32_t block; /* number of the block; -1: no block, there is one of it */
};

struct tagc_model {
  char family[16];              /* "gpt2", "llama", ...; "" where it is not known, as in a map file without one */
  enum tagc_layout_kind layout; /* that its calls have; TAGC_LAYOUTS: not said */
  struct tagc_unit *units;      /* each of them once */
  size_t unit_count;
  struct tagc_model_place *places; /* in forward order */
  size_t place_count;
  size_t parameter_count; /* of all units */
  bool no_memory;         /* what was added last would have been, had there been memory */
};

/* An empty model that says no layout; NULL without memory. */
struct tagc_model *tagc_model_create(void);
void tagc_model_free(struct tagc_model *model);

/* Adds a unit without parameters, a parameter to the last unit, or a place behind the last one. False without memory,
 * where a limit above is passed, or where a name is too long; the model is as it was then. */
bool tagc_model_add_unit(struct tagc_model *model, const char *name);
bool tagc_model_add_parameter(struct tagc_model *model, const char *name, uint32_t kinds, uint64_t rows,
                              uint64_t columns);
/* Parameters of another unit, up to the first that cannot be added. */
bool tagc_model_add_parameters(struct tagc_model *model, const struct tagc_parameter *parameters, size_t count);
bool tagc_model_add_place(struct tagc_model *model, uint32_t unit, int32_t block);

/* Elements of a unit, and of the whole model in all its places (UINT64_MAX: at least so many). */
uint64_t tagc_unit_elements(const struct tagc_unit *unit);
uint64_t tagc_model_elements(const struct tagc_model *model);

/* The kinds that the name of a parameter tells ("model.layers.3.self_attn.q_proj.bias"), as frameworks name theirs. */
uint32_t tagc_kinds_of_name(const char *name);

/* "attn" and so on for one kind; NULL for what is none. And the other way round: 0 for what is none. */
const char *tagc_kind_name(enum tagc_kind kind);
uint32_t tagc_kind_find(const char *name, size_t length);

#endif
