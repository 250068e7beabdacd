/* SPDX-License-Identifier: BSD-3-Clause
 * The library as a whole in this process: its options and whether it does anything at all.
 *
 * There is no constructor: everything happens at the first NCCL call. Threads: any.
 */
#ifndef INTERPOSE_LIBRARY_H
#define INTERPOSE_LIBRARY_H

#include <stdatomic.h>
#include <stdbool.h>

#include "env/options.h"
#include "kernels/codec/allgather.h"
#include "kernels/codec/codec.h"
#include "layermap/model/model.h"

enum { TAGC_LIBRARY_NEW, TAGC_LIBRARY_OFF, TAGC_LIBRARY_ON };
extern atomic_int tagc_library_state;

/* Reads the options, once. True unless TAGC_MODE=off. */
bool tagc_library_start(void);

/* Does the library do anything but forward? One load and one branch after the first call. */
static inline bool tagc_library_on(void)
{
  int state = atomic_load_explicit(&tagc_library_state, memory_order_acquire);
  return state == TAGC_LIBRARY_NEW ? tagc_library_start() : state == TAGC_LIBRARY_ON;
}

/* The options, frozen. */
const struct tagc_options *tagc_library_options(void);

/* The codec of TAGC_CODEC; NULL for auto. (A name that is not known is refused when the options are read.) */
const struct tagc_codec *tagc_library_codec(void);

/* That of TAGC_GATHER; NULL for off. */
const struct tagc_allgather_codec *tagc_library_gather_codec(void);

/* The model in the file of TAGC_LAYERMAP, and the digest of that file; NULL where there is none. (One that cannot be read is refused like
 * a value that is not understood.) */
const struct tagc_model *tagc_library_map(uint64_t *digest);

#endif
