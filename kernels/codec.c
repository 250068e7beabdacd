/* SPDX-License-Identifier: BSD-3-Clause
 * The list of codecs, and the memory of a job. See codec.h.
 */
#include "kernels/codec.h"

#include <string.h>

#include "kernels/codecs.h"

const struct tagc_codec *const tagc_codecs[] = {
  &tagc_codec_none,
  &tagc_codec_bf16,
  &tagc_codec_q8,
  &tagc_codec_q4,
  &tagc_codec_q2,
  &tagc_codec_lhc,
  NULL,
};

const struct tagc_codec *tagc_codec_find(const char *name)
{
  for (const struct tagc_codec *const *codec = tagc_codecs; *codec; codec++)
    if (strcmp((*codec)->name, name) == 0)
      return *codec;
  return NULL;
}

static void *take(uint8_t *base, size_t *used, size_t bytes)
{
  void *memory = base && bytes ? base + *used : NULL;
  *used += (bytes + 63) & ~(size_t)63;
  return memory;
}

size_t tagc_job_carve(struct tagc_job *job, uint8_t *base)
{
  const struct tagc_layout *l = &job->layout;
  size_t nranks = (size_t)job->shape.nranks, used = 0;
  job->exponents = take(base, &used, nranks * l->exponent_bytes);
  job->sketch_out = take(base, &used, nranks * l->sketch_count * 4);
  job->sketch_in = take(base, &used, l->sketch_count * 4);
  job->message_out = take(base, &used, nranks * l->message_bytes);
  job->message_in = take(base, &used, nranks * l->message_bytes);
  job->state = take(base, &used, l->state_bytes);
  return used;
}
