/* SPDX-License-Identifier: BSD-3-Clause
 * The mark of tagc-run: did any process of its command call NCCL?
 *
 * tagc-run makes an empty file, and names it in TAGC_RUN_MARK with its own process id, which becomes the command's. The
 * first NCCL call of any process under it removes the file. If it is still there at the end of the command, no call
 * came. The library in the command says so, if the command ends in order; else a process that tagc-run left behind
 * (unless the command would be its parent, as process 1 of a container is).
 *
 * Threads: any.
 */
#ifndef ENV_MARK_H
#define ENV_MARK_H

#define TAGC_MARK "TAGC_RUN_MARK" /* PID:FILE */
#define TAGC_MARK_PREFIX "tagc-run."

/* A process of the job calls NCCL. */
void tagc_mark_remove(void);
/* This process ends. If tagc-run became it, and no NCCL call was made, says so. */
void tagc_mark_end(void);
/* Process `pid` has ended: the same for it. */
void tagc_mark_end_of(long pid);

#endif
