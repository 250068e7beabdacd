/* SPDX-License-Identifier: BSD-3-Clause
 * Doubts about guesses, even if all others tried are far less likely: the search knows only published models, round
 * sizes and a few ways to cut them. See search.h.
 */
#include "layermap/infer/search.h"

/* Megatron's buckets have at least BUCKET_ELEMENTS, and BUCKET_SHARD per rank (its defaults). */
#define BUCKET_ELEMENTS UINT64_C(40000000)
#define BUCKET_SHARD UINT64_C(1000000)

/* No model has more blocks. One that lies whole in a slot, which any number of blocks might fill, has no fewer. */
enum { MOST_BLOCKS = 128, FEWEST_BLOCKS = 6 };

/* Per cent. Queries wider than the stream, with a narrower MLP, are common: less does not suffice. */
enum { SURE_OF_UNPUBLISHED = 79 };

static bool has_published_words(const struct tagc_architecture *a) {
  const uint32_t *known = tagc_vocabularies;
  while (*known && *known != a->vocabulary)
    known++;
  return *known || !a->vocabulary;
}

static bool has_published_widths(const struct tagc_architecture *a) {
  for (size_t i = 0; i < tagc_published_count; i++) {
    struct tagc_architecture known = *a;
    tagc_published_set(&known, &tagc_published[i]);
    bool is_square = a->family == TAGC_FAMILY_GPT2 || a->family == TAGC_FAMILY_NEOX || a->family == TAGC_FAMILY_BERT ||
                     a->family == TAGC_FAMILY_VIT;
    if (tagc_published[i].family == a->family && known.hidden == a->hidden && known.intermediate == a->intermediate &&
        known.experts == a->experts && known.expert_intermediate == a->expert_intermediate &&
        (is_square || (known.heads == a->heads && known.kv_heads == a->kv_heads && known.head_dim == a->head_dim)))
      return true;
  }
  return false;
}

/* True if each slot has the size and padding of Megatron's buckets. The one filled last may be smaller. */
static bool may_be_buckets(const struct tagc_search *search) {
  const uint64_t unit = tagc_layout_shard_of_parts(TAGC_LAYOUT_MEGATRON, 1, (int)search->nranks);
  for (size_t i = 0; i < search->count; i++)
    if (search->counts[i] % unit ||
        (i && (search->counts[i] < BUCKET_SHARD || search->counts[i] < BUCKET_ELEMENTS / search->nranks)))
      return false;
  return true;
}

/* True if nothing explains a slot next to the blocks: it could hold blocks, too. */
static bool has_odd_neighbour(const struct tagc_search *search, const struct tagc_frame *frame) {
  const size_t first = frame->start - frame->dense * frame->period, end = frame->start + frame->length;
  return (first && !search->pieces[first - 1].keep) || (end < search->count && !search->pieces[end].keep);
}

/* True if the same parameters also fit as Megatron's buckets. */
static bool fits_as_buckets(struct tagc_search *search, const struct tagc_candidate *candidate) {
  struct tagc_candidate other = *candidate;
  other.layout = TAGC_LAYOUT_MEGATRON;
  other.frame.length = 0;
  other.megatron = true;
  if (tagc_search_holds(search, &other))
    return true;
  other.megatron = false;
  return tagc_search_holds(search, &other);
}

bool tagc_search_doubts(struct tagc_search *search, const struct tagc_candidate *candidate,
                        const struct tagc_match *match) {
  const struct tagc_architecture *a = &candidate->architecture;
  const struct tagc_frame *frame = &candidate->frame;
  const bool words = candidate->blocks_only || has_published_words(a);
  if (!words && a->vocabulary % 64)
    return true;
  if (a->blocks > MOST_BLOCKS || (candidate->blocks_only && frame->group > 1) ||
      (!frame->length && a->blocks < FEWEST_BLOCKS))
    return true;
  if (match->odd && !(words && has_published_widths(a)))
    return true;
  if (match->odd && (frame->group > 1 || frame->period > 1 || a->kv_rank) && has_odd_neighbour(search, frame))
    return true;
  if (!words && frame->length && !search->is_gathered)
    return true;
  if (!may_be_buckets(search) || !search->is_gathered || candidate->layout == TAGC_LAYOUT_MEGATRON)
    return false;
  return (!words && frame->length) || (!candidate->blocks_only && fits_as_buckets(search, candidate));
}

bool tagc_search_is_close(const struct tagc_candidate *candidate, const struct tagc_candidate *rival,
                          unsigned confidence) {
  const struct tagc_architecture *a = &candidate->architecture, *b = &rival->architecture;
  return confidence < SURE_OF_UNPUBLISHED && !has_published_widths(a) && a->hidden == b->hidden &&
         (uint64_t)a->heads * a->head_dim != (uint64_t)b->heads * b->head_dim;
}
