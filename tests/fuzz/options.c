/* SPDX-License-Identifier: BSD-3-Clause
 * libFuzzer target: any environment must be read without a crash, and leave options that are in range. Any selection of
 * slots is either refused with a place in it, or queried without a crash. Any message becomes one printable line. The
 * input is a list of NAME=value strings, separated by newlines. The first byte of all picks the query of a selection.
 */
#include "env/log.h"
#include "env/options.h"
#include "layermap/model/select.h"
#include "tests/fuzz/input.h"

static void check_schedule(const struct tagc_schedule *s) {
  MUST(s->count >= 1 && s->count <= TAGC_STAGES && s->from[0] == 1);
  for (uint32_t i = 0; i < s->count; i++)
    MUST(s->ppm[i] <= 999999 && s->from[i] <= 1000000 && (i == 0 || s->from[i] > s->from[i - 1]));
}

static void check_range(const struct tagc_options *o) {
  MUST(o->mode >= 0 && o->mode <= TAGC_MODE_AB && o->residual >= 0 && o->residual <= TAGC_RESIDUAL_INT8);
  MUST(o->rounding >= 0 && o->rounding <= TAGC_ROUNDING_STOCHASTIC && o->dump);
  MUST(o->assume >= 0 && o->assume <= TAGC_ASSUME_GRADIENTS && o->report >= 0 && o->report <= TAGC_REPORT_AUTO);
  MUST(o->log >= TAGC_LOG_ERROR && o->log <= TAGC_LOG_DEBUG);
  MUST(o->ab >= 1 && o->ab <= 1000000 && o->warmup <= 1000000);
  MUST(o->residual_max <= UINT64_C(1) << 50 && o->min_bytes <= UINT64_C(1) << 50);
  check_schedule(&o->sparsity);
  MUST(o->codec && o->layers && o->skip && o->nccl);
}

/* Checks that a refused value changes nothing, and that its message fits the buffer. */
static void check_set(const struct tagc_options *before, char *line) {
  struct tagc_options after = *before;
  char why[100], *value = strchr(line, '=');
  if (!value)
    return;
  *value++ = '\0';
  if (tagc_options_set(&after, line, value, why, sizeof why))
    check_range(&after);
  else
    MUST(memcmp(&after, before, sizeof after) == 0 && memchr(why, '\0', sizeof why) && *why);
}

static void check_select(const char *list, uint32_t unit) {
  const char *why = NULL;
  size_t at = 0;
  char name[16];
  snprintf(name, sizeof name, "unit%u", unit);
  const bool named = tagc_select_matches(list, name, unit);
  MUST(named == tagc_select_matches(list, name, unit));
  if (!tagc_select_valid(list, &why, &at))
    MUST(why && at <= strlen(list));
}

static void check_escape(const char *text, size_t size) {
  char line[256];
  size = 1 + size % sizeof line;
  const size_t length = tagc_log_escape(line, size, text);
  MUST(length < size && line[length] == '\0');
  for (size_t i = 0; i < length; i++)
    MUST(line[i] >= ' ' && line[i] <= '~');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct tagc_options options;
  char *text = malloc(size + 1), *environment[65], *save = NULL;
  size_t n = 0;
  MUST(text);
  memcpy(text, data, size);
  text[size] = '\0';
  check_escape(text, size ? data[0] : 0);
  for (char *line = strtok_r(text, "\n", &save); line && n < 64; line = strtok_r(NULL, "\n", &save))
    environment[n++] = line;
  environment[n] = NULL;
  tagc_log_set_level(-1);
  tagc_options_read(&options, environment);
  check_range(&options);
  check_select(options.layers, size ? data[0] : 0);
  check_select(options.skip, size ? data[0] : 0);
  char description[TAGC_OPTIONS_TEXT];
  if (!tagc_options_describe(&options, description, sizeof description))
    abort();
  if (n)
    check_set(&options, environment[n - 1]);
  free(text);
  return 0;
}
