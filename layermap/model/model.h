/* SPDX-License-Identifier: BSD-3-Clause
 * A transformer as the layer map sees it: units in forward order, each with its parameters.
 *
 * A *unit* is communicated at once if every part is wrapped by itself: the embedding, one block, the final norm with
 * the head. Like blocks share one unit. A *place* is where a unit stands in the forward order; for a block it has its
 * number. Programs wrap units into calls in many ways: several blocks at once, attention and MLP apart, all unwrapped
 * parts in the root. match.h finds out which.
 *
 * Shapes      A parameter has `rows` (its first dimension) and `columns` (the product of the others, 1 for a vector),
 *             in the frameworks' order: a linear layer from h to i is i x h.
 * Ownership   A model owns all that it points to; tagc_model_free() (NULL is allowed).
 * Threads     Plain data: any thread may read a model that nobody changes.
 */
#ifndef LAYERMAP_MODEL_MODEL_H
#define LAYERMAP_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The purpose of a parameter, as a set: the bias of a norm in a block is TAGC_KIND_NORM | TAGC_KIND_BIAS, that of a
 * query projection TAGC_KIND_ATTN | TAGC_KIND_BIAS. A norm inside attention (of queries and keys) is TAGC_KIND_ATTN |
 * TAGC_KIND_NORM. The matrices of experts, shared ones too, are TAGC_KIND_MLP | TAGC_KIND_EXPERT; a router is
 * TAGC_KIND_EXPERT. Embeddings are those of tokens, positions, types and patches. Unknown parameters have no kind. */
enum tagc_kind {
  TAGC_KIND_ATTN = 1,
  TAGC_KIND_MLP = 2,
  TAGC_KIND_EMBED = 4,
  TAGC_KIND_HEAD = 8,
  TAGC_KIND_NORM = 16,
  TAGC_KIND_BIAS = 32,
  TAGC_KIND_EXPERT = 64,
  TAGC_KINDS = 127 /* all of them */
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

/* The longest names, with the NUL. */
enum { TAGC_PARAMETER_NAME = 128, TAGC_UNIT_NAME = 32 };

/* Limits of models and map files: parameters of all units together, units or places, elements of a parameter, of a
 * unit. They keep sums from overflowing. */
enum { TAGC_MODEL_PARAMETERS = 65536, TAGC_MODEL_PLACES = 16383 };
#define TAGC_PARAMETER_ELEMENTS (UINT64_C(1) << 48)
#define TAGC_UNIT_ELEMENTS (UINT64_C(1) << 56)

struct tagc_parameter {
  char name[TAGC_PARAMETER_NAME]; /* in its unit: "attn.q.weight", "mlp.up.weight", "embed.weight", "norm.weight" */
  uint32_t kinds;                 /* enum tagc_kind: the likely ones */
  uint64_t rows, columns;         /* both >= 1 */
  uint32_t unsure;                /* those of all kinds that it may have or lack */
};

struct tagc_unit {
  char name[TAGC_UNIT_NAME];         /* "block" (without its number), "embed", "head", ... */
  struct tagc_parameter *parameters; /* in the order in which the framework registers them */
  size_t count;
  uint64_t elements; /* of the added parameters; tagc_unit_elements() counts them */
  bool is_guessed;   /* that order is a guess: the parameters are these, but may lie elsewhere in their unit's buffer */
};

struct tagc_model_place {
  uint32_t unit; /* index into units */
  int32_t block; /* number of the block; -1: not a block */
};

struct tagc_model {
  char family[16];              /* "gpt2", "llama", ...; "": unknown, as in a map file without one */
  enum tagc_layout_kind layout; /* of its calls; TAGC_LAYOUTS: not given */
  uint32_t heads, kv_heads;     /* of attention in all blocks; 0: not known, as in a map file */
  bool is_guessed;              /* units may be registered in another order than that of their places */
  struct tagc_unit *units;      /* each of them once */
  size_t unit_count;
  struct tagc_model_place *places; /* in forward order */
  size_t place_count;
  size_t parameter_count; /* of all units */
  bool no_memory;         /* the latest addition failed for lack of memory */
};

/* An empty model without a layout; NULL: no memory. */
struct tagc_model *tagc_model_create(void);
void tagc_model_free(struct tagc_model *model);

/* Adds a unit without parameters, a parameter to the last unit, or a place at the end. False, and the model is
 * unchanged: no memory, a limit above is passed, or a name is too long. */
bool tagc_model_add_unit(struct tagc_model *model, const char *name);
bool tagc_model_add_parameter(struct tagc_model *model, const char *name, uint32_t kinds, uint64_t rows,
                              uint64_t columns);
/* Adds parameters of another unit, up to the first that fails. */
bool tagc_model_add_parameters(struct tagc_model *model, const struct tagc_parameter *parameters, size_t count);
bool tagc_model_add_place(struct tagc_model *model, uint32_t unit, int32_t block);

/* A model of the same family and the same places, to which `add_unit` adds a unit for each of this one. NULL: it has
 * failed, maybe for lack of memory: see no_memory. */
struct tagc_model *tagc_model_remake(const struct tagc_model *model,
                                     bool (*add_unit)(struct tagc_model *to, const struct tagc_unit *unit),
                                     bool *no_memory);

/* Elements of a unit, and of the whole model in all its places (UINT64_MAX: that many or more). */
uint64_t tagc_unit_elements(const struct tagc_unit *unit);
uint64_t tagc_model_elements(const struct tagc_model *model);

/* The kinds that a parameter's name tells ("model.layers.3.self_attn.q_proj.bias"), in frameworks' names. */
uint32_t tagc_kinds_of_name(const char *name);

/* "attn" and so on for one kind, or NULL; and the reverse, or 0. */
const char *tagc_kind_name(enum tagc_kind kind);
uint32_t tagc_kind_find(const char *name, size_t length);

#endif
