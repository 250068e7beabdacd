/* SPDX-License-Identifier: BSD-3-Clause
 * See megatron.h. A block is a row of parts. Each merges parameters of some names: their matrices, and their biases.
 */
#include "layermap/model/megatron.h"

#include <stdio.h>
#include <string.h>

enum { SOURCES = 4 };

/* The sources of each part, by the names of families.h. */
static const struct part {
  const char *name;
  const char *sources[SOURCES];
} parts[] = {
  {"attn.o", {"attn.o"}},
  {"norm1", {"norm1"}},
  {"attn.qkv", {"attn.qkv", "attn.q", "attn.k", "attn.v"}},
  {"attn.q_norm", {"attn.q_norm"}},
  {"attn.k_norm", {"attn.k_norm"}},
  {"norm2", {"norm2"}},
  {"mlp.up", {"mlp.gate_up", "mlp.gate", "mlp.up"}},
  {"mlp.down", {"mlp.down"}},
};
enum { PARTS = sizeof parts / sizeof *parts };

static const struct tagc_parameter *find_parameter(const struct tagc_unit *unit, const char *name) {
  for (size_t i = 0; i < unit->count; i++)
    if (strcmp(unit->parameters[i].name, name) == 0)
      return &unit->parameters[i];
  return NULL;
}

/* The weight, or the bias, of a source of a part; NULL: none, or no such source. */
static const struct tagc_parameter *find_source(const struct tagc_unit *unit, const struct part *part, size_t source,
                                                const char *suffix) {
  char name[TAGC_PARAMETER_NAME];
  if (!part->sources[source])
    return NULL;
  snprintf(name, sizeof name, "%s%s", part->sources[source], suffix);
  return find_parameter(unit, name);
}

/* True if the block has two norms, and nothing outside the parts. */
static bool is_known(const struct tagc_unit *unit) {
  size_t taken = 0;
  for (size_t i = 0; i < PARTS; i++)
    for (size_t j = 0; j < SOURCES; j++)
      taken +=
        (size_t) !!find_source(unit, &parts[i], j, ".weight") + (size_t) !!find_source(unit, &parts[i], j, ".bias");
  return taken == unit->count && find_parameter(unit, "norm2.weight");
}

/* Adds the weights, or the biases, of a part as one parameter. */
static bool add_megatron_part(struct tagc_model *to, const struct tagc_unit *unit, const struct part *part,
                              const char *suffix) {
  uint64_t elements = 0, columns = 0;
  char name[TAGC_PARAMETER_NAME];
  for (size_t i = 0; i < SOURCES; i++) {
    const struct tagc_parameter *source = find_source(unit, part, i, suffix);
    elements += source ? source->rows * source->columns : 0;
    columns = source ? source->columns : columns;
  }
  snprintf(name, sizeof name, "%s%s", part->name, suffix);
  return !elements || tagc_model_add_parameter(to, name, tagc_kinds_of_name(name), elements / columns, columns);
}

static bool add_unit(struct tagc_model *to, const struct tagc_unit *unit) {
  bool done = tagc_model_add_unit(to, unit->name);
  if (!is_known(unit))
    return done && tagc_model_add_parameters(to, unit->parameters, unit->count);
  for (size_t i = 0; i < PARTS; i++)
    done = done && add_megatron_part(to, unit, &parts[i], ".weight") && add_megatron_part(to, unit, &parts[i], ".bias");
  return done;
}

struct tagc_model *tagc_megatron_model(const struct tagc_model *model, bool *no_memory) {
  return tagc_model_remake(model, add_unit, no_memory);
}
