/* SPDX-License-Identifier: BSD-3-Clause
 * Tokens: the 256 bytes and, in a larger vocabulary, the most frequent words of the training text.
 *
 * A word is a run of letters with the space before it, if there is one. Tokens 0 to 255 are the bytes; the words follow
 * in the order of their bytes, so frequent ones lie anywhere among the rare. Text is cut greedily: at every place the
 * longest word that begins there, or else one byte. The result depends only on the text and the size.
 * Read-only once made, hence thread-safe. Ends the process on errors.
 */
#ifndef EXAMPLES_GPT_VOCABULARY_H
#define EXAMPLES_GPT_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

#define VOCABULARY_BYTES 256

struct word {
  const uint8_t *bytes; /* in the text */
  size_t length, count; /* how often it was seen */
};

struct vocabulary {
  struct word *words; /* token 256 + i is words[i] */
  size_t nwords;
};

/* The bytes and the `nwords` most frequent words of the text, which must outlive the result. */
struct vocabulary vocabulary_create(const uint8_t *text, size_t count, size_t nwords);
void vocabulary_destroy(struct vocabulary *vocabulary);

/* Writes the tokens of `count` bytes, at most `count`; returns their number. */
size_t vocabulary_encode(const struct vocabulary *vocabulary, const uint8_t *text, size_t count, uint16_t *tokens);

#endif
