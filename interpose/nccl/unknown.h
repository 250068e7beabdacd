/* SPDX-License-Identifier: BSD-3-Clause
 * Functions of an NCCL that this library does not know: calls of them go past it.
 *
 * A newer NCCL may have another collective. A program that calls it is seen in part: the cycle is found among the other
 * calls, and traces lack some. So the functions of a copy are compared with entries.def at its first call; the log
 * names the unknown ones once, and reports say of the copy's communicators that they are not fully seen. The same holds
 * for callers of second names (pncclAllReduce), which are for wrappers of NCCL.
 *
 * Threads  Any.
 * Cost     A walk over the copy's exports and over what is loaded, once.
 */
#ifndef INTERPOSE_NCCL_UNKNOWN_H
#define INTERPOSE_NCCL_UNKNOWN_H

#include <stdbool.h>
#include <stddef.h>

struct tagc_nccl;

/* Is it a function of an NCCL ("nccl" and a capital letter) that entries.def does not mention? */
bool tagc_unknown_is(const char *name);

/* Looks through the exports of a copy's library, and logs what is unknown. Called once for each copy. Not with
 * TAGC_MODE=off. */
void tagc_unknown_look(const struct tagc_nccl *nccl);

/* The functions of a called copy that go past this library: "ncclOne, ncclTwo and 3 more"; "": none. */
const char *tagc_unknown_functions(const struct tagc_nccl *nccl);

/* A list of them in a text, as above; used by the doctor, too. */
struct tagc_unknown_list {
  char text[256];
  size_t used, named, more;
};
void tagc_unknown_add(struct tagc_unknown_list *list, const char *name);

#endif
