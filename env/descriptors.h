/* SPDX-License-Identifier: BSD-3-Clause
 * File descriptors belong to the program; ulimit -n limits them. Threads: any. errno is kept.
 */
#ifndef ENV_DESCRIPTORS_H
#define ENV_DESCRIPTORS_H

#include <stdbool.h>

/* The most descriptors that this process may have open. */
int tagc_descriptors_limit(void);

/* True if `wanted` more could be opened now. */
bool tagc_descriptors_are_free(int wanted);

#endif
