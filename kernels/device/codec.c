/* SPDX-License-Identifier: BSD-3-Clause
 * The list of codecs, and the memory of a job. See codec/codec.h.
 */
#include "kernels/codec/codec.h"

#include <stdio.h>
#include <string.h>

#include "kernels/codec/assign_buffer.h"
#include "kernels/codec/codecs.h"

const struct tagc_codec *const tagc_codecs[] = {
#define CODEC(name) &tagc_codec_##name,
#include "kernels/codec/codecs.def"
  NULL,
};

const struct tagc_codec *tagc_codec_find(const char *name) {
  for (const struct tagc_codec *const *codec = tagc_codecs; *codec; codec++)
    if (strcmp((*codec)->name, name) == 0)
      return *codec;
  return NULL;
}

const char *tagc_codec_names(char *text, size_t size) {
  size_t used = 0;
  for (const struct tagc_codec *const *codec = tagc_codecs; *codec && used < size; codec++)
    used += (size_t)snprintf(text + used, size - used, "%s%s", used ? "|" : "", (*codec)->name);
  return text;
}

size_t tagc_job_assign_buffers(struct tagc_job *job, uint8_t *base) {
  const struct tagc_layout *l = &job->layout;
  size_t nranks = (size_t)job->shape.nranks, used = 0;
  job->exponents = tagc_assign_buffer(base, &used, nranks * l->exponent_bytes);
  job->sketch_out = tagc_assign_buffer(base, &used, nranks * l->sketch_count * 4);
  job->sketch_in = tagc_assign_buffer(base, &used, l->sketch_count * 4);
  job->message_out = tagc_assign_buffer(base, &used, nranks * l->message_bytes);
  job->message_in = tagc_assign_buffer(base, &used, nranks * l->message_bytes);
  job->state = tagc_assign_buffer(base, &used, l->state_bytes);
  return used;
}
