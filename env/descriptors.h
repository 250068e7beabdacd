/* SPDX-License-Identifier: BSD-3-Clause
 * File descriptors belong to the program; ulimit -n limits them. Threads: any. errno is kept.
 */
#ifndef ENV_DESCRIPTORS_H
#define ENV_DESCRIPTORS_H

#include <stdbool.h>

/* The most descriptors that this process may have open. */
int tagc_descriptors_limit(void);

/* Gives a descriptor that has the number of a standard stream, which the program has closed, another one: what it
 * writes there must not get into our files and sockets. Returns it, or -1 (closed), or a negative one as it is. */
int tagc_descriptor_of_ours(int fd);

/* True if `wanted` more could be opened now. */
bool tagc_descriptors_are_free(int wanted);

#endif
