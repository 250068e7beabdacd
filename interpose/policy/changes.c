/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/policy/changes.h"

#include "kernels/codec/bits.h"
#include "kernels/codec/nonzero_index.h"

/* Fewer pairs of values tell nothing, nor do fewer values on all ranks. */
enum { LEAST_PAIRS = 16, LEAST_VALUES = 64 };

struct tagc_change_rows tagc_change_rows(size_t bytes, size_t element) {
  if (bytes <= TAGC_CHANGE_BYTES)
    return (struct tagc_change_rows){bytes, bytes, 1};
  return (struct tagc_change_rows){bytes / TAGC_CHANGE_ROWS / element * element, TAGC_CHANGE_WIDTH, TAGC_CHANGE_ROWS};
}

static float magnitude(float x) { return x < 0 ? -x : x; }

/* Values differ by little if by an eighth of the larger one, and wholly if by more than a half. Momentum that decays by
 * 0.95 differs by a third of its deviation in each step: in 35% of its values wholly, in 24% by little. Of independent
 * numbers of a normal distribution it is 80% and 4%; of positive ones 59% and 9%. Of weights with the deviation s,
 * which Adam moves by 0.05 s, it is 8% and 69%, and by 0.15 s, which is too fast for any training, 24% and 23%. */
enum tagc_change tagc_change_between(const void *before, const void *after, size_t n, enum tagc_dtype dtype) {
  size_t pairs = 0, little = 0, wholly = 0, same = 0;
  for (size_t i = 0; i < n; i++) {
    const float x = tagc_load(before, i, dtype), y = tagc_load(after, i, dtype);
    const float larger = magnitude(x) > magnitude(y) ? magnitude(x) : magnitude(y), change = magnitude(x - y);
    if (!tagc_is_value(larger) || !(change < __builtin_inff()))
      continue;
    pairs++;
    same += change == 0;
    little += change <= larger / 8;
    wholly += change > larger / 2;
  }
  if (pairs < LEAST_PAIRS)
    return TAGC_CHANGE_UNKNOWN;
  if (same == pairs)
    return TAGC_CHANGE_NONE;
  if (2 * little >= pairs)
    return TAGC_CHANGE_LITTLE;
  return 4 * wholly >= pairs ? TAGC_CHANGE_WHOLLY : TAGC_CHANGE_MUCH;
}

void tagc_change_add_allgather(struct tagc_change_tally *tally, const struct tagc_change_range *changes) {
  if (changes->least == TAGC_CHANGE_UNKNOWN)
    return;
  tally->gathered++;
  tally->little += changes->largest >= TAGC_CHANGE_LITTLE;
  tally->moved += changes->largest == TAGC_CHANGE_LITTLE;
  tally->wholly += tagc_change_is_whole(changes);
}

void tagc_change_add_reduce_scatter(struct tagc_change_tally *tally, const struct tagc_change_range *changes) {
  if (changes->least == TAGC_CHANGE_UNKNOWN)
    return;
  tally->reduced++;
  tally->reduced_wholly += tagc_change_is_whole(changes);
}

/* A place further in each row, so that not all are of one column of a matrix. */
void tagc_change_pick(const void *sample, size_t n, enum tagc_dtype dtype, float values[TAGC_CHANGE_VALUES]) {
  const size_t pitch = n / TAGC_CHANGE_VALUES;
  for (size_t i = 0; i < TAGC_CHANGE_VALUES; i++)
    values[i] = pitch ? tagc_load(sample, i * pitch + i % pitch, dtype) : __builtin_nanf("");
}

void tagc_likeness_add(struct tagc_likeness *likeness, float least, float largest) {
  const float larger = magnitude(least) > magnitude(largest) ? magnitude(least) : magnitude(largest);
  if (!tagc_is_value(larger) || !(largest - least < __builtin_inff()))
    return;
  likeness->values++;
  likeness->near += largest - least <= larger / 8;
  likeness->equal += largest == least;
}

bool tagc_likeness_is_known(const struct tagc_likeness *likeness) {
  return likeness->values >= LEAST_VALUES && likeness->equal < likeness->values;
}

/* Of weights with the deviation s, which two ranks moved apart by 0.03 s, 79% are near; by 0.05 s 69%. If eight ranks
 * moved each by 0.01 s, 82% are; by 0.02 s 67%. Of independent numbers 4 to 9% are near; of gradients on two ranks 57%
 * for a small classifier and 16384 samples a rank, and 20 to 40% for fewer. */
bool tagc_likeness_is_of_parameters(const struct tagc_likeness *likeness) {
  return tagc_likeness_is_known(likeness) && 4 * likeness->near >= 3 * likeness->values;
}

/* All of its all-gathers differ by little at most, and all of its reduce-scatters wholly. */
static bool may_be_parameters(const struct tagc_change_tally *tally) {
  return tally->gathered && tally->little == tally->gathered && tally->reduced &&
         tally->reduced_wholly == tally->reduced;
}

enum tagc_proof tagc_change_judge(const struct tagc_change_tally *tally) {
  if (tally->gathered && tally->wholly == tally->gathered)
    return TAGC_PROOF_OTHER;
  return may_be_parameters(tally) && tally->moved ? TAGC_PROOF_PARAMETERS : TAGC_PROOF_NONE;
}

bool tagc_change_is_missing(const struct tagc_change_tally *tally) { return may_be_parameters(tally) && !tally->moved; }
