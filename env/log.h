/* SPDX-License-Identifier: BSD-3-Clause
 * The log: one line on stderr a message, "tagc[rank] warn env: ...".
 *
 * Safe anywhere: one write(2) from a stack buffer, no allocation, no lock, errno is kept. If stderr cannot take a line
 * (closed, full disk, file at its limit, pipe without reader), the line is dropped without a trace or a signal. A full
 * pipe blocks the writer, as any write to stderr does. Nothing is written to a file that merely got the number of a
 * closed stderr: see is_stderr(). Messages quote outside data (values of variables, file names). So only printable
 * ASCII reaches stderr: no value can begin a line or steer a terminal.
 */
#ifndef ENV_LOG_H
#define ENV_LOG_H

#include <stddef.h>

enum tagc_log_level { TAGC_LOG_ERROR, TAGC_LOG_WARN, TAGC_LOG_INFO, TAGC_LOG_DEBUG };

/* Drops messages above this level; until it is set, TAGC_LOG_WARN. */
void tagc_log_set_level(int level);

/* Called at the first NCCL call: a stderr that is closed now stays closed, even if its number is reused later. */
void tagc_log_start(void);

/* Sets the rank of this process for the prefix. Until then the prefix shows no number. */
void tagc_log_set_rank(int rank);
int tagc_log_rank(void); /* -1: unknown */

/* Logs a message of `component` (its source folder). Messages over 1,000 bytes are cut. */
__attribute__((format(printf, 3, 4))) void tagc_log(enum tagc_log_level level, const char *component,
                                                    const char *message, ...);

/* Copies text to `out` (of `size` > 0 bytes, terminated) and writes every byte that is not printable ASCII as \xNN.
 * Excess text is cut, never inside such an escape. Returns the length. Pure. */
size_t tagc_log_escape(char *out, size_t size, const char *text);

/* Writes a line of a report: no prefix, at any level. Same guarantees. */
__attribute__((format(printf, 1, 2))) void tagc_say(const char *line, ...);

#endif
