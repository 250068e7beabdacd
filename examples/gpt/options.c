/* SPDX-License-Identifier: BSD-3-Clause
 * See options.h.
 */
#include "examples/gpt/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/gpt/fail.h"
#include "examples/gpt/parallel.h"
#include "examples/gpt/text.h"
#include "examples/gpt/vocabulary.h"

enum option_type { OPTION_SIZE, OPTION_REAL, OPTION_CHOICE, OPTION_FLAG, OPTION_PATH };

struct option {
  const char *field;
  enum option_type type;
  size_t offset; /* of the field in struct options */
  double fallback, least, most;
  const char *choices, *help;
};

static const struct option option_table[] = {
#define ENTRY(field, fallback, least, most, help) \
  {#field, OPTION_SIZE, offsetof(struct options, field), fallback, least, most, NULL, help},
  OPTIONS_SIZES(ENTRY)
#undef ENTRY
#define ENTRY(field, fallback, least, most, help) \
  {#field, OPTION_REAL, offsetof(struct options, field), fallback, least, most, NULL, help},
    OPTIONS_REALS(ENTRY)
#undef ENTRY
#define ENTRY(field, choices, help) {#field, OPTION_CHOICE, offsetof(struct options, field), 0, 0, 0, choices, help},
      OPTIONS_CHOICES(ENTRY)
#undef ENTRY
#define ENTRY(field, help) {#field, OPTION_FLAG, offsetof(struct options, field), 0, 0, 0, NULL, help},
        OPTIONS_FLAGS(ENTRY)
#undef ENTRY
#define ENTRY(field, help) {#field, OPTION_PATH, offsetof(struct options, field), 0, 0, 0, NULL, help},
          OPTIONS_PATHS(ENTRY)
#undef ENTRY
};

#define OPTION_COUNT (sizeof option_table / sizeof *option_table)

/* The name on the command line: "--" and the field with dashes. */
static void option_name(const struct option *option, char *name, size_t size) {
  snprintf(name, size, "--%s", option->field);
  for (char *c = name; *c; c++)
    if (*c == '_')
      *c = '-';
}

static void store(struct options *o, const struct option *option, double value) {
  char *field = (char *)o + option->offset;
  if (option->type == OPTION_SIZE)
    *(size_t *)field = (size_t)value;
  else
    *(float *)field = (float)value;
}

/* The index of a word in a list such as "fsdp|ddp"; -1 where it is none of them. */
static int index_in(const char *choices, const char *word) {
  size_t length = strlen(word);
  for (int index = 0;; index++) {
    size_t span = strcspn(choices, "|");
    if (span == length && strncmp(choices, word, length) == 0)
      return index;
    if (!choices[span])
      return -1;
    choices += span + 1;
  }
}

static void parse_value(struct options *o, const struct option *option, const char *name, const char *text) {
  if (option->type == OPTION_CHOICE) {
    int index = index_in(option->choices, text);
    if (index < 0)
      fail(2, "%s %s: expected one of %s", name, text, option->choices);
    *(int *)((char *)o + option->offset) = index;
    return;
  }
  if (option->type == OPTION_PATH) {
    *(const char **)((char *)o + option->offset) = text;
    return;
  }
  char *end;
  errno = 0;
  /* Whole numbers up to 2^32 are exact in a double; digits alone keep out "1e3", "0x10" and "nan". */
  bool well_formed = option->type == OPTION_SIZE ? strspn(text, "0123456789") == strlen(text) : true;
  double value = strtod(text, &end);
  if (!well_formed || end == text || *end || errno || !(value >= option->least && value <= option->most))
    fail(2, "%s %s: expected %s from %.10g to %.10g", name, text,
         option->type == OPTION_SIZE ? "a whole number" : "a number", option->least, option->most);
  store(o, option, value);
}

static void print_help(void) {
  printf("usage: train_gpt [OPTION VALUE]...\n"
         "Trains a small GPT over NCCL, fully sharded or replicated. Ranks come from RANK, WORLD_SIZE,\n"
         "MASTER_ADDR and MASTER_PORT, as torchrun sets them; without them there is one rank.\n\n");
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    const struct option *option = &option_table[i];
    char name[64];
    option_name(option, name, sizeof name);
    static const char *const values[] = {
      [OPTION_SIZE] = "N", [OPTION_REAL] = "N", [OPTION_CHOICE] = "NAME", [OPTION_FLAG] = "", [OPTION_PATH] = "FILE"};
    printf("  %-18s %-5s %s", name, values[option->type], option->help);
    if (option->type == OPTION_CHOICE)
      printf(" (%s; the first)", option->choices);
    else if (option->type == OPTION_SIZE || option->type == OPTION_REAL)
      printf(" (%.10g)", option->fallback);
    printf("\n");
  }
  printf("  %-18s %-5s files to learn from, one after another (those in %s, or else texts of tagc)\n", "--text",
         "FILE...", TEXT_DEFAULT_FOLDER);
  printf("  %-18s %-5s print this and end\n", "--help", "");
}

static const struct option *find_option(const char *argument) {
  char now[64];
  if (strncmp(argument, "--gather-", strlen("--gather-")) == 0) {
    snprintf(now, sizeof now, "--all%s", argument + 2);
    fprintf(stderr, "train_gpt: %s is called %s now\n", argument, now);
    argument = now;
  }
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    char name[64];
    option_name(&option_table[i], name, sizeof name);
    if (strcmp(name, argument) == 0)
      return &option_table[i];
  }
  return NULL;
}

static void check_together(const struct options *o) {
  if (o->hidden % o->heads)
    fail(2, "--hidden %zu: expected a multiple of --heads, which is %zu", o->hidden, o->heads);
  if (o->vocabulary && o->vocabulary <= VOCABULARY_BYTES)
    fail(2, "--vocabulary %zu: expected 0, or more than the %d bytes", o->vocabulary, VOCABULARY_BYTES);
  if (o->parallel == PARALLEL_DDP && (o->allgather_type != ALLGATHER_FP32 || o->allgather_in_place))
    fail(2, "%s goes with --parallel fsdp only: ddp gathers nothing",
         o->allgather_in_place ? "--allgather-in-place" : "--allgather-type");
  if (o->checkpoint && o->steps >= (size_t)1 << 24)
    fail(2, "--steps %zu: expected less than %zu with --checkpoint", o->steps, (size_t)1 << 24);
  if (o->skip_timing >= o->steps)
    fail(2, "--skip-timing %zu: expected less than --steps, which is %zu", o->skip_timing, o->steps);
}

struct options options_parse(int argc, char **argv) {
  struct options o = {0};
  for (size_t i = 0; i < OPTION_COUNT; i++)
    if (option_table[i].type == OPTION_SIZE || option_table[i].type == OPTION_REAL)
      store(&o, &option_table[i], option_table[i].fallback);
  o.text = calloc((size_t)argc + 1, sizeof *o.text);
  if (!o.text)
    fail(1, "no memory");
  for (int i = 1; i < argc; i++) {
    const struct option *option = find_option(argv[i]);
    if (option && option->type == OPTION_FLAG) {
      *(bool *)((char *)&o + option->offset) = true;
    } else if (option) {
      if (i + 1 == argc)
        fail(2, "%s needs a value: %s", argv[i], option->help);
      parse_value(&o, option, argv[i], argv[i + 1]);
      i++;
    } else if (strcmp(argv[i], "--text") == 0) {
      if (i + 1 == argc || strncmp(argv[i + 1], "--", 2) == 0)
        fail(2, "--text needs at least one file");
      while (i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0)
        o.text[o.ntext++] = argv[++i];
    } else if (strcmp(argv[i], "--help") == 0) {
      print_help();
      check_output();
      exit(0);
    } else {
      fail(2, "unknown option %s; --help lists what there is", argv[i]);
    }
  }
  check_together(&o);
  return o;
}

struct options options_numbers(const struct options *o) {
  struct options numbers = {0};
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    static const size_t sizes[] = {[OPTION_SIZE] = sizeof(size_t),
                                   [OPTION_REAL] = sizeof(float),
                                   [OPTION_CHOICE] = sizeof(int),
                                   [OPTION_FLAG] = sizeof(bool),
                                   [OPTION_PATH] = 0};
    const struct option *option = &option_table[i];
    memcpy((char *)&numbers + option->offset, (const char *)o + option->offset, sizes[option->type]);
  }
  return numbers;
}

/* The value as the command line has it. */
static void print_value(const struct options *o, const struct option *option, char *value, size_t size) {
  const char *field = (const char *)o + option->offset, *choice = option->choices;
  if (option->type == OPTION_SIZE) {
    snprintf(value, size, "%zu", *(const size_t *)field);
  } else if (option->type == OPTION_REAL) {
    snprintf(value, size, "%.9g", (double)*(const float *)field);
  } else if (option->type == OPTION_CHOICE) {
    for (int i = *(const int *)field; i > 0; i--)
      choice = strchr(choice, '|') + 1;
    snprintf(value, size, "%.*s", (int)strcspn(choice, "|"), choice);
  } else {
    snprintf(value, size, "%s", option->type == OPTION_FLAG && *(const bool *)field ? "on" : "off");
  }
}

void options_check_equal(const struct options *old, const struct options *now, const char *name) {
  static const char *const free_to_change[] = {"eval_every",  "eval_sequences",   "print_every",
                                               "skip_timing", "checkpoint_every", "threads"};
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    const struct option *option = &option_table[i];
    bool depends = option->type != OPTION_PATH;
    for (size_t k = 0; k < sizeof free_to_change / sizeof *free_to_change; k++)
      depends = depends && strcmp(option->field, free_to_change[k]) != 0;
    char was[32], is[32], argument[64];
    print_value(old, option, was, sizeof was);
    print_value(now, option, is, sizeof is);
    option_name(option, argument, sizeof argument);
    if (depends && strcmp(was, is) != 0)
      fail(2, "%s %s: expected %s, as in the checkpoint %s", argument, is, was, name);
  }
}
