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

/* Models of bytes and characters have any widths. */
enum { TOYS = 256 };

/* Per cent. Other heads with another MLP make as large a block: less does not suffice. */
enum { SURE_OF_UNPUBLISHED = 79 };

/* The origin of sizes: of nobody, of another family's published models, of the family's own. */
enum origin { NOBODY, OTHERS, OWN };

/* Llama's arithmetic is that of most families. Whoever uses it takes the widths and words of others. */
static bool is_common(const struct tagc_architecture *a) {
  return a->family == TAGC_FAMILY_LLAMA || a->family == TAGC_FAMILY_MISTRAL;
}

static enum origin origin_of_words(const struct tagc_architecture *a) {
  const unsigned cost = tagc_cost_vocabulary(a->family, a->vocabulary);
  return cost == TAGC_COST_OWN_WORDS ? OWN : cost == TAGC_COST_KNOWN_WORDS ? OTHERS : NOBODY;
}

static bool has_widths(const struct tagc_architecture *a, const struct tagc_published *published) {
  struct tagc_architecture known = *a;
  tagc_published_set(&known, published);
  return known.hidden == a->hidden && known.intermediate == a->intermediate && known.experts == a->experts &&
         known.expert_intermediate == a->expert_intermediate &&
         known.heads * known.head_dim == a->heads * a->head_dim &&
         known.kv_heads * known.head_dim == a->kv_heads * a->head_dim;
}

static enum origin origin_of_widths(const struct tagc_architecture *a) {
  enum origin origin = NOBODY;
  for (size_t i = 0; i < tagc_published_count && origin != OWN; i++)
    if (has_widths(a, &tagc_published[i]))
      origin = tagc_published[i].family == a->family || is_common(a) ? OWN : OTHERS;
  return origin;
}

/* True if the other tying explains the same slots with words that are known as well. */
static bool has_twin(const struct tagc_architecture *a) {
  struct tagc_architecture twin = *a;
  if (a->tied && a->vocabulary % 2)
    return false;
  twin.vocabulary = a->tied ? a->vocabulary / 2 : 2 * a->vocabulary;
  return origin_of_words(&twin) != NOBODY;
}

/* True if a published model of these widths has fewer words, and the rest is a round width: rather that model with more
 * layers at its head (a classifier, a projector) than one that nobody has published. */
static bool may_have_larger_head(const struct tagc_architecture *a) {
  enum { ROUND = 64, LARGEST_PART = 8 };
  bool found = false;
  for (size_t i = 0; i < tagc_published_count; i++) {
    if (!has_widths(a, &tagc_published[i]) || !(tagc_published[i].family == a->family || is_common(a)))
      continue;
    for (const uint32_t *words = tagc_published[i].words; words < tagc_published[i].words + 3 && *words; words++) {
      if (*words == a->vocabulary)
        return false;
      found |= *words < a->vocabulary && a->vocabulary - *words < *words / LARGEST_PART &&
               (a->vocabulary - *words) % ROUND == 0;
    }
  }
  return found;
}

/* True if other families have blocks of as many parameters in another order: only their words tell them apart. Not even
 * words do for BERT, whose sizes are the defaults of many encoders; the order of ViT's depends on the release of
 * transformers. */
static bool has_other_order(const struct tagc_architecture *a, enum origin words, enum origin widths) {
  switch (a->family) {
  case TAGC_FAMILY_BERT:
  case TAGC_FAMILY_VIT: return true;
  case TAGC_FAMILY_GPT2:
  case TAGC_FAMILY_NEOX:
  case TAGC_FAMILY_OPT:
  case TAGC_FAMILY_BLOOM:
  case TAGC_FAMILY_GPTJ:
  case TAGC_FAMILY_GPT_NEO:
  case TAGC_FAMILY_MPT:
  case TAGC_FAMILY_FALCON:
  case TAGC_FAMILY_STARCODER2: return words != OWN;
  case TAGC_FAMILY_GEMMA2:
  case TAGC_FAMILY_OLMO2: return words != OWN && widths != OWN;
  default: return false;
  }
}

/* The origin of all that lies outside the blocks. Words of the family's own count as others' with a tying or positions
 * that are not, or if calls lack a part. (Toys have few words, and any positions; GPT-2 is
 * often trained with fewer.) */
static enum origin origin_of_outside(const struct tagc_candidate *candidate) {
  enum { GPT2_POSITIONS = 1024, UNUSUAL = 3 * TAGC_BIT };
  const struct tagc_architecture *a = &candidate->architecture;
  const struct tagc_prior *prior = candidate->prior;
  const enum origin words = candidate->blocks_only ? NOBODY : origin_of_words(a);
  const bool has_own_tying = (a->tied ? prior->cost_tied : prior->cost_untied) < UNUSUAL;
  const bool has_own_positions = !a->positions || a->vocabulary <= TOYS ||
                                 !tagc_cost_positions(a->family, a->positions) ||
                                 (a->family == TAGC_FAMILY_GPT2 && a->positions <= GPT2_POSITIONS);
  return words == OWN && !(has_own_tying && has_own_positions && !candidate->is_missing) ? OTHERS : words;
}

/* So many ranks hide words: where each parameter is padded, a shard tells the number of rows only to a rank. */
enum { RANKS_THAT_TELL = 32 };

/* True if the sizes are not known well enough: two coincidences, of blocks and of words, must say the same. */
static bool has_weak_sizes(const struct tagc_search *search, const struct tagc_candidate *candidate) {
  const struct tagc_architecture *a = &candidate->architecture;
  const enum origin words = origin_of_outside(candidate), widths = origin_of_widths(a);
  const bool hides_words = search->nranks > RANKS_THAT_TELL && tagc_layout_is_uniform(candidate->layout);
  if (candidate->frame.group > 1 && widths == NOBODY)
    return true;
  if (candidate->blocks_only)
    return widths != OWN || has_other_order(a, words, widths);
  if (words == NOBODY || has_other_order(a, hides_words ? OTHERS : words, widths) || may_have_larger_head(a))
    return true;
  if (!is_common(a))
    return words != OWN || (widths == NOBODY && a->vocabulary > TOYS);
  if (words == OWN)
    return widths == NOBODY && hides_words;
  return widths == NOBODY || has_twin(a);
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
  if (has_weak_sizes(search, candidate) ||
      tagc_cost_layout(candidate->layout, search->reduction, search->is_gathered) >= TAGC_COST_OTHER_REDUCTION)
    return true;
  if (a->blocks > MOST_BLOCKS || (!frame->length && a->blocks < FEWEST_BLOCKS))
    return true;
  if (match->odd && origin_of_widths(a) != OWN)
    return true;
  if (match->odd && (frame->group > 1 || frame->period > 1 || a->kv_rank) && has_odd_neighbour(search, frame))
    return true;
  if (!may_be_buckets(search) || !search->is_gathered || candidate->layout == TAGC_LAYOUT_MEGATRON)
    return false;
  return !candidate->blocks_only && fits_as_buckets(search, candidate);
}

bool tagc_search_is_close(const struct tagc_candidate *candidate, const struct tagc_candidate *rival,
                          unsigned confidence) {
  (void)rival;
  return confidence < SURE_OF_UNPUBLISHED && origin_of_widths(&candidate->architecture) == NOBODY;
}
