/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/codec/nonzero_index.h"

#include "kernels/codec/codec.h"

/* Counts the values in [at, at + count); sets *exceptions to 1 if one of them is an exception. */
static uint32_t count_values(const void *from, uint64_t at, uint32_t count, const struct tagc_job *job,
                             uint64_t *exceptions) {
  const enum tagc_dtype dtype = job->shape.dtype;
  uint32_t values = 0, wild = 0;
  for (uint32_t i = 0; i < count; i++) {
    const float x =
      job->scale * (dtype == TAGC_FLOAT32 ? ((const float *)from)[at + i] : tagc_load(from, at + i, dtype));
    values += tagc_is_value(x);
    wild += tagc_is_exception(tagc_bits_of(x));
  }
  *exceptions |= wild > 0;
  return values;
}

void tagc_nonzero_index_count(const struct tagc_job *job, uint64_t range, uint64_t *words) {
  const uint64_t n = job->shape.n, places = (uint64_t)job->shape.nranks - 1;
  for (uint64_t place = 0; place < places; place++) {
    const uint64_t shard = place + (place >= (uint64_t)job->rank);
    const char *from = tagc_job_shard(job, (int)shard);
    uint64_t values = 0;
    for (uint64_t at = 0; at < n; at += TAGC_NONZERO_BLOCK) {
      const uint32_t count = n - at < TAGC_NONZERO_BLOCK ? (uint32_t)(n - at) : TAGC_NONZERO_BLOCK;
      const uint32_t found = count_values(from, at, count, job, &words[TAGC_NONZERO_EXCEPTIONS]);
      uint64_t *first = &words[TAGC_NONZERO_FIRST + (place * n + at) / range];
      if (found && *first < ~(place * n + at))
        *first = ~(place * n + at);
      values += found;
    }
    words[TAGC_NONZERO_VALUES + place] += values;
  }
}
