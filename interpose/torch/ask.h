/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_LAYERMAP=torch: asks the PyTorch of this process which parameters its model has, and how FSDP or DDP lays them
 * out. modules.py is the question. The library is not linked with Python: it finds the functions of the interpreter by
 * name, in a process that has one.
 *
 * The lock     Python code needs the interpreter's global lock (GIL). If this thread holds it, the question runs here.
 *              Else a thread of the library asks, and this one waits TAGC_TORCH_TIMEOUT at most: whoever holds the lock
 *              may be waiting for the caller. After that nothing in this process is asked again. A question that comes
 *              too late ends at once.
 * The program  The question loads no module and prints nothing. Exceptions end in it, and one that is under way stays.
 *              The garbage collector pauses: no finalizer of the program shall run while a call waits. A child that
 *              another thread forks meanwhile collects again. Of modules the question reads dictionaries alone: no
 *              method or property of the program runs.
 *
 * DDP          Only its logger knows the order of its buckets, and takes the reducer's mutex for that. The thread that
 *              calls NCCL from DDP's hooks holds it. So that question has a thread of its own, which nobody waits for:
 *              the mutex is free between two hooks, and a later call gets the answer.
 *
 * The default  is to ask if TAGC_LAYERS or TAGC_SKIP name kinds, as only PyTorch knows these. Two risks are left:
 *              - whoever holds the lock may wait for the caller: then all ranks wait for the time-out, once. PyTorch
 *                gives the lock away before it waits for anything;
 *              - at the interpreter's end a thread that waits for the lock is stopped, or waits for ever: the caller
 *                goes on after the time-out.
 *              FSDP1 and DDP have no list of their modules. Looking through all objects keeps each alive meanwhile, and
 *              the last one to let go of it may be us: so they are asked about with TAGC_LAYERMAP=torch alone.
 *
 * Threads      Any, without locks of the library.
 */
#ifndef INTERPOSE_TORCH_ASK_H
#define INTERPOSE_TORCH_ASK_H

#include "layermap/model/model.h"

/* The longest reason, with the NUL. */
enum { TAGC_TORCH_WHY = 240 };

/* The model that `nranks` ranks of this program train together, which the caller frees, and the digest of its map,
 * never 0. NULL: *why, also if the interpreter is not free within `seconds`, or *later: ask again in a later cycle.
 * Only who looks everywhere finds FSDP1 and DDP. */
struct tagc_model *tagc_torch_ask(int nranks, bool looks_everywhere, uint64_t seconds, uint64_t *digest, bool *later,
                                  char why[TAGC_TORCH_WHY]);

/* The ranks need no answer about so many ranks any more: one of DDP is kept until then, for asking again. */
void tagc_torch_settled(int nranks);

/* True if the interpreter was not free in time. */
bool tagc_torch_was_late(void);

/* What an answer of modules.py means: as tagc_torch_ask(). */
struct tagc_model *tagc_torch_read(const char *answer, uint64_t *digest, char why[TAGC_TORCH_WHY]);

#endif
