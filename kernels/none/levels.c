/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/none/levels.h"

#include <string.h>

#include "kernels/codec/exceptions.h"
#include "kernels/codec/fpmode.h"
#include "kernels/codec/variant.h"
#include "kernels/none/exact.h"
#include "kernels/none/none.h"

bool tagc_levels_layout(const struct tagc_shape *shape, struct tagc_layout *out) {
  if (shape->dtype == TAGC_FLOAT32 || shape->n == 0 || shape->n > UINT32_MAX / 2 || shape->nranks < 2 ||
      (int64_t)shape->nranks * shape->local > TAGC_EXACT_DIVISOR)
    return false;
  *out = (struct tagc_layout){
    .message_bytes = TAGC_LEVELS_HEAD_BYTES + tagc_pad16(shape->n * sizeof(float)) +
                     2 * sizeof(float) * tagc_levels_capacity(shape->n),
    .capacity = shape->n,
  };
  return true;
}

const uint8_t *tagc_levels_message_of(const struct tagc_job *job, int host) {
  return (host == job->rank ? job->message_out : job->message_in) + (size_t)host * job->layout.message_bytes;
}

static bool is_full(const struct tagc_job *job, const uint8_t *message) {
  return *tagc_levels_parts(job->shape.n, message).count == TAGC_LEVELS_FULL;
}

bool tagc_levels_has_sums(const struct tagc_job *job, int host) {
  return !is_full(job, tagc_levels_message_of(job, host));
}

/* `local` ranks follow one another, each with all shards. */
static size_t values_at(const struct tagc_job *job, int shard, int local) {
  return tagc_job_shard_at(job, local * job->shape.nranks + shard);
}

const void *tagc_levels_own_values(const struct tagc_job *job, int shard, int local) {
  return (const char *)job->send + values_at(job, shard, local);
}

const void *tagc_levels_values(const struct tagc_job *job, int host, int local) {
  return host == job->rank ? tagc_levels_own_values(job, host, local)
                           : (const char *)job->values + values_at(job, host, local);
}

/* ---- encode ------------------------------------------------------------------------------------------------------ */

/* Appends an entry unless the list is full; then marks the message. */
static void add_term(const struct tagc_levels_message *to, uint64_t i, float term) {
  if (*to->count >= to->capacity) {
    *to->count = TAGC_LEVELS_FULL;
    return;
  }
  to->places[*to->count] = (uint32_t)i;
  to->terms[*to->count] = term;
  ++*to->count;
}

void tagc_levels_add(const struct tagc_job *job, int shard, uint64_t i, const struct tagc_levels_message *to) {
  struct tagc_levels_sum sum = {0, true};
  float term;
  for (int l = 0; l < job->shape.local; l++)
    tagc_levels_next(&sum, tagc_load(tagc_levels_own_values(job, shard, l), i, job->shape.dtype));
  const uint32_t terms = tagc_levels_split(&sum, (uint32_t)job->shape.local, &to->sums[i], &term);
  for (uint32_t l = 0; l < terms; l++)
    add_term(to, i, terms == 1 ? term : tagc_load(tagc_levels_own_values(job, shard, (int)l), i, job->shape.dtype));
}

static bool has_exceptional_values(const struct tagc_job *job, int shard) {
  for (int l = 0; l < job->shape.local; l++)
    for (uint64_t i = 0; i < job->shape.n; i++)
      if (tagc_is_exception(tagc_bits_of(tagc_load(tagc_levels_own_values(job, shard, l), i, job->shape.dtype))))
        return true;
  return false;
}

static void clear_rest(const struct tagc_job *job, int shard, const struct tagc_levels_message *message) {
  uint8_t *const end = (uint8_t *)(message->terms + message->capacity);
  const bool full = *message->count == TAGC_LEVELS_FULL;
  const uint32_t used = full ? message->capacity : *message->count;
  memset(message->count + 1, 0, TAGC_LEVELS_HEAD_BYTES - sizeof *message->count);
  message->count[1] = full && has_exceptional_values(job, shard);
  memset(message->sums + job->shape.n, 0,
         (size_t)((uint8_t *)message->places - (uint8_t *)(message->sums + job->shape.n)));
  memset(message->places + used, 0, (size_t)(message->capacity - used) * sizeof *message->places);
  memset(message->terms + used, 0, (size_t)(end - (uint8_t *)(message->terms + used)));
}

void tagc_levels_encode(struct tagc_job *job) {
  const tagc_fpmode mode = tagc_fpmode_enter();
  for (int shard = 0; shard < job->shape.nranks; shard++) {
    uint8_t *at = job->message_out + (size_t)shard * job->layout.message_bytes;
    const struct tagc_levels_message message = tagc_levels_parts(job->shape.n, at);
    *message.count = 0;
    TAGC_OF_VARIANT(tagc_none)->add_local(job, shard, &message);
    clear_rest(job, shard, &message);
  }
  job->stats->selected += ((uint64_t)job->shape.nranks - 1) * job->shape.n;
  job->stats->residual_norm2 = 0;
  tagc_fpmode_leave(mode);
}

/* ---- decode ------------------------------------------------------------------------------------------------------ */

static void add_sums(const struct tagc_levels_message *message, uint64_t i, struct tagc_exact *sum) {
  tagc_exact_add(sum, message->sums[i]);
  const uint32_t entries = tagc_levels_entries(message);
  for (uint32_t e = tagc_levels_entry_from(message, i); e < entries && message->places[e] == i; e++)
    tagc_exact_add(sum, message->terms[e]);
}

bool tagc_levels_write_exact(const struct tagc_job *job, uint64_t i) {
  struct tagc_exact sum = {0};
  for (int host = 0; host < job->shape.nranks; host++) {
    if (tagc_levels_has_sums(job, host)) {
      const struct tagc_levels_message message = tagc_levels_parts(job->shape.n, tagc_levels_message_of(job, host));
      add_sums(&message, i, &sum);
      continue;
    }
    for (int l = 0; l < job->shape.local; l++)
      tagc_exact_add(&sum, tagc_load(tagc_levels_values(job, host, l), i, job->shape.dtype));
  }
  const uint32_t bits = tagc_exact_round(&sum, (uint32_t)job->divisor, job->shape.dtype);
  ((uint16_t *)job->recv)[i] = (uint16_t)bits;
  return tagc_exact_is_nonfinite(bits, job->shape.dtype);
}

/* The elements that have entries in a message: the vectors have left these out. True if a result is not finite. */
static bool complete_sums(const struct tagc_job *job, int host) {
  const struct tagc_levels_message message = tagc_levels_parts(job->shape.n, tagc_levels_message_of(job, host));
  bool seen = false;
  for (uint32_t e = 0; e < tagc_levels_entries(&message); e++)
    if (message.places[e] < job->shape.n && (e == 0 || message.places[e] != message.places[e - 1]))
      seen |= tagc_levels_write_exact(job, message.places[e]);
  return seen;
}

static bool are_exceptional(const float *values, uint64_t count) {
  for (uint64_t i = 0; i < count; i++)
    if (tagc_is_exception(tagc_bits_of(values[i])))
      return true;
  return false;
}

/* Of the terms of a message, and, if the vectors do not add its sums yet, of these. */
static bool message_has_exceptions(const struct tagc_job *job, int host, bool sums) {
  const struct tagc_levels_message message = tagc_levels_parts(job->shape.n, tagc_levels_message_of(job, host));
  if (*message.count == TAGC_LEVELS_FULL)
    return sums && message.count[1];
  return are_exceptional(message.terms, tagc_levels_entries(&message)) ||
         (sums && are_exceptional(message.sums, job->shape.n));
}

void tagc_levels_decode(struct tagc_job *job) {
  bool all = true;
  for (int host = 0; host < job->shape.nranks; host++)
    all &= host == job->rank || tagc_levels_has_sums(job, host);
  job->wants_values = !all && !job->has_values;
  job->surplus_seen = job->nonfinite_seen = false;
  for (int host = 0; host < job->shape.nranks && !job->nonfinite_seen; host++)
    job->nonfinite_seen = message_has_exceptions(job, host, job->wants_values);
  if (job->wants_values)
    return;
  const tagc_fpmode mode = tagc_fpmode_enter();
  job->nonfinite_seen |= TAGC_OF_VARIANT(tagc_none)->exact_levels(job);
  for (int host = 0; host < job->shape.nranks; host++)
    if (tagc_levels_has_sums(job, host))
      job->nonfinite_seen |= complete_sums(job, host);
  tagc_fpmode_leave(mode);
}

const struct tagc_codec_levels tagc_levels_of_precise = {.least = 3, .lacks_sums = is_full};
