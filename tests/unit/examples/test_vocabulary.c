/* SPDX-License-Identifier: BSD-3-Clause
 * The example trainer's vocabulary: its words, the division of text into tokens, and that no text is lost.
 */
#include "examples/gpt/vocabulary.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/tap.h"

#define TEXT(literal) (const uint8_t *)(literal), sizeof(literal) - 1

static bool word_is(const struct vocabulary *v, size_t i, const char *expected) {
  return v->words[i].length == strlen(expected) && memcmp(v->words[i].bytes, expected, strlen(expected)) == 0;
}

static size_t encode(const struct vocabulary *v, const char *text, uint16_t *tokens) {
  return vocabulary_encode(v, (const uint8_t *)text, strlen(text), tokens);
}

static void test_bytes_alone(void) {
  uint16_t tokens[300];
  uint8_t all[256];
  for (size_t i = 0; i < sizeof all; i++)
    all[i] = (uint8_t)i;
  struct vocabulary v = vocabulary_create(TEXT("the same words, the same words"), 0);
  size_t n = vocabulary_encode(&v, all, sizeof all, tokens);
  bool equal = n == sizeof all;
  for (size_t i = 0; equal && i < n; i++)
    equal = tokens[i] == i;
  ok(equal, "without words every byte is its own token");
  vocabulary_destroy(&v);
}

static void test_words(void) {
  static const char text[] = " cat dog cat, a cat dog. dogma bat bat; x y x";
  struct vocabulary v = vocabulary_create((const uint8_t *)text, sizeof text - 1, 3);
  /* " cat" three times, " dog" and " bat" twice, " x" twice, but after those: three fit. */
  ok(v.nwords == 3 && word_is(&v, 0, " bat") && word_is(&v, 1, " cat") && word_is(&v, 2, " dog"),
     "the most frequent words, equally frequent ones by their bytes, in the order of their bytes");
  uint16_t tokens[64];
  ok(encode(&v, " cat dog", tokens) == 2 && tokens[0] == 257 && tokens[1] == 258, "words become tokens");
  ok(encode(&v, " dogma", tokens) == 3 && tokens[0] == 258 && tokens[1] == 'm' && tokens[2] == 'a',
     "the longest word that begins here, then bytes");
  ok(encode(&v, "dog  cat", tokens) == 5 && tokens[0] == 'd' && tokens[3] == ' ' && tokens[4] == 257,
     "a word is one with its own space");
  ok(encode(&v, "", tokens) == 0, "nothing of nothing");
  vocabulary_destroy(&v);
}

static void test_longest(void) {
  struct vocabulary v = vocabulary_create(TEXT("in inner in inner inn"), 4);
  uint16_t tokens[64];
  size_t n = encode(&v, " innermost inns in", tokens);
  ok(n == 8 && tokens[0] >= 256 && word_is(&v, tokens[0] - 256u, " inner") && tokens[1] == 'm' && tokens[5] >= 256 &&
       word_is(&v, tokens[5] - 256u, " inn") && tokens[6] == 's' && word_is(&v, tokens[7] - 256u, " in"),
     "a longer word goes before a shorter one that begins alike");
  vocabulary_destroy(&v);
}

/* Some text and some bytes that are not text: any tokens spell it. */
static void test_nothing_lost(void) {
  enum { COUNT = 20000 };
  uint8_t *text = malloc(COUNT), *spelt = malloc(COUNT);
  uint16_t *tokens = malloc(COUNT * sizeof *tokens);
  uint64_t state = 1;
  for (size_t i = 0; i < COUNT; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    text[i] = (state >> 60) == 0 ? (uint8_t)(state >> 40) : (uint8_t)("abcd  \n."[state >> 61]);
  }
  struct vocabulary v = vocabulary_create(text, COUNT / 2, 200);
  size_t n = vocabulary_encode(&v, text, COUNT, tokens), at = 0, words = 0;
  for (size_t i = 0; i < n; i++) {
    struct word word = {.bytes = (const uint8_t[]){(uint8_t)tokens[i]}, .length = 1};
    if (tokens[i] >= 256) {
      words++;
      word = v.words[tokens[i] - 256];
    }
    if (at + word.length <= COUNT)
      memcpy(spelt + at, word.bytes, word.length);
    at += word.length;
  }
  ok(at == COUNT && memcmp(text, spelt, COUNT) == 0 && words > 500, "%zu tokens, %zu of them words, spell the text", n,
     words);
  vocabulary_destroy(&v);
  free(text);
  free(spelt);
  free(tokens);
}

int main(void) {
  test_bytes_alone();
  test_words();
  test_longest();
  test_nothing_lost();
  return tap_done();
}
