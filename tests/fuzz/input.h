/* SPDX-License-Identifier: BSD-3-Clause
 * The bytes of a fuzzer as a stream: numbers are taken from the front, and zeros follow after its end. So every input
 * is valid, and short ones stay simple. Single-threaded.
 */
#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct input {
  const uint8_t *at, *end;
};

/* libFuzzer calls these; the second one, if there is one, once at the start. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static inline uint8_t input_byte(struct input *in) { return in->at < in->end ? *in->at++ : 0; }

static inline size_t input_left(const struct input *in) { return (size_t)(in->end - in->at); }

/* `bytes` bytes, the first one lowest. */
static inline uint64_t input_number(struct input *in, unsigned bytes) {
  uint64_t number = 0;
  for (unsigned i = 0; i < bytes; i++)
    number |= (uint64_t)input_byte(in) << (8 * i);
  return number;
}

/* From 0 to limit - 1; limit <= 65536. */
static inline uint32_t input_below(struct input *in, uint32_t limit) {
  return (uint32_t)input_number(in, limit > 256 ? 2 : 1) % limit;
}

/* Memory of exactly that size, so the sanitizer sees overruns. */
static inline void *input_memory(size_t bytes) {
  void *memory = malloc(bytes ? bytes : 1);
  if (!memory)
    abort();
  return memory;
}

/* Aborts unless the condition holds. */
#define MUST(holds) \
  do \
    if (!(holds)) { \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #holds); \
      abort(); \
    } \
  while (0)

#endif
