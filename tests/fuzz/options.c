/* SPDX-License-Identifier: BSD-3-Clause
 * libFuzzer target: any environment must be read without a crash, and leave options that are in range.
 * The input is a list of NAME=value strings, separated by newlines.
 */
#include <stdlib.h>
#include <string.h>

#include "env/log.h"
#include "env/options.h"
#include "layermap/select.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct tagc_options options;
  char *text = malloc(size + 1), *environment[65], *save = NULL;
  size_t n = 0;
  if (!text)
    return 0;
  memcpy(text, data, size);
  text[size] = '\0';
  for (char *line = strtok_r(text, "\n", &save); line && n < 64; line = strtok_r(NULL, "\n", &save))
    environment[n++] = line;
  environment[n] = NULL;
  tagc_log_set_level(-1);
  tagc_options_read(&options, environment);
  if (options.mode < 0 || options.mode > TAGC_MODE_AB || options.sparsity > 999999 || options.ab < 1 ||
      options.residual < 0 || options.residual > TAGC_RESIDUAL_NONE || options.log < 0 || options.log > 3)
    abort();
  const char *why;
  size_t at;
  if (tagc_select_valid(options.layers, &why, &at))
    tagc_select_matches(options.layers, "unit17", 17);
  else if (!why || at > strlen(options.layers))
    abort();
  char description[TAGC_OPTIONS_TEXT];
  if (!tagc_options_describe(&options, description, sizeof description))
    abort();
  free(text);
  return 0;
}
