/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/stats/layers_log.h"

#include <stdio.h>
#include <string.h>

#include "interpose/nccl/process.h"
#include "layermap/cycle/calls.h"
#include "layermap/model/select.h"

const char *tagc_layers_words(const struct tagc_layers *layers, char text[TAGC_LAYERS_WORDS]) {
  if (layers->source == TAGC_LAYER_POSITION) {
    snprintf(text, TAGC_LAYERS_WORDS,
             "no model is known that has units of these sizes: slots are named by their "
             "places");
    return text;
  }
  const char *by = layers->source != TAGC_LAYER_MAP                    ? ""
                   : tagc_library_asks_torch() == TAGC_ASK_FULLY_SHARD ? "by PyTorch, "
                                                                       : "by TAGC_LAYERMAP, ";
  snprintf(text, TAGC_LAYERS_WORDS, "%s (%s%u%% sure%s)", layers->what, by, layers->confidence,
           layers->confidence < TAGC_LAYERS_AMBIGUOUS ? ": ambiguous" : "");
  return text;
}

/* The name of a member in its slot: "mlp.up.weight" in block.3, "block.3.mlp.up.weight" in a slot that holds more. */
static const char *inside_name(const struct tagc_layer *layer, size_t member, char text[TAGC_MEMBER_NAME]) {
  const size_t prefix = strlen(layer->name);
  tagc_layer_member_name(layer, member, text, TAGC_MEMBER_NAME);
  const bool in_block = layer->members[member].block >= 0;
  return in_block && strncmp(text, layer->name, prefix) == 0 && text[prefix] == '.' ? text + prefix + 1 : text;
}

const char *tagc_layer_words(const struct tagc_slot_info *slot, const struct tagc_layer *layer,
                             char text[TAGC_LAYERS_WORDS]) {
  char call[64], pass[32] = "", members[128] = "parameters unknown", first[TAGC_MEMBER_NAME], last[TAGC_MEMBER_NAME];
  const char *of_call = strchr(tagc_calls_line(&slot->signature, call, sizeof call), ' ');
  if (slot->pass)
    snprintf(pass, sizeof pass, ", pass %u", slot->pass + 1);
  if (layer->count == 1)
    snprintf(members, sizeof members, "%.40s", inside_name(layer, 0, first));
  else if (layer->count)
    snprintf(members, sizeof members, "%zu parameters, %.40s to %.40s", layer->count, inside_name(layer, 0, first),
             inside_name(layer, layer->count - 1, last));
  snprintf(text, TAGC_LAYERS_WORDS, "%s is unit %u (by %s)%s,%s: %s", layer->name, slot->unit,
           slot->told ? "gathers" : "gradients", pass, of_call ? of_call : "", members);
  return text;
}

const char *tagc_selected_words(const struct tagc_layer *layer, const bool *is_selected, char text[TAGC_LAYERS_WORDS]) {
  enum { MOST = 96 }; /* fits beside the rest of a line */
  size_t used = 0, left = 0;
  *text = '\0';
  for (size_t i = 0; i < layer->count; i++) {
    char whole[TAGC_MEMBER_NAME];
    if (!is_selected[i])
      continue;
    const char *name = inside_name(layer, i, whole);
    if (left || (used && used + strlen(name) + 1 > MOST))
      left++;
    else
      used += (size_t)snprintf(text + used, TAGC_LAYERS_WORDS - used, "%s%s", used ? " " : "", name);
  }
  if (left)
    snprintf(text + used, TAGC_LAYERS_WORDS - used, " and %zu more", left);
  return text;
}

void tagc_layers_log(uint64_t communicator, const struct tagc_slot_info *slots, const struct tagc_layers *layers) {
  char text[TAGC_LAYERS_WORDS];
  tagc_log(TAGC_LOG_INFO, "layermap", "communicator %llu: %s", (unsigned long long)communicator,
           tagc_layers_words(layers, text));
  if (*layers->runner_up)
    tagc_log(TAGC_LOG_INFO, "layermap", "communicator %llu: or: %s", (unsigned long long)communicator,
             layers->runner_up);
  for (size_t i = 0; i < layers->count; i++)
    tagc_log(TAGC_LOG_INFO, "layermap", "communicator %llu, slot %zu: %s", (unsigned long long)communicator, i,
             tagc_layer_words(&slots[i], &layers->layers[i], text));
}

/* ---- what lists name in vain ------------------------------------------------------------------------------------- */

static bool is_named(const char *element, const struct tagc_slot_info *slots, const struct tagc_layers *layers) {
  for (size_t i = 0; i < layers->count; i++)
    if (tagc_select_names(element, slots[i].unit, &layers->layers[i]))
      return true;
  return false;
}

/* An existing name: of a parameter in the middle of the model, or of a slot. */
static const char *an_example(const struct tagc_layers *layers, char text[TAGC_MEMBER_NAME]) {
  const struct tagc_layer *layer = &layers->layers[layers->count / 2];
  if (layer->count)
    return tagc_layer_member_name(layer, 0, text, TAGC_MEMBER_NAME);
  return layer->name;
}

static void log_unnamed(uint64_t communicator, const char *variable, const char *element, enum tagc_log_level level,
                        const struct tagc_layers *layers) {
  char meant[32] = "", name[TAGC_MEMBER_NAME];
  const char *word = tagc_select_meant(element);
  if (word && strcmp(word, element) != 0)
    snprintf(meant, sizeof meant, " (is %s meant?)", word);
  tagc_log(level, "layermap",
           "communicator %llu: %s: \"%.80s\" matches nothing here%s; known are the kinds attn, mlp, embed, "
           "head, norm, bias and expert, and names such as %s",
           (unsigned long long)communicator, variable, element, meant, an_example(layers, name));
}

/* If PyTorch was asked, another line says why it told nothing. */
const char *tagc_layers_remedy(void) {
#define WITH_A_FILE "TAGC_LAYERMAP=FILE after \"tagc-map from-config -o FILE config.json\""
  return tagc_library_asks_torch() == TAGC_ASK_ALL
           ? "set " WITH_A_FILE
           : "set TAGC_LAYERMAP=torch, which asks a program of PyTorch, or " WITH_A_FILE;
#undef WITH_A_FILE
}

void tagc_layers_log_unnamed(uint64_t communicator, const char *variable, const char *list, enum tagc_log_level missing,
                             const struct tagc_slot_info *slots, const struct tagc_layers *layers) {
  char element[TAGC_SELECT_ELEMENT];
  size_t unknown = 0;
  bool asks_kinds = false;
  for (size_t i = 0; i < layers->count; i++)
    unknown += layers->layers[i].count == 0;
  for (const char *rest = list; rest && layers->count;) {
    if (!*tagc_select_next(&rest, element))
      continue;
    const bool is_kind = tagc_select_asks_kinds(element);
    asks_kinds |= is_kind;
    if (!(is_kind && unknown) && !is_named(element, slots, layers))
      log_unnamed(communicator, variable, element, is_kind ? missing : TAGC_LOG_WARN, layers);
  }
  if (asks_kinds && unknown)
    tagc_log(TAGC_LOG_WARN, "layermap",
             "communicator %llu: %s=%.80s: the layers of %zu of %zu slots are not known: kinds "
             "match nothing there; %s",
             (unsigned long long)communicator, variable, list, unknown, layers->count, tagc_layers_remedy());
}
