/* SPDX-License-Identifier: BSD-3-Clause
 * NCCL's own settings, read and made where NCCL reads them. Threads: any that may call getenv().
 */
#ifndef ENV_CONF_H
#define ENV_CONF_H

#include <stdbool.h>
#include <stddef.h>

/* The version code of the process's NCCL (2.28.9 is 22809), whose rules for these files count; before that, and with 0,
 * those of the newest. Of several copies the last one counts. */
void tagc_conf_set_version(int version);

/* The user's value of a variable, cut to `size`: of the environment, else of NCCL's files, the first of NCCL_CONF_FILE
 * (or ~/.nccl.conf) and /etc/nccl.conf that has it. False: the user has not set it. */
bool tagc_conf_find(const char *variable, char *value, size_t size);

/* Sets a variable that is not set, as NCCL does with those of its files. False: no memory. */
bool tagc_conf_set(const char *variable, const char *value);

#endif
