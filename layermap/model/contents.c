/* SPDX-License-Identifier: BSD-3-Clause */
#include "layermap/model/contents.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static enum tagc_content content_of(uint32_t kinds) {
  return kinds & TAGC_KIND_NORM                       ? TAGC_CONTENT_NORM
         : kinds & (TAGC_KIND_MLP | TAGC_KIND_EXPERT) ? TAGC_CONTENT_MLP
         : kinds & TAGC_KIND_ATTN                     ? TAGC_CONTENT_ATTN
         : kinds & TAGC_KIND_EMBED                    ? TAGC_CONTENT_EMBED
         : kinds & TAGC_KIND_HEAD                     ? TAGC_CONTENT_HEAD
                                                      : TAGC_CONTENT_OTHER;
}

void tagc_layer_contents(const struct tagc_layer *layer, uint64_t elements[TAGC_CONTENTS]) {
  memset(elements, 0, TAGC_CONTENTS * sizeof *elements);
  for (size_t i = 0; i < layer->count; i++) {
    const struct tagc_parameter *p = layer->members[i].parameter;
    elements[content_of(p->kinds)] += p->rows * p->columns;
  }
}

enum tagc_layer_kind tagc_layer_kind(const uint64_t elements[TAGC_CONTENTS]) {
  const uint64_t attn = elements[TAGC_CONTENT_ATTN], mlp = elements[TAGC_CONTENT_MLP];
  const uint64_t of[TAGC_LAYER_KINDS] = {
    [TAGC_LAYER_EMBED] = elements[TAGC_CONTENT_EMBED],
    [TAGC_LAYER_BLOCKS] = attn && mlp ? attn + mlp : 0,
    [TAGC_LAYER_ATTN] = mlp ? 0 : attn,
    [TAGC_LAYER_MLP] = attn ? 0 : mlp,
    [TAGC_LAYER_NORM] = elements[TAGC_CONTENT_NORM],
    [TAGC_LAYER_HEAD] = elements[TAGC_CONTENT_HEAD],
    [TAGC_LAYER_OTHER] = elements[TAGC_CONTENT_OTHER],
  };
  enum tagc_layer_kind most = TAGC_LAYER_OTHER;
  for (int kind = 0; kind < TAGC_LAYER_KINDS; kind++)
    if (of[kind] > of[most])
      most = (enum tagc_layer_kind)kind;
  return most;
}

const char *tagc_layer_kind_words(enum tagc_layer_kind kind) {
  static const char *const words[] = {"embed", "blocks", "attention", "mlp", "norm", "head", "other"};
  return words[kind];
}

static bool in_number(char c) { return (c >= '0' && c <= '9') || c == '-'; }

/* The length of the number at `text`: digits, or a range. */
static size_t number_at(const char *text) {
  size_t n = 0;
  while (in_number(text[n]))
    n++;
  return n;
}

bool tagc_layer_span(const char *first, const char *last, char *text, size_t size) {
  size_t at = 0;
  while (first[at] && first[at] == last[at])
    at++;
  while (at > 0 && in_number(first[at - 1]))
    at--;
  const size_t one = number_at(first + at), other = number_at(last + at);
  const bool alike = one && other && strcmp(first + at + one, last + at + other) == 0;
  if (alike)
    snprintf(text, size, "%.*s to %s", (int)(at + one), first, last + at);
  else
    snprintf(text, size, "%s to %s", first, last);
  return alike;
}

const char *tagc_layer_member_name(const struct tagc_layer *layer, size_t member, char *text, size_t size) {
  const struct tagc_member *m = &layer->members[member];
  if (m->block < 0)
    snprintf(text, size, "%s", m->parameter->name);
  else
    snprintf(text, size, "%s.%" PRId32 ".%s", m->unit, m->block + layer->block_offset, m->parameter->name);
  return text;
}
