/* SPDX-License-Identifier: BSD-3-Clause
 * libFuzzer target: any text is a file of calls or is refused with a place in it. Calls that are written line by line
 * are read back unchanged.
 */
#include "layermap/cycle/calls.h"
#include "layermap/cycle/evidence.h"
#include "tests/fuzz/complaint.h"

/* Returns the calls as a file; free() the result. */
static char *write_calls(const struct tagc_call_file *calls, size_t *size) {
  char *text = NULL, line[64];
  FILE *file = open_memstream(&text, size);
  MUST(file);
  fputs(TAGC_CALLS_VERSION "\n", file);
  for (size_t i = 0; i < calls->count; i++) {
    fprintf(file, "%s\n", tagc_calls_communicator_line(&calls->lists[i], line, sizeof line));
    for (size_t j = 0; j < calls->lists[i].count; j++) {
      fprintf(file, "%s\n", tagc_calls_line(&calls->lists[i].calls[j], line, sizeof line));
      MUST(strlen(line) + 1 < sizeof line);
    }
  }
  MUST(fclose(file) == 0);
  return text;
}

static void check_same(const struct tagc_call_file *a, const struct tagc_call_file *b) {
  size_t total = 0;
  MUST(a->count == b->count && a->count <= TAGC_CALLS_LISTS);
  for (size_t i = 0; i < a->count; i++) {
    const struct tagc_call_list *x = &a->lists[i], *y = &b->lists[i];
    MUST(x->communicator == y->communicator && x->nranks == y->nranks && x->rank == y->rank && x->count == y->count);
    MUST(x->nranks >= 1 && x->nranks <= TAGC_CALLS_RANKS && x->rank >= 0 && x->rank < x->nranks);
    for (size_t j = 0; j < x->count; j++)
      MUST(tagc_signature_equal(&x->calls[j], &y->calls[j]));
    total += x->count;
  }
  MUST(total <= TAGC_CALLS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct tagc_complaint complaint;
  char *text = input_memory(size);
  if (size)
    memcpy(text, data, size);
  struct tagc_call_file *calls = tagc_calls_parse(text, size, &complaint);
  if (!calls)
    check_complaint(&complaint, text, size);
  free(text);
  if (!calls)
    return 0;
  size_t length;
  char *written = write_calls(calls, &length);
  struct tagc_call_file *again = tagc_calls_parse(written, length, &complaint);
  MUST(again);
  check_same(calls, again);
  free(written);
  tagc_calls_free(again);
  tagc_calls_free(calls);
  return 0;
}
