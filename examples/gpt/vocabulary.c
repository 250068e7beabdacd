/* SPDX-License-Identifier: BSD-3-Clause
 * See vocabulary.h.
 */
#include "examples/gpt/vocabulary.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "examples/gpt/fail.h"

/* ASCII, in every locale. */
static bool is_letter(uint8_t byte) { return (byte | 32) >= 'a' && (byte | 32) <= 'z'; }

/* The bytes of the word that begins here, with its space; 0 or 1 if none does. */
static size_t word_length(const uint8_t *text, size_t count) {
  size_t length = count > 0 && *text == ' ';
  while (length < count && is_letter(text[length]))
    length++;
  return length;
}

static int by_bytes(const void *a, const void *b) {
  const struct word *x = a, *y = b;
  int order = memcmp(x->bytes, y->bytes, x->length < y->length ? x->length : y->length);
  return order ? order : (x->length > y->length) - (x->length < y->length);
}

/* The most frequent first; equally frequent ones by their bytes. */
static int by_count(const void *a, const void *b) {
  const struct word *x = a, *y = b;
  return x->count != y->count ? (x->count < y->count ? 1 : -1) : by_bytes(a, b);
}

/* Lists all words of the text, each as often as it occurs. Returns their number. */
static size_t list_words(const uint8_t *text, size_t count, struct word *words) {
  size_t n = 0, at = 0;
  while (at < count) {
    size_t length = word_length(text + at, count - at);
    if (length > 1)
      words[n++] = (struct word){.bytes = text + at, .length = length, .count = 1};
    at += length ? length : 1;
  }
  return n;
}

/* Merges equal words, which lie side by side. Returns how many are left. */
static size_t merge_equal(struct word *words, size_t n) {
  size_t kept = 0;
  for (size_t i = 0; i < n; i++) {
    if (kept && by_bytes(&words[kept - 1], &words[i]) == 0)
      words[kept - 1].count++;
    else
      words[kept++] = words[i];
  }
  return kept;
}

struct vocabulary vocabulary_create(const uint8_t *text, size_t count, size_t nwords) {
  struct vocabulary v = {.nwords = nwords};
  if (!nwords)
    return v;
  v.words = malloc((count / 2 + 1) * sizeof *v.words);
  if (!v.words)
    fail(1, "no memory for the words of %zu bytes", count);
  size_t n = list_words(text, count, v.words);
  qsort(v.words, n, sizeof *v.words, by_bytes);
  n = merge_equal(v.words, n);
  if (n < nwords)
    fail(2, "--vocabulary %zu: the text has %zu different words, so at most %zu tokens", VOCABULARY_BYTES + nwords, n,
         VOCABULARY_BYTES + n);
  qsort(v.words, n, sizeof *v.words, by_count);
  qsort(v.words, nwords, sizeof *v.words, by_bytes);
  return v;
}

void vocabulary_destroy(struct vocabulary *v) {
  free(v->words);
  *v = (struct vocabulary){0};
}

/* The token of the longest word that begins here, or of one byte; *length: its bytes. */
static uint16_t longest_match(const struct vocabulary *v, const uint8_t *text, size_t count, size_t *length) {
  for (*length = v->nwords ? word_length(text, count) : 0; *length > 1; --*length) {
    struct word key = {.bytes = text, .length = *length};
    const struct word *found = bsearch(&key, v->words, v->nwords, sizeof *v->words, by_bytes);
    if (found)
      return (uint16_t)(VOCABULARY_BYTES + (found - v->words));
  }
  *length = 1;
  return *text;
}

size_t vocabulary_encode(const struct vocabulary *v, const uint8_t *text, size_t count, uint16_t *tokens) {
  size_t n = 0;
  for (size_t at = 0, length; at < count; at += length)
    tokens[n++] = longest_match(v, text + at, count - at, &length);
  return n;
}
