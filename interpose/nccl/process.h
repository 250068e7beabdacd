/* SPDX-License-Identifier: BSD-3-Clause
 * The library as a whole in this process: its options, its codecs and its map.
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

/* The options, read at the first call, and frozen when the library has started (entry/start.h). */
const struct tagc_options *tagc_library_options(void);

/* The codec of TAGC_CODEC; NULL for auto. (The start refuses an unknown name.) */
const struct tagc_codec *tagc_library_codec(void);

/* The codec of TAGC_ALLGATHER; NULL for off. Of auto it is exact, or NULL if TAGC_CODEC names a codec. */
const struct tagc_allgather_codec *tagc_library_allgather_codec(void);

/* Each communicator asks PyTorch for its map: with TAGC_LAYERMAP=torch for any model; without TAGC_LAYERMAP, if
 * TAGC_LAYERS or TAGC_SKIP name kinds, for one that fully_shard wraps. Equal on all ranks that agree. */
enum tagc_ask { TAGC_ASK_NOTHING, TAGC_ASK_FULLY_SHARD, TAGC_ASK_ALL };
enum tagc_ask tagc_library_asks_torch(void);

/* The model in the file of TAGC_LAYERMAP, and the digest of that file; NULL: none. (An unreadable one is refused.) */
const struct tagc_model *tagc_library_map(uint64_t *digest);

/* For the start of the library, before anything else uses them: a value was refused, so every call passes; the model of
 * TAGC_LAYERMAP, which lives as long as the process. */
void tagc_library_refuse(void);
void tagc_library_set_map(const struct tagc_model *model, uint64_t digest);

/* The program sends messages of its own, whose order differs from rank to rank: ncclSend, ncclRecv, one-sided calls,
 * kernels with a device communicator. Collectives have one order everywhere, so the host may wait in them; beside
 * messages it might wait in a circle. */
void tagc_library_note_messages(void);
bool tagc_library_saw_messages(void);

/* Logs, once in a process, a lack of memory for `what`. Returns ncclSystemError, for the call to return. */
ncclResult_t tagc_no_memory(const char *what);

#endif
