// SPDX-License-Identifier: BSD-3-Clause
// Runs a fuzz target over files, without libFuzzer: `replay FILE...`. The name of each file is printed before its run.
#include "tests/fuzz/input.h"

#pragma weak LLVMFuzzerInitialize

/* Memory of exactly the size of the file, so that a sanitizer sees what runs over. */
static void run(FILE *file, size_t bytes) {
  uint8_t *data = input_memory(bytes);
  MUST(fread(data, 1, bytes, file) == bytes);
  LLVMFuzzerTestOneInput(data, bytes);
  free(data);
}

int main(int argc, char **argv) {
  if (LLVMFuzzerInitialize)
    LLVMFuzzerInitialize(&argc, &argv);
  for (int i = 1; i < argc; i++) {
    FILE *file = fopen(argv[i], "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
      perror(argv[i]);
      return 1;
    }
    const long bytes = ftell(file);
    rewind(file);
    puts(argv[i]);
    fflush(stdout);
    run(file, (size_t)bytes);
    fclose(file);
  }
  return 0;
}
