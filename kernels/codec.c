/* SPDX-License-Identifier: BSD-3-Clause
 * The list of codecs, and what a call costs on the wire. See codec.h.
 */
#include "kernels/codec.h"

#include <string.h>

#include "kernels/codecs.h"

const struct tagc_codec *const tagc_codecs[] = {
  &tagc_codec_none,
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

uint64_t tagc_layout_wire_bytes(const struct tagc_shape *shape, const struct tagc_layout *layout)
{
  uint64_t peers = (uint64_t)shape->nranks - 1;
  /* The max is a ring all-reduce of nranks parts: each rank sends 2 (W-1)/W of the whole, 2 (W-1) parts. */
  return peers * (2 * layout->exponent_bytes + sizeof(int32_t) * layout->sketch_count + layout->message_bytes);
}

uint64_t tagc_plain_wire_bytes(const struct tagc_shape *shape)
{
  return ((uint64_t)shape->nranks - 1) * shape->n * tagc_dtype_size(shape->dtype);
}
