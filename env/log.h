/* SPDX-License-Identifier: BSD-3-Clause
 * The log: one line on stderr a message, "tagc[rank] warn env: ...".
 *
 * Safe anywhere: one write(2) from a stack buffer, no allocation, no lock, errno is kept. What stderr cannot take (it
 * is closed, a full disk, a file at its limit, a pipe whose reader has gone) is dropped without a trace or a signal; a
 * pipe that is full makes the writer wait, as any write to stderr does. What only has the number of a closed stderr is
 * left alone: see is_stderr(). Messages quote what comes from outside (values of variables, names of files): only
 * printable ASCII reaches stderr, so that no value can begin a line of its own or steer a terminal.
 */
#ifndef ENV_LOG_H
#define ENV_LOG_H

#include <stddef.h>

enum tagc_log_level { TAGC_LOG_ERROR, TAGC_LOG_WARN, TAGC_LOG_INFO, TAGC_LOG_DEBUG };

/* Messages above this level are dropped; TAGC_LOG_WARN until it is set. */
void tagc_log_set_level(int level);

/* The first NCCL call: a stderr that is closed now stays closed, whatever gets its number later. */
void tagc_log_start(void);

/* The rank of this process for the prefix; unknown (no number is shown) until it is set. */
void tagc_log_set_rank(int rank);
int tagc_log_rank(void); /* -1: unknown */

/* A message of `component` (the folder it comes from). A message of over 1,000 bytes is cut. */
__attribute__((format(printf, 3, 4))) void tagc_log(enum tagc_log_level level, const char *component,
                                                    const char *message, ...);

/* Copies text to `out` (of `size` > 0 bytes, terminated), every byte that is not printable ASCII as \xNN; what does not
 * fit is cut, never in the middle of such an escape. Returns the length. Pure. */
size_t tagc_log_escape(char *out, size_t size, const char *text);

/* Lines of a report: no prefix, whatever the level. Same guarantees. */
__attribute__((format(printf, 1, 2))) void tagc_say(const char *line, ...);

#endif
