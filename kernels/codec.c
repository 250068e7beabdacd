/* SPDX-License-Identifier: BSD-3-Clause
 * The list of codecs. See codec.h.
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
  &tagc_codec_sparse,
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
