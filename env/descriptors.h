/* SPDX-License-Identifier: BSD-3-Clause
 * Descriptors are the program's, as many as it may have (ulimit -n). Threads: any. errno stays as it was.
 */
#ifndef ENV_DESCRIPTORS_H
#define ENV_DESCRIPTORS_H

#include <stdbool.h>

/* How many this process may have open. */
int tagc_descriptors_limit(void);

/* Could so many more be opened now? */
bool tagc_descriptors_are_free(int wanted);

#endif
