/* SPDX-License-Identifier: BSD-3-Clause
 * The tokens to learn from: files one after another, the last tenth of their bytes held out for validation.
 *
 * The drawn sequences depend only on the seed and a running number, so the same global batch can be spread over any
 * number of ranks. Ends the process on errors. Read-only after text_read(), hence thread-safe.
 */
#ifndef EXAMPLES_GPT_TEXT_H
#define EXAMPLES_GPT_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct text {
  uint16_t *tokens;
  size_t count, train; /* tokens [0, train) are for training, [train, count) held out */
};

#define TEXT_DEFAULT_FOLDER "/usr/share/common-licenses"

/* Reads the files, in this order. Without any, reads those of the default folder by name, but no symbolic links: they
 * would bring the same text twice. Debian and Ubuntu have that folder; elsewhere three texts of this project's sources
 * are read, where it was built. `vocabulary` is the number of tokens, at least 256: see vocabulary.h. Checks
 * `context` against the length. */
struct text text_read(const char *const *files, size_t nfiles, size_t vocabulary, size_t context);
void text_free(struct text *text);

/* context + 1 tokens: training sequence `number`. */
const uint16_t *text_training_sequence(const struct text *text, uint64_t seed, uint64_t number, size_t context);

/* The number of validation windows: the held-out part without overlap, at most `limit` (0: all), evenly spaced. */
size_t text_validation_count(const struct text *text, size_t context, size_t limit);
const uint16_t *text_validation_sequence(const struct text *text, size_t number, size_t count, size_t context);

#endif
