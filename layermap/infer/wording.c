/* SPDX-License-Identifier: BSD-3-Clause
 * See wording.h. A solution is a list of phrases; rarely interesting ones appear only where two solutions differ.
 */
#include "layermap/infer/wording.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "env/append.h"

enum phrase {
  FAMILY,
  HIDDEN,
  WIDTH,
  HEADS,
  BLOCKS,
  VOCABULARY,
  LAYOUT,
  USUAL,
  POSITIONS = USUAL,
  OUTSIDE,
  FORM,
  WRAPPING,
  PHRASES
};
enum { PHRASE = 96 };

/* Queries, keys and values as wide as the stream tell nothing about heads. Narrower keys tell how many queries share
 * them, norms of queries and keys the width of a head. */
static void say_heads(const struct tagc_architecture *a, char text[PHRASE]) {
  const uint32_t kv_heads = a->kv_heads ? a->kv_heads : a->heads;
  const bool has_norms =
    a->family == TAGC_FAMILY_QWEN3 || a->family == TAGC_FAMILY_QWEN3_MOE || a->family == TAGC_FAMILY_GEMMA3;
  if (a->kv_rank) {
    tagc_append(text, PHRASE, "latent attention of rank %u", a->kv_rank);
    return;
  }
  if (has_norms && a->head_dim) {
    tagc_append(text, PHRASE, "%u", a->heads);
    if (kv_heads != a->heads)
      tagc_append(text, PHRASE, "/%u", kv_heads);
    tagc_append(text, PHRASE, " heads of %u", a->head_dim);
    return;
  }
  if (a->head_dim && (uint64_t)a->heads * a->head_dim != a->hidden)
    tagc_append(text, PHRASE, "queries %" PRIu64 " wide", (uint64_t)a->heads * a->head_dim);
  if (kv_heads && kv_heads != a->heads)
    tagc_append(text, PHRASE, "%s%u query heads a key head", *text ? ", " : "", a->heads / kv_heads);
}

static void say_outside(const struct tagc_architecture *a, char text[PHRASE]) {
  tagc_append(text, PHRASE, "%s", a->masked_head ? "a head of masked words" : "no head of masked words");
  tagc_append(text, PHRASE, "%s%s", a->next_head ? ", one of next sentences" : "",
              a->pooler ? ", a pooler" : ", no pooler");
  if (a->labels)
    tagc_append(text, PHRASE, ", %u labels", a->labels);
  if (a->patch)
    tagc_append(text, PHRASE, ", patches of %u", a->patch);
}

/* "" if the phrase does not apply. */
static void say_phrase(const struct tagc_solution *s, enum phrase phrase, char text[PHRASE]) {
  static const char *const wrappings[] = {[TAGC_WRAP_BLOCK] = "block by block",
                                          [TAGC_WRAP_SUB_BLOCK] = "attention and MLP apart",
                                          [TAGC_WRAP_GROUP] = "several blocks at once",
                                          [TAGC_WRAP_WHOLE] = "whole",
                                          [TAGC_WRAP_BUCKETS] = "in buckets"};
  const struct tagc_architecture *a = &s->architecture;
  text[0] = '\0';
  switch (phrase) {
  case FAMILY: tagc_append(text, PHRASE, "%s", tagc_family_name(a->family)); break;
  case HIDDEN: tagc_append(text, PHRASE, "hidden %u", a->hidden); break;
  case WIDTH:
    if (a->experts)
      tagc_append(text, PHRASE, "%u experts of %u", a->experts, a->expert_intermediate);
    else
      tagc_append(text, PHRASE, "intermediate %u", a->intermediate);
    break;
  case HEADS: say_heads(a, text); break;
  case BLOCKS: tagc_append(text, PHRASE, "%u blocks", a->blocks); break;
  case VOCABULARY:
    if (!s->blocks_only && a->vocabulary)
      tagc_append(text, PHRASE, "vocabulary %" PRIu64 "%s", a->vocabulary, a->tied ? " tied" : "");
    break;
  case LAYOUT: tagc_append(text, PHRASE, "%s", s->whole ? "not sharded" : tagc_layout_name(s->match.layout)); break;
  case POSITIONS: tagc_append(text, PHRASE, "%u positions", s->blocks_only ? 0 : a->positions); break;
  case OUTSIDE: say_outside(a, text); break;
  case FORM:
    tagc_append(text, PHRASE, "%s%s%s",
                s->megatron       ? "Megatron's parameters"
                : a->plain_linear ? "matrices out x in"
                                  : "matrices in x out",
                a->no_bias ? ", no biases" : "", a->q_rank ? ", compressed queries" : "");
    if (a->dense_blocks || a->shared_intermediate)
      tagc_append(text, PHRASE, ", %u dense blocks of %u, shared experts of %u", a->dense_blocks, a->intermediate,
                  a->shared_intermediate);
    break;
  default: tagc_append(text, PHRASE, "%s, %zu slots unexplained", wrappings[s->match.wrapping], s->match.odd);
  }
}

void tagc_solution_words(const struct tagc_solution *solution, char text[TAGC_LAYERS_WHAT]) {
  char phrase[PHRASE];
  text[0] = '\0';
  for (enum phrase i = FAMILY; i < USUAL; i++) {
    say_phrase(solution, i, phrase);
    tagc_append(text, TAGC_LAYERS_WHAT, "%s%s", *text && *phrase ? ", " : "", phrase);
  }
}

void tagc_solution_difference(const struct tagc_solution *best, const struct tagc_solution *other,
                              char text[TAGC_LAYERS_WHAT]) {
  const struct tagc_architecture *a = &best->architecture, *b = &other->architecture;
  char here[PHRASE], there[PHRASE];
  text[0] = '\0';
  if (a->family != b->family || a->hidden != b->hidden) {
    tagc_solution_words(other, text);
    return;
  }
  for (enum phrase i = WIDTH; i < PHRASES; i++) {
    say_phrase(best, i, here);
    say_phrase(other, i, there);
    if (strcmp(here, there) == 0)
      continue;
    if (!*there)
      snprintf(there, sizeof there, i == HEADS ? "a key head for each query head" : "nothing outside blocks");
    tagc_append(text, TAGC_LAYERS_WHAT, "%s%s", *text ? ", " : "the same but ", there);
  }
  if (!*text)
    tagc_append(text, TAGC_LAYERS_WHAT, "the same, divided otherwise");
}
