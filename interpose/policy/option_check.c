/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/policy/option_check.h"

#include <stdio.h>

#include "kernels/codec/codecs.h"
#include "layermap/model/mapfile.h"
#include "layermap/model/select.h"

static bool check_codec(const char *name, char *why) {
  char names[120];
  if (strcmp(name, "auto") == 0 || tagc_codec_find(name))
    return true;
  snprintf(why, TAGC_OPTION_WHY, "TAGC_CODEC=%.80s: not understood; accepted is one of auto|%s", name,
           tagc_codec_names(names, sizeof names));
  return false;
}

static bool check_list(const char *variable, const char *list, char *why) {
  const char *expected;
  size_t at;
  if (tagc_select_valid(list, &expected, &at))
    return true;
  snprintf(why, TAGC_OPTION_WHY, "%s=%.80s: %s, at character %zu; " TAGC_SELECT_ACCEPTED, variable, list, expected,
           at + 1);
  return false;
}

/* With a codec by name no choice remains: a user who sets both has made a mistake in one. */
static bool check_budget(const struct tagc_options *options, char *why) {
  char text[32];
  if (options->budget.kind == TAGC_BUDGET_NONE || tagc_options_auto(options))
    return true;
  snprintf(why, TAGC_OPTION_WHY,
           "TAGC_BUDGET=%s: codecs are chosen by it with TAGC_CODEC=auto alone, and TAGC_CODEC is %.80s",
           tagc_budget_text(&options->budget, text), options->codec);
  return false;
}

/* Without a residual such a codec carries no call at all. */
static bool check_residual(const struct tagc_options *options, char *why) {
  const struct tagc_codec *codec = tagc_codec_find(options->codec);
  if (options->residual != TAGC_RESIDUAL_NONE || !codec || !codec->needs_residual)
    return true;
  snprintf(why, TAGC_OPTION_WHY,
           "TAGC_RESIDUAL=none: TAGC_CODEC=%s needs a residual; accepted with it is one of auto|fp32|bf16|int8",
           options->codec);
  return false;
}

/* Only codecs with a residual leave a part of a gradient for later, and auto takes that part from the gradient. */
static bool check_schedule(const struct tagc_options *options, char *why) {
  char text[TAGC_SCHEDULE_TEXT];
  const struct tagc_codec *codec = tagc_codec_find(options->codec);
  const bool is_known = codec || tagc_options_auto(options);
  if (options->sparsity.count == 1 || !is_known || (codec && codec->needs_residual))
    return true;
  snprintf(why, TAGC_OPTION_WHY,
           "TAGC_SPARSITY=%s: a schedule goes with TAGC_CODEC=sparse and lhc alone, and TAGC_CODEC is %s",
           tagc_schedule_text(&options->sparsity, text), options->codec);
  return false;
}

bool tagc_option_check(const struct tagc_options *options, enum tagc_option_index i, char why[TAGC_OPTION_WHY]) {
  switch (i) {
  case TAGC_OPTION_codec: return check_codec(options->codec, why);
  case TAGC_OPTION_residual: return check_residual(options, why);
  case TAGC_OPTION_sparsity: return check_schedule(options, why);
  case TAGC_OPTION_budget: return check_budget(options, why);
  case TAGC_OPTION_layers: return check_list("TAGC_LAYERS", options->layers, why);
  case TAGC_OPTION_skip: return check_list("TAGC_SKIP", options->skip, why);
  default: return true;
  }
}

/* What an option needs for an effect, and lacks; NULL: nothing. */
static const char *missing_company(const struct tagc_options *options, enum tagc_option_index i) {
  const struct tagc_codec *codec = tagc_codec_find(options->codec);
  switch (i) {
  case TAGC_OPTION_ab: return options->mode == TAGC_MODE_AB ? NULL : "TAGC_MODE=ab";
  case TAGC_OPTION_sparsity: return codec && codec->needs_residual ? NULL : "TAGC_CODEC=sparse or lhc";
  case TAGC_OPTION_sums:
    return codec == &tagc_codec_none || codec == &tagc_codec_precise ? "a TAGC_CODEC that loses something" : NULL;
  case TAGC_OPTION_broadcast_max:
  case TAGC_OPTION_broadcast_pinned: return options->broadcast == TAGC_BROADCAST_OFF ? "TAGC_BROADCAST=exact" : NULL;
  case TAGC_OPTION_profiler: return options->profiler != TAGC_PROFILER_ON || *options->trace ? NULL : "TAGC_TRACE";
  case TAGC_OPTION_trace_buffer:
  case TAGC_OPTION_trace_max: return *options->trace ? NULL : "TAGC_TRACE";
  case TAGC_OPTION_metrics_cycles: return *options->metrics ? NULL : "TAGC_METRICS";
  case TAGC_OPTION_dump_cycle: return *options->dump ? NULL : "TAGC_DUMP";
  default: return NULL;
  }
}

bool tagc_option_is_idle(const struct tagc_options *options, enum tagc_option_index i, char why[TAGC_OPTION_WHY]) {
  const bool asked = options->mode != TAGC_MODE_OFF && tagc_option_given(options, i);
  const char *const missing = asked ? missing_company(options, i) : NULL;
  if (missing)
    snprintf(why, TAGC_OPTION_WHY, "%s has no effect without %s", tagc_option_table[i].variable, missing);
  return missing;
}

struct tagc_model *tagc_option_map(const char *path, uint64_t *digest, char why[TAGC_OPTION_WHY]) {
  struct tagc_complaint complaint;
  char where[32] = "";
  struct tagc_model *map = tagc_mapfile_read(path, digest, &complaint);
  if (map)
    return map;
  if (complaint.line)
    snprintf(where, sizeof where, ":%u:%u", complaint.line, complaint.column);
  snprintf(why, TAGC_OPTION_WHY, "TAGC_LAYERMAP=%.200s%s: %s", path, where, complaint.text);
  return NULL;
}

bool tagc_option_map_is_good(const char *path, char why[TAGC_OPTION_WHY]) {
  uint64_t digest;
  struct tagc_model *map = tagc_option_map(path, &digest, why);
  tagc_model_free(map);
  return map;
}
