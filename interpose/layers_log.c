/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/layers_log.h"

#include <stdio.h>
#include <string.h>

#include "layermap/calls.h"
#include "layermap/select.h"

const char *tagc_layers_words(const struct tagc_layers *layers, char text[TAGC_LAYERS_WORDS])
{
  static const char *const sources[] = {[TAGC_LAYER_POSITION] = "by their places", [TAGC_LAYER_ARITHMETIC] = "by arithmetic",
                                        [TAGC_LAYER_MAP] = "by TAGC_LAYERMAP"};
  if (layers->source == TAGC_LAYER_POSITION) {
    snprintf(text, TAGC_LAYERS_WORDS, "no model is known that has units of these sizes: slots are named by their places");
    return text;
  }
  snprintf(text, TAGC_LAYERS_WORDS, "%s (%s, %u%%%s)%s%s", layers->what, sources[layers->source], layers->confidence,
           layers->confidence < 50 ? ": ambiguous" : "", *layers->runner_up ? "; else " : "", layers->runner_up);
  return text;
}

const char *tagc_layer_words(const struct tagc_slot_info *slot, const struct tagc_layer *layer, char text[TAGC_LAYERS_WORDS])
{
  char call[64], pass[32] = "", members[2 * TAGC_PARAMETER_NAME + 64] = "nothing is known of what is in it";
  char first[TAGC_MEMBER_NAME], last[TAGC_MEMBER_NAME];
  if (slot->pass)
    snprintf(pass, sizeof pass, ", in pass %u of the cycle", slot->pass + 1);
  if (layer->count) {
    tagc_layer_member_name(layer, 0, first, sizeof first);
    tagc_layer_member_name(layer, layer->count - 1, last, sizeof last);
    snprintf(members, sizeof members, "%zu parameters, %.48s to %.48s, %s", layer->count, first, last, tagc_layout_name(layer->layout));
  }
  snprintf(text, TAGC_LAYERS_WORDS, "%s is unit %u by the %s%s; %s; %s", layer->name, slot->unit,
           slot->told ? "gathers of the forward pass" : "reverse order of the gradients", pass,
           tagc_calls_line(&slot->signature, call, sizeof call), members);
  return text;
}

const char *tagc_selected_words(const struct tagc_layer *layer, const bool *is_selected, char text[TAGC_LAYERS_WORDS])
{
  enum { MORE = 24 };               /* room for how many more */
  const size_t prefix = strlen(layer->name);
  size_t used = 0, left = 0;
  *text = '\0';
  for (size_t i = 0; i < layer->count; i++) {
    char whole[TAGC_MEMBER_NAME];
    if (!is_selected[i])
      continue;
    tagc_layer_member_name(layer, i, whole, sizeof whole);
    const bool inside = strncmp(whole, layer->name, prefix) == 0 && whole[prefix] == '.';
    const char *name = inside ? whole + prefix + 1 : whole;
    if (left || used + strlen(name) + 1 > TAGC_LAYERS_WORDS - MORE)
      left++;
    else
      used += (size_t)snprintf(text + used, TAGC_LAYERS_WORDS - used, "%s%s", used ? " " : "", name);
  }
  if (left)
    snprintf(text + used, TAGC_LAYERS_WORDS - used, " and %zu more", left);
  return text;
}

void tagc_layers_log(uint64_t communicator, const struct tagc_slot_info *slots, const struct tagc_layers *layers)
{
  char text[TAGC_LAYERS_WORDS];
  tagc_log(TAGC_LOG_INFO, "layermap", "communicator %llu: %s", (unsigned long long)communicator, tagc_layers_words(layers, text));
  for (size_t i = 0; i < layers->count; i++)
    tagc_log(TAGC_LOG_INFO, "layermap", "communicator %llu, slot %zu: %s", (unsigned long long)communicator, i,
             tagc_layer_words(&slots[i], &layers->layers[i], text));
}

/* ---- what lists name in vain --------------------------------------------------------------------------------------------- */

static bool is_named(const char *element, const struct tagc_slot_info *slots, const struct tagc_layers *layers)
{
  for (size_t i = 0; i < layers->count; i++)
    if (tagc_select_names(element, slots[i].unit, &layers->layers[i]))
      return true;
  return false;
}

/* A name that there is: of a parameter in the middle of the model, or of a slot. */
static const char *an_example(const struct tagc_layers *layers, char text[TAGC_MEMBER_NAME])
{
  const struct tagc_layer *layer = &layers->layers[layers->count / 2];
  if (layer->count)
    return tagc_layer_member_name(layer, 0, text, TAGC_MEMBER_NAME);
  return layer->name;
}

static void log_unnamed(uint64_t communicator, const char *variable, const char *element, enum tagc_log_level level,
                        const struct tagc_layers *layers)
{
  char meant[32] = "", name[TAGC_MEMBER_NAME];
  const char *word = tagc_select_meant(element);
  if (word && strcmp(word, element) != 0)
    snprintf(meant, sizeof meant, " (is %s meant?)", word);
  tagc_log(level, "layermap", "communicator %llu: %s: \"%.80s\" names nothing here%s; known are the kinds attn, mlp, embed, head, norm, bias "
           "and expert, and names such as %s", (unsigned long long)communicator, variable, element, meant, an_example(layers, name));
}

void tagc_layers_log_unnamed(uint64_t communicator, const char *variable, const char *list, enum tagc_log_level missing,
                             const struct tagc_slot_info *slots, const struct tagc_layers *layers)
{
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
    tagc_log(TAGC_LOG_WARN, "layermap", "communicator %llu: %s=%.80s: layers are not known here, in %zu of %zu slots: kinds name nothing "
             "there; a map tells (TAGC_LAYERMAP)", (unsigned long long)communicator, variable, list, unknown, layers->count);
}
