/* SPDX-License-Identifier: BSD-3-Clause
 * The library as a whole in this process: its options and whether it does anything at all.
 *
 * There is no constructor: everything happens at the first NCCL call. Threads: any.
 */
#ifndef INTERPOSE_NCCL_PROCESS_H
#define INTERPOSE_NCCL_PROCESS_H

#include <stdbool.h>

#include <nccl.h>

#include "env/options.h"
#include "kernels/codec/allgather.h"
#include "kernels/codec/codec.h"
#include "layermap/model/model.h"

/* The options, read at the first question, and frozen when the library has started (entry/start.h). */
const struct tagc_options *tagc_library_options(void);

/* The codec of TAGC_CODEC; NULL for auto. (A name that is not known is refused when the options are read.) */
const struct tagc_codec *tagc_library_codec(void);

/* That of TAGC_ALLGATHER; NULL for off. */
const struct tagc_allgather_codec *tagc_library_allgather_codec(void);

/* The model in the file of TAGC_LAYERMAP, and the digest of that file; NULL where there is none. (One that cannot be
 * read is refused like a value that is not understood.) */
const struct tagc_model *tagc_library_map(uint64_t *digest);

/* For who starts the library, before anything else asks: a value was refused, so every call passes; the model of
 * TAGC_LAYERMAP, which lives as long as the process. */
void tagc_library_refuse(void);
void tagc_library_set_map(const struct tagc_model *model, uint64_t digest);

/* Says, once in a process, that there was no memory for `what`. Gives ncclSystemError, for the call to return. */
ncclResult_t tagc_no_memory(const char *what);

#endif
