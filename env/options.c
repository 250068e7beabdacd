/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/options.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "env/hash.h"
#include "env/host.h"
#include "env/log.h"
#include "env/mark.h"
#include "env/units.h"

#define FIELD(field) offsetof(struct tagc_options, field)
const struct tagc_option tagc_option_table[TAGC_OPTION_COUNT] = {
#define CHOICE(field, variable, preset, choices, help) \
  {#variable, TAGC_OPTION_CHOICE, FIELD(field), 0, 0, preset, choices, help},
#define NUMBER(field, variable, preset, min, max, help) \
  {#variable, TAGC_OPTION_NUMBER, FIELD(field), min, max, preset, NULL, help},
#define BYTES(field, variable, preset, max, help) \
  {#variable, TAGC_OPTION_BYTES, FIELD(field), 0, max, preset, NULL, help},
#define SCHEDULE(field, variable, preset, max, help) \
  {#variable, TAGC_OPTION_SCHEDULE, FIELD(field), 0, max, preset, NULL, help},
#define BUDGET(field, variable, help) {#variable, TAGC_OPTION_BUDGET, FIELD(field), 0, 0, 0, NULL, help},
#define TEXT(field, variable, preset, help) {#variable, TAGC_OPTION_TEXT, FIELD(field), 0, 0, 0, preset, help},
#define INPUT(field, variable, help) {#variable, TAGC_OPTION_INPUT, FIELD(field), 0, 0, 0, "", help},
#define OUTPUT(field, variable, help) {#variable, TAGC_OPTION_OUTPUT, FIELD(field), 0, 0, 0, "", help},
#include "env/options.def"
#undef CHOICE
#undef NUMBER
#undef BYTES
#undef SCHEDULE
#undef BUDGET
#undef TEXT
};
_Static_assert(TAGC_OPTION_COUNT <= 64, "struct tagc_options.given has 64 bits");

static bool is_text(const struct tagc_option *o) { return o->kind >= TAGC_OPTION_TEXT; }

/* All of these are still accepted. A further renamed option is one more row. */
const struct tagc_option_rename tagc_option_renames[] = {
  {"TAGC_GATHER", TAGC_OPTION_allgather}, {"TAGC_GATHER_MAX", TAGC_OPTION_allgather_max}, {NULL, TAGC_OPTION_COUNT}};

const struct tagc_option *tagc_option_find(const char *variable) {
  for (size_t i = 0; i < TAGC_OPTION_COUNT; i++)
    if (strcmp(tagc_option_table[i].variable, variable) == 0)
      return &tagc_option_table[i];
  for (const struct tagc_option_rename *r = tagc_option_renames; r->old; r++)
    if (strcmp(r->old, variable) == 0)
      return &tagc_option_table[r->option];
  return NULL;
}

const struct tagc_option *tagc_option_renamed(const char *old, char *const *environment, bool *ignored, char *why,
                                              size_t size) {
  const struct tagc_option *option = tagc_option_find(old);
  if (!option || strcmp(option->variable, old) == 0)
    return NULL;
  const size_t length = strlen(option->variable);
  *ignored = false;
  for (char *const *e = environment; e && *e && !*ignored; e++)
    *ignored = strncmp(*e, option->variable, length) == 0 && (*e)[length] == '=';
  snprintf(why, size, "%s is called %s now%s", old, option->variable,
           *ignored ? ", which is set, too; the old name is ignored" : "");
  return option;
}

/* The value of an option: one member, by its kind. The index of a choice is a number. */
struct option_value {
  uint64_t number;
  struct tagc_schedule schedule;
  struct tagc_budget budget;
  const char *text;
};

static struct tagc_schedule constant_schedule(uint64_t ppm) {
  return (struct tagc_schedule){.count = 1, .ppm = {(uint32_t)ppm}, .from = {1}};
}

static void store_option(struct tagc_options *options, const struct tagc_option *o, const struct option_value *value) {
  char *at = (char *)options + o->offset;
  switch (o->kind) {
  case TAGC_OPTION_CHOICE: *(int *)at = (int)value->number; break;
  case TAGC_OPTION_NUMBER:
  case TAGC_OPTION_BYTES: *(uint64_t *)at = value->number; break;
  case TAGC_OPTION_SCHEDULE: *(struct tagc_schedule *)at = value->schedule; break;
  case TAGC_OPTION_BUDGET: *(struct tagc_budget *)at = value->budget; break;
  case TAGC_OPTION_TEXT:
  case TAGC_OPTION_INPUT:
  case TAGC_OPTION_OUTPUT: *(const char **)at = value->text; break;
  }
}

void tagc_options_default(struct tagc_options *options) {
  memset(options, 0, sizeof *options);
  options->nccl_blocking = -1;
  for (const struct tagc_option *o = tagc_option_table; o < tagc_option_table + TAGC_OPTION_COUNT; o++)
    store_option(
      options, o,
      &(struct option_value){.number = o->preset, .schedule = constant_schedule(o->preset), .text = o->text});
}

static bool parse_choice(const char *choices, const char *value, uint64_t *out) {
  size_t length = strlen(value);
  uint64_t index = 0;
  for (const char *c = choices;; c++, index++) {
    size_t n = strcspn(c, "|");
    if (n == length && memcmp(c, value, n) == 0) {
      *out = index;
      return true;
    }
    c += n;
    if (!*c)
      return false;
  }
}

static bool parse_number(const char *value, bool bytes, uint64_t *out) {
  const char *end;
  return tagc_units_read(value, bytes, out, &end) && !*end;
}

/* Reads decimal digits with an optional point, as 0.8, .95 or 12, in units of 1 / `one`; *end points behind them.
 * False: a number finer than the unit, or a whole part above `most`. Uses no locale: all ranks read the same. */
static bool parse_decimal(const char *value, uint64_t one, uint64_t most, uint64_t *out, const char **end) {
  uint64_t amount = 0;
  const char *c = value;
  if (!isdigit((unsigned char)c[0]) && !(c[0] == '.' && isdigit((unsigned char)c[1])))
    return false;
  for (; isdigit((unsigned char)*c); c++) {
    amount = amount * 10 + (uint64_t)(*c - '0') * one;
    if (amount > most)
      return false;
  }
  if (*c == '.')
    for (c++; isdigit((unsigned char)*c); c++) {
      one /= 10;
      if (!one && *c != '0')
        return false;
      amount += one * (uint64_t)(*c - '0');
    }
  *out = amount;
  *end = c;
  return true;
}

/* A fraction with at most six decimals, then others with the cycles from which they hold. */
static bool parse_schedule(const char *value, uint64_t most, struct tagc_schedule *out) {
  *out = (struct tagc_schedule){.from = {1}};
  for (const char *c = value;; c++) {
    const uint32_t i = out->count;
    uint64_t ppm, cycle = 1;
    if (i == TAGC_STAGES || !parse_decimal(c, 1000000, most, &ppm, &c) || ppm > most)
      return false;
    if (i && (*c != '@' || !tagc_units_read(c + 1, false, &cycle, &c) || cycle > TAGC_SCHEDULE_LAST ||
              cycle <= out->from[i - 1]))
      return false;
    out->ppm[i] = (uint32_t)ppm;
    out->from[i] = (uint32_t)cycle;
    out->count++;
    if (*c != ',')
      return !*c;
  }
}

/* A decimal number with its unit: 5ms, 250us, 0.02s, 2%. Exact to a nanosecond, or to a millionth: refuses anything
 * finer, so that all ranks read the same. "": none. */
static bool parse_budget(const char *value, struct tagc_budget *out) {
  static const struct {
    const char *name;
    uint64_t one, most;
    enum tagc_budget_kind kind;
  } units[] = {
    {"us", 1000, TAGC_BUDGET_MOST_NS, TAGC_BUDGET_TIME},
    {"ms", 1000000, TAGC_BUDGET_MOST_NS, TAGC_BUDGET_TIME},
    {"s", 1000000000, TAGC_BUDGET_MOST_NS, TAGC_BUDGET_TIME},
    {"%", 10000, TAGC_BUDGET_MOST_PPM, TAGC_BUDGET_ERROR},
  };
  const size_t digits = strspn(value, "0123456789."), count = sizeof units / sizeof *units;
  size_t unit = 0;
  *out = (struct tagc_budget){TAGC_BUDGET_NONE, 0};
  if (!*value)
    return true;
  while (unit < count && strcmp(value + digits, units[unit].name) != 0)
    unit++;
  uint64_t amount;
  const char *end;
  if (unit == count || !parse_decimal(value, units[unit].one, units[unit].most, &amount, &end))
    return false;
  *out = (struct tagc_budget){units[unit].kind, amount};
  return end == value + digits && amount && amount <= units[unit].most;
}

static void explain_accepted(const struct tagc_option *o, char *accepted, size_t size) {
  switch (o->kind) {
  case TAGC_OPTION_CHOICE: snprintf(accepted, size, "one of %s", o->text); break;
  case TAGC_OPTION_NUMBER:
    snprintf(accepted, size, "a whole number from %" PRIu64 " to %" PRIu64, o->min, o->max);
    break;
  case TAGC_OPTION_BYTES:
    snprintf(accepted, size, "bytes from 0 to %" PRIu64 "G, as 65536, 64K, 1M or 2G", o->max >> 30);
    break;
  case TAGC_OPTION_SCHEDULE:
    snprintf(accepted, size,
             "a fraction from 0 to 0.%06" PRIu64 " with at most six decimals, or up to %d of them with growing cycles "
             "from 2 to %d, as 0.5,0.8@200,0.95@1000",
             o->max, TAGC_STAGES, TAGC_SCHEDULE_LAST);
    break;
  case TAGC_OPTION_BUDGET:
    snprintf(
      accepted, size,
      "a time above 0 up to an hour, as 5ms, 250us or 0.02s, or an error above 0%% up to 100%%, as 2%% or 0.5%%");
    break;
  case TAGC_OPTION_TEXT:
  case TAGC_OPTION_INPUT:
  case TAGC_OPTION_OUTPUT: snprintf(accepted, size, "text"); break;
  }
}

bool tagc_options_set(struct tagc_options *options, const char *variable, const char *value, char *why, size_t size) {
  const struct tagc_option *o = tagc_option_find(variable);
  if (!o) {
    snprintf(why, size, "%s is not an option (did you mean %s?)", variable, tagc_options_nearest(variable));
    return false;
  }
  struct option_value to = {.text = value};
  bool good = true;
  switch (o->kind) {
  case TAGC_OPTION_CHOICE: good = parse_choice(o->text, value, &to.number); break;
  case TAGC_OPTION_NUMBER: good = parse_number(value, false, &to.number); break;
  case TAGC_OPTION_BYTES: good = parse_number(value, true, &to.number); break;
  case TAGC_OPTION_SCHEDULE: good = parse_schedule(value, o->max, &to.schedule); break;
  case TAGC_OPTION_BUDGET: good = parse_budget(value, &to.budget); break;
  case TAGC_OPTION_TEXT:
  case TAGC_OPTION_INPUT:
  case TAGC_OPTION_OUTPUT: break;
  }
  if (good && (o->kind == TAGC_OPTION_NUMBER || o->kind == TAGC_OPTION_BYTES))
    good = to.number >= o->min && to.number <= o->max;
  if (!good) {
    char accepted[180];
    explain_accepted(o, accepted, sizeof accepted);
    snprintf(why, size, "%s=%.80s: not understood; accepted is %s", variable, value, accepted);
    return false;
  }
  store_option(options, o, &to);
  options->given |= UINT64_C(1) << (o - tagc_option_table);
  return true;
}

/* Reads its variable as NCCL does: text that is no number is 0, and numbers but 0 and 1 decide nothing. */
static void read_nccl(struct tagc_options *options, const char *variable) {
  static const char name[] = "NCCL_COMM_BLOCKING=";
  const char *value = variable + sizeof name - 1;
  if (strncmp(variable, name, sizeof name - 1) != 0 || !*value)
    return;
  long long number = strtoll(value, NULL, 0);
  options->nccl_blocking = number == 0 || number == 1 ? (int)number : -1;
}

static bool is_called(const char *name, const char *variable, size_t length) {
  return length == strlen(name) && strncmp(variable, name, length) == 0;
}

bool tagc_options_is_internal(const char *variable, size_t length) {
  return is_called(TAGC_HOST_LACKS, variable, length) || is_called(TAGC_MARK, variable, length);
}

enum tagc_options_taken tagc_options_take(struct tagc_options *options, char *const *environment, const char *variable,
                                          char *why, size_t size) {
  const char *equals = strchr(variable, '=');
  char name[64];
  bool ignored = false;
  if (strncmp(variable, "TAGC_", 5) != 0 || !equals)
    return TAGC_TAKEN_NOT_OURS;
  size_t length = (size_t)(equals - variable);
  if (tagc_options_is_internal(variable, length))
    return TAGC_TAKEN_NOT_OURS;
  snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), variable);
  const struct tagc_option *renamed = tagc_option_renamed(name, environment, &ignored, why, size);
  if (ignored)
    return TAGC_TAKEN_IGNORED;
  if (!renamed && (length >= sizeof name || !tagc_option_find(name))) {
    snprintf(why, size, "%s is not an option (did you mean %s?); it is ignored", name, tagc_options_nearest(name));
    return TAGC_TAKEN_IGNORED;
  }
  if (!tagc_options_set(options, renamed ? renamed->variable : name, equals + 1, why, size))
    return TAGC_TAKEN_REFUSED;
  return renamed ? TAGC_TAKEN_RENAMED : TAGC_TAKEN;
}

void tagc_options_read(struct tagc_options *options, char *const *environment) {
  char why[320];
  tagc_options_default(options);
  for (char *const *e = environment; e && *e; e++) {
    read_nccl(options, *e);
    switch (tagc_options_take(options, environment, *e, why, sizeof why)) {
    case TAGC_TAKEN_NOT_OURS:
    case TAGC_TAKEN: break;
    case TAGC_TAKEN_RENAMED:
    case TAGC_TAKEN_IGNORED: tagc_log(TAGC_LOG_WARN, "env", "%s", why); break;
    case TAGC_TAKEN_REFUSED:
      options->bad = true;
      tagc_log(TAGC_LOG_ERROR, "env", "%s; this process passes every call through", why);
      break;
    }
  }
}

/* Nobody may steer a program with more rights than his own: TAGC_NCCL names a library to run. Keeps nccl_blocking. */
static void distrust(struct tagc_options *options) {
  const int blocking = options->nccl_blocking;
  tagc_options_default(options);
  options->nccl_blocking = blocking;
  options->bad = true;
  tagc_log(TAGC_LOG_WARN, "env",
           "this process runs with more rights than its caller: TAGC_* is ignored, and every call "
           "passes through");
}

void tagc_options_read_process(struct tagc_options *options) {
  extern char **environ;
  tagc_options_read(options, environ);
  if (getauxval(AT_SECURE)) {
    distrust(options);
    return;
  }
  for (size_t i = 0; i < TAGC_OPTION_COUNT; i++) {
    const char **text = (const char **)((char *)options + tagc_option_table[i].offset);
    const char *copy =
      is_text(&tagc_option_table[i]) && tagc_option_given(options, (enum tagc_option_index)i) ? strdup(*text) : NULL;
    if (copy)
      *text = copy; /* lives as long as the process */
  }
}

/* Prints the i-th of "a|b|c". */
static void print_option_choice(const char *choices, uint64_t i, char *text, size_t size) {
  while (i-- > 0)
    choices += strcspn(choices, "|") + 1;
  snprintf(text, size, "%.*s", (int)strcspn(choices, "|"), choices);
}

const char *tagc_fraction_text(uint32_t ppm, char text[24]) {
  int n = snprintf(text, 24, "%" PRIu32 ".%06" PRIu32, ppm / 1000000, ppm % 1000000);
  while (text[n - 1] == '0' && text[n - 2] != '.')
    text[--n] = '\0';
  return text;
}

const char *tagc_schedule_text(const struct tagc_schedule *schedule, char text[TAGC_SCHEDULE_TEXT]) {
  char fraction[24];
  int n = snprintf(text, TAGC_SCHEDULE_TEXT, "%s", tagc_fraction_text(schedule->ppm[0], fraction));
  for (uint32_t i = 1; i < schedule->count; i++)
    n += snprintf(text + n, TAGC_SCHEDULE_TEXT - (size_t)n, ",%s@%" PRIu32,
                  tagc_fraction_text(schedule->ppm[i], fraction), schedule->from[i]);
  return text;
}

const char *tagc_budget_text(const struct tagc_budget *budget, char text[32]) {
  static const struct {
    const char *name;
    uint64_t one;
  } units[] = {{"s", 1000000000}, {"ms", 1000000}, {"us", 1000}};
  size_t unit = 0;
  uint64_t one = 10000;
  const char *name = "%";
  if (budget->kind == TAGC_BUDGET_TIME) {
    while (unit < 2 && (budget->amount < units[unit].one || budget->amount % (units[unit].one / 1000)))
      unit++;
    one = units[unit].one;
    name = units[unit].name;
  }
  if (budget->kind == TAGC_BUDGET_NONE)
    return strcpy(text, "");
  const int places = one == 10000 ? 4 : 3;
  int n = snprintf(text, 32, "%" PRIu64 ".%0*" PRIu64, budget->amount / one, places,
                   budget->amount % one / (one > 10000 ? one / 1000 : 1));
  while (text[n - 1] == '0')
    n--;
  n -= text[n - 1] == '.';
  snprintf(text + n, 32 - (size_t)n, "%s", name);
  return text;
}

/* Prints the value as text. A text longer than a message line is cut and gets its hash. */
static void print_value(const struct tagc_options *options, const struct tagc_option *o, char *text, size_t size) {
  const char *at = (const char *)options + o->offset;
  switch (o->kind) {
  case TAGC_OPTION_CHOICE: print_option_choice(o->text, (uint64_t) * (const int *)at, text, size); break;
  case TAGC_OPTION_NUMBER:
  case TAGC_OPTION_BYTES: snprintf(text, size, "%" PRIu64, *(const uint64_t *)at); break;
  case TAGC_OPTION_SCHEDULE: {
    char schedule[TAGC_SCHEDULE_TEXT];
    snprintf(text, size, "%s", tagc_schedule_text((const struct tagc_schedule *)at, schedule));
    break;
  }
  case TAGC_OPTION_BUDGET: {
    char budget[32];
    snprintf(text, size, "%s", tagc_budget_text((const struct tagc_budget *)at, budget));
    break;
  }
  case TAGC_OPTION_TEXT:
  case TAGC_OPTION_INPUT:
  case TAGC_OPTION_OUTPUT: {
    const char *value = *(const char *const *)at;
    if (strlen(value) < 80 && !strchr(value, '\n'))
      snprintf(text, size, "%s", value);
    else
      snprintf(text, size, "%.*s...#%016" PRIx64, (int)strcspn(value, "\n") < 40 ? (int)strcspn(value, "\n") : 40,
               value, tagc_hash_add(TAGC_HASH_START, value, strlen(value)));
    break;
  }
  }
}

const char *tagc_option_preset(const struct tagc_option *o, char text[TAGC_OPTION_PRESET]) {
  uint64_t number = o->preset;
  int unit = 0;
  switch (o->kind) {
  case TAGC_OPTION_CHOICE: print_option_choice(o->text, number, text, TAGC_OPTION_PRESET); break;
  case TAGC_OPTION_NUMBER: snprintf(text, TAGC_OPTION_PRESET, "%" PRIu64, number); break;
  case TAGC_OPTION_BYTES:
    for (; unit < 3 && number && number % 1024 == 0; unit++)
      number /= 1024;
    snprintf(text, TAGC_OPTION_PRESET, "%" PRIu64 "%.*s", number, unit > 0, &" KMG"[unit]);
    break;
  case TAGC_OPTION_SCHEDULE: tagc_fraction_text((uint32_t)number, text); break;
  case TAGC_OPTION_BUDGET: *text = '\0'; break;
  case TAGC_OPTION_TEXT:
  case TAGC_OPTION_INPUT:
  case TAGC_OPTION_OUTPUT: snprintf(text, TAGC_OPTION_PRESET, "%s", o->text); break;
  }
  return text;
}

bool tagc_option_is_local(enum tagc_option_index i) {
  return i == TAGC_OPTION_report || i == TAGC_OPTION_log || i == TAGC_OPTION_nccl || i == TAGC_OPTION_agree_timeout ||
         i == TAGC_OPTION_torch_timeout || i == TAGC_OPTION_dump || i == TAGC_OPTION_dump_cycle ||
         i == TAGC_OPTION_layermap || i == TAGC_OPTION_calls || i == TAGC_OPTION_trace || i == TAGC_OPTION_profiler ||
         i == TAGC_OPTION_trace_buffer || i == TAGC_OPTION_trace_max || i == TAGC_OPTION_log_cycles ||
         i == TAGC_OPTION_metrics || i == TAGC_OPTION_metrics_cycles;
}

static bool describe_options(const struct tagc_options *options, bool all, char *text, size_t size) {
  size_t used = 0;
  for (size_t i = 0; i < TAGC_OPTION_COUNT; i++) {
    if (tagc_option_is_local((enum tagc_option_index)i) && !all)
      continue;
    char value[TAGC_SCHEDULE_TEXT];
    print_value(options, &tagc_option_table[i], value, sizeof value);
    int n = snprintf(text + used, size - used, "%s=%s\n", tagc_option_table[i].variable, value);
    if (n < 0 || (size_t)n >= size - used)
      return false;
    used += (size_t)n;
  }
  return true;
}

bool tagc_options_describe(const struct tagc_options *options, char *text, size_t size) {
  return describe_options(options, false, text, size);
}

bool tagc_options_list(const struct tagc_options *options, char *text, size_t size) {
  return describe_options(options, true, text, size);
}

size_t tagc_options_distance(const char *a, const char *b) {
  size_t row[64], length = strnlen(b, 63);
  for (size_t j = 0; j <= length; j++)
    row[j] = j;
  for (size_t i = 1; *a; a++, i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= length; j++) {
      size_t best = diagonal + (*a != b[j - 1]);
      diagonal = row[j];
      best = row[j] + 1 < best ? row[j] + 1 : best;
      row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
    }
  }
  return row[length];
}

const char *tagc_options_nearest(const char *name) {
  const char *nearest = tagc_option_table[0].variable;
  size_t least = SIZE_MAX;
  for (size_t i = 0; i < TAGC_OPTION_COUNT; i++) {
    size_t d = tagc_options_distance(name, tagc_option_table[i].variable);
    if (d < least) {
      least = d;
      nearest = tagc_option_table[i].variable;
    }
  }
  return nearest;
}
