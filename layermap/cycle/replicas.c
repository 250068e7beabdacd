/* SPDX-License-Identifier: BSD-3-Clause */
#include "layermap/cycle/replicas.h"

/* The all-reduces of a pattern from some size down to another. */
struct share {
  uint64_t calls, elements, counts; /* counts: different ones */
  uint64_t least, most, divisor;    /* of the counts; without any, all are below `least` */
  uint64_t times;                   /* each comes so many times, or a multiple of that */
};

static uint64_t common_divisor(uint64_t a, uint64_t b) {
  while (b) {
    const uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Includes the small ones, unlike tagc_signature_sums(). */
static bool is_reduced(const struct tagc_seen *seen, uint8_t op) {
  return seen->times && seen->signature.collective == TAGC_COLL_ALL_REDUCE && seen->signature.is_float &&
         seen->signature.op == op;
}

/* Adds the all-reduces of the largest count below share->least; false: there are none. */
static bool take_next(struct share *share, const struct tagc_evidence *evidence, uint8_t op) {
  uint64_t next = 0;
  for (uint32_t i = 0; i < evidence->signatures; i++) {
    const uint64_t count = evidence->seen[i].signature.count;
    if (is_reduced(&evidence->seen[i], op) && count > next && count < share->least)
      next = count;
  }
  for (uint32_t i = 0; i < evidence->signatures && next; i++)
    if (is_reduced(&evidence->seen[i], op) && evidence->seen[i].signature.count == next) {
      share->calls += evidence->seen[i].times;
      share->elements += evidence->seen[i].times * next;
      share->times = common_divisor(share->times, evidence->seen[i].times);
    }
  share->most = share->counts++ ? share->most : next;
  share->divisor = common_divisor(share->divisor, next);
  share->least = next;
  return next > 0;
}

static bool are_tokens(uint64_t divisor, uint64_t most) { return divisor > most / (divisor ? divisor : 1); }

/* Broadcasts are of floating-point numbers, or of bytes, 2 or 4 for each. */
enum { READINGS = 3 };

/* The broadcasts that the pattern lacks, and those that it has. */
struct parameters {
  uint64_t elements, counts, divisor;
  uint64_t padded; /* elements, each broadcast padded to a multiple of the ranks */
  uint64_t copies; /* each was broadcast so many times, or a multiple of that */
  uint64_t buffers;
};

static uint32_t times_in_pattern(const struct tagc_evidence *evidence, const struct tagc_signature *s) {
  for (uint32_t i = 0; i < evidence->signatures; i++)
    if (tagc_signature_equal(&evidence->seen[i].signature, s))
      return evidence->seen[i].times;
  return 0;
}

/* Of floating-point numbers, or (bytes > 0) of bytes, so many an element. */
static struct parameters add_broadcasts(const struct tagc_evidence *evidence, int nranks, uint64_t bytes) {
  const uint64_t ranks = nranks > 0 ? (uint64_t)nranks : 1;
  const struct tagc_beginning *b = &evidence->beginning;
  struct parameters sum = {0};
  for (uint32_t i = 0; i < b->broadcast_count; i++) {
    const struct tagc_signature *s = &b->broadcasts[i].signature;
    const uint64_t count = bytes ? s->count / bytes : s->count;
    const uint32_t again = times_in_pattern(evidence, s);
    if (s->is_float != !bytes)
      continue;
    sum.buffers += again * count;
    sum.elements += again ? 0 : b->broadcasts[i].times * count;
    sum.padded += again ? 0 : b->broadcasts[i].times * ((count + ranks - 1) / ranks * ranks);
    sum.counts += !again;
    sum.divisor = again ? sum.divisor : common_divisor(sum.divisor, count);
    sum.copies = again ? sum.copies : common_divisor(sum.copies, b->broadcasts[i].times);
  }
  return sum;
}

/* Parameters, and perhaps what an optimizer keeps of each: Horovod broadcasts its one or two moments, too. */
static bool come_to(const struct parameters *p, uint64_t elements) {
  for (uint64_t copies = 1; copies <= 3; copies++)
    if (p->elements == copies * elements && p->copies % copies == 0)
      return true;
  return false;
}

/* Do the all-reduces have the elements of so many passes? Several passes need several buckets, or one each. */
static bool come_to_passes(const struct parameters *of, const struct share *share, uint64_t passes) {
  if (share->times % passes || (passes > 1 && share->counts == 1 && share->calls != passes))
    return false;
  if (passes == 1 && (come_to(of, share->elements) || of->padded == share->elements))
    return true;
  return passes * of->elements == share->elements + of->buffers;
}

/* The number of passes; 0: they are others. `of`: as elements of floating-point numbers, and of bytes for each size of
 * an element. */
static uint64_t count_broadcast(const struct tagc_evidence *evidence, const struct parameters of[READINGS],
                                const struct share *share) {
  const bool constructed = evidence->beginning.constructed;
  for (uint64_t passes = 1; passes <= (constructed ? share->times : 1); passes++)
    for (size_t i = 0; i < READINGS; i++) {
      const uint64_t divisor = common_divisor(share->divisor, of[i].divisor);
      if (!of[i].counts || !come_to_passes(&of[i], share, passes))
        continue;
      if (constructed || (share->counts + of[i].counts > 2 && !are_tokens(divisor, share->most)))
        return passes;
    }
  return 0;
}

/* Likewise. */
static uint64_t count_rebuilt(const struct tagc_evidence *evidence, const struct share *share) {
  const struct tagc_beginning *b = &evidence->beginning;
  const uint64_t buckets = b->rebuilding.count;
  if (!buckets || share->calls % buckets || times_in_pattern(evidence, &b->rebuilding))
    return 0;
  const uint64_t passes = share->calls / buckets, pass = share->elements / passes;
  const bool rebuilt = pass && share->elements % passes == 0 && b->rebuilt_reduced && b->rebuilt_reduced % pass == 0 &&
                       (b->constructed || (buckets > 1 && !times_in_pattern(evidence, &b->rebuilt_bucket)));
  return rebuilt ? passes : 0;
}

/* Are the smaller ones many enough to be the gradients themselves, and these averaged parameters? Losses, statistics
 * and codebooks are not. */
static bool others_may_be_gradients(const struct tagc_evidence *evidence, uint8_t op, const struct share *share,
                                    uint64_t passes) {
  struct share rest = {.least = share->least};
  while (take_next(&rest, evidence, op))
    ;
  return rest.elements >= share->elements / passes / 2;
}

/* Those below a count. */
static struct tagc_replicas prove_below(const struct tagc_evidence *evidence, uint8_t op,
                                        const struct parameters of[READINGS], uint64_t below) {
  struct share share = {.least = below};
  while (take_next(&share, evidence, op)) {
    const uint64_t broadcast = count_broadcast(evidence, of, &share), rebuilt = count_rebuilt(evidence, &share);
    const uint64_t passes = broadcast ? broadcast : rebuilt;
    if (passes)
      return others_may_be_gradients(evidence, op, &share, passes)
               ? (struct tagc_replicas){0}
               : (struct tagc_replicas){share.least, share.most, passes,
                                        passes == 1 && rebuilt == 1 && share.calls > 1};
  }
  return (struct tagc_replicas){.most = share.most};
}

/* Counts that are larger than those of gradients. */
enum { LARGER = 3 };

struct tagc_replicas tagc_replicas_prove(const struct tagc_evidence *evidence, int nranks, uint8_t op) {
  struct parameters of[READINGS] = {{0}};
  for (size_t i = 0; i < READINGS && !evidence->beginning.overflow; i++)
    of[i] = add_broadcasts(evidence, nranks, 2 * i);
  struct tagc_replicas proof = prove_below(evidence, op, of, UINT64_MAX);
  for (int i = 0; i < LARGER && !proof.passes && proof.most && evidence->beginning.constructed; i++)
    proof = prove_below(evidence, op, of, proof.most);
  return proof;
}

bool tagc_replicas_are_all(const struct tagc_evidence *evidence) {
  uint64_t begun = 0, others = 0; /* numbers of the newest calls that the pattern lacks */
  for (uint32_t i = 0; i < evidence->signatures; i++) {
    const struct tagc_seen *seen = &evidence->seen[i];
    uint64_t *newest = seen->signature.collective == TAGC_COLL_BROADCAST ? &begun : &others;
    if (!seen->times && seen->last > *newest)
      *newest = seen->last;
  }
  return others < begun;
}
