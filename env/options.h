/* SPDX-License-Identifier: BSD-3-Clause
 * Options: everything that comes from TAGC_* environment variables. Only this folder calls getenv().
 *
 * Read once, at the first NCCL call, then frozen: any thread may read the struct without a lock.
 */
#ifndef ENV_OPTIONS_H
#define ENV_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Indices of the choices, in the order of options.def. */
enum tagc_mode { TAGC_MODE_OFF, TAGC_MODE_OBSERVE, TAGC_MODE_COMPRESS, TAGC_MODE_AB };
enum tagc_residual_choice {
  TAGC_RESIDUAL_AUTO,
  TAGC_RESIDUAL_NONE,
  TAGC_RESIDUAL_FP32,
  TAGC_RESIDUAL_BF16,
  TAGC_RESIDUAL_INT8
};
enum tagc_rounding { TAGC_ROUNDING_NEAREST, TAGC_ROUNDING_STOCHASTIC };
enum tagc_sums { TAGC_SUMS_AUTO, TAGC_SUMS_EXACT };
enum tagc_scope { TAGC_SCOPE_AUTO, TAGC_SCOPE_FLAT, TAGC_SCOPE_INTER };
enum tagc_assume { TAGC_ASSUME_NOTHING, TAGC_ASSUME_GRADIENTS };
enum tagc_allgather_choice {
  TAGC_ALLGATHER_OFF,
  TAGC_ALLGATHER_BF16,
  TAGC_ALLGATHER_Q8,
  TAGC_ALLGATHER_LOSSLESS,
  TAGC_ALLGATHER_DELTA,
  TAGC_ALLGATHER_EXACT,
  TAGC_ALLGATHER_AUTO
};
enum tagc_broadcast_choices { TAGC_BROADCAST_OFF, TAGC_BROADCAST_EXACT };
enum tagc_profiler_when { TAGC_PROFILER_AUTO, TAGC_PROFILER_OFF, TAGC_PROFILER_ON };
enum tagc_report_when { TAGC_REPORT_NEVER, TAGC_REPORT_ALWAYS, TAGC_REPORT_AUTO };

/* Indices of the options, in the order of options.def: bits of tagc_options.given. */
enum tagc_option_index {
#define CHOICE(field, ...) TAGC_OPTION_##field,
#define NUMBER(field, ...) TAGC_OPTION_##field,
#define BYTES(field, ...) TAGC_OPTION_##field,
#define SCHEDULE(field, ...) TAGC_OPTION_##field,
#define BUDGET(field, ...) TAGC_OPTION_##field,
#define TEXT(field, ...) TAGC_OPTION_##field,
#include "env/options.def"
#undef CHOICE
#undef NUMBER
#undef BYTES
#undef SCHEDULE
#undef BUDGET
#undef TEXT
  TAGC_OPTION_COUNT
};

/* A target for the choice of codecs: exposed communication per step in nanoseconds, or the relative L2 error of a
 * step's gradients in parts per million. */
enum tagc_budget_kind { TAGC_BUDGET_NONE, TAGC_BUDGET_TIME, TAGC_BUDGET_ERROR };
struct tagc_budget {
  enum tagc_budget_kind kind;
  uint64_t amount;
};
#define TAGC_BUDGET_MOST_NS (UINT64_C(3600) * 1000000000)
#define TAGC_BUDGET_MOST_PPM UINT64_C(1000000)

/* As users write it, in the largest unit with at most three decimals; "" for none. Returns `text`. */
const char *tagc_budget_text(const struct tagc_budget *budget, char text[32]);

/* A fraction that changes at cycles of a communicator: parts per million, and the first cycle that has them. */
enum { TAGC_STAGES = 8, TAGC_SCHEDULE_LAST = 1000000 /* as the most of TAGC_WARMUP */ };
struct tagc_schedule {
  uint32_t count; /* of stages; 1: it never changes */
  uint32_t ppm[TAGC_STAGES];
  uint32_t from[TAGC_STAGES]; /* growing; that of the first stage is 1 */
};

/* The stage of a cycle; cycles are counted from 1. */
static inline uint32_t tagc_schedule_stage(const struct tagc_schedule *schedule, uint64_t cycle) {
  uint32_t stage = 0;
  while (stage + 1 < schedule->count && schedule->from[stage + 1] <= cycle)
    stage++;
  return stage;
}

/* As users write it: 0.5,0.8@200. Returns `text`. */
enum { TAGC_SCHEDULE_TEXT = 160 };
const char *tagc_schedule_text(const struct tagc_schedule *schedule, char text[TAGC_SCHEDULE_TEXT]);
/* Parts per million, without trailing zeros: 0.8. Returns `text`. */
const char *tagc_fraction_text(uint32_t ppm, char text[24]);

struct tagc_options {
#define CHOICE(field, ...) int field;
#define NUMBER(field, ...) uint64_t field;
#define BYTES(field, ...) uint64_t field;
#define SCHEDULE(field, ...) struct tagc_schedule field;
#define BUDGET(field, ...) struct tagc_budget field;
#define TEXT(field, ...) const char *field;
#include "env/options.def"
#undef CHOICE
#undef NUMBER
#undef BYTES
#undef SCHEDULE
#undef BUDGET
#undef TEXT
  uint64_t given;    /* bit i: the user set option i */
  int nccl_blocking; /* NCCL_COMM_BLOCKING: 0 or 1 overrides every communicator's configuration; else -1 */
  bool bad;          /* a value was refused (and logged): this process must pass everything through */
};

static inline bool tagc_option_given(const struct tagc_options *o, enum tagc_option_index i) {
  return o->given >> i & 1;
}

/* True if measurements choose a codec for every slot. */
static inline bool tagc_options_auto(const struct tagc_options *o) { return strcmp(o->codec, "auto") == 0; }

/* True if TAGC_LAYERMAP asks for PyTorch. */
static inline bool tagc_options_ask_torch(const struct tagc_options *o) { return strcmp(o->layermap, "torch") == 0; }

/* True if TAGC_LAYERMAP names no file: it is not set, or a word. */
static inline bool tagc_options_have_no_map(const struct tagc_options *o) {
  return !*o->layermap || tagc_options_ask_torch(o) || strcmp(o->layermap, "infer") == 0;
}

/* True if TAGC_BUDGET chooses the codecs. It has nothing to choose if TAGC_CODEC names one. */
static inline bool tagc_options_has_budget(const struct tagc_options *o) {
  return o->budget.kind != TAGC_BUDGET_NONE && tagc_options_auto(o);
}

/* A line of options.def. */
enum tagc_option_kind {
  TAGC_OPTION_CHOICE,
  TAGC_OPTION_NUMBER,
  TAGC_OPTION_BYTES,
  TAGC_OPTION_SCHEDULE,
  TAGC_OPTION_BUDGET,
  TAGC_OPTION_TEXT,
  TAGC_OPTION_INPUT,
  TAGC_OPTION_OUTPUT
};
struct tagc_option {
  const char *variable;
  enum tagc_option_kind kind;
  size_t offset;             /* in struct tagc_options */
  uint64_t min, max, preset; /* choices: the index; schedules: parts per million */
  const char *text;          /* CHOICE: "a|b|c"; TEXT, INPUT, OUTPUT: the default */
  const char *help;
};
extern const struct tagc_option tagc_option_table[TAGC_OPTION_COUNT];

/* Options in which ranks may differ: output, waiting times, paths. The library compares the map's contents itself. */
bool tagc_option_is_local(enum tagc_option_index i);

/* The default of an option as users write it. Returns `text`. */
enum { TAGC_OPTION_PRESET = 80 };
const char *tagc_option_preset(const struct tagc_option *option, char text[TAGC_OPTION_PRESET]);

/* The option with this present or former name (traces of earlier versions have those); or NULL. */
const struct tagc_option *tagc_option_find(const char *variable);

/* Former names of options; NULL ends the list. */
struct tagc_option_rename {
  const char *old;
  enum tagc_option_index option;
};
extern const struct tagc_option_rename tagc_option_renames[];

/* The option that once had this name, or NULL. An old name sets the option, unless the environment sets the present
 * name, too: then *ignored is true. `why` describes both cases. */
const struct tagc_option *tagc_option_renamed(const char *old, char *const *environment, bool *ignored, char *why,
                                              size_t size);

void tagc_options_default(struct tagc_options *options);

/* Sets one option from text. On failure (also an unknown name) returns false and leaves *options alone; `why`, at most
 * `size` bytes, names the variable, the value and what is accepted. Text is not copied: it must outlive *options. */
bool tagc_options_set(struct tagc_options *options, const char *variable, const char *value, char *why, size_t size);

/* Is this TAGC_ name (its first `length` bytes) no option, but a message between programs of this project? */
bool tagc_options_is_internal(const char *variable, size_t length);

/* As tagc_options_set(), for a string of an environment, "NAME=value". `why` is a warning for RENAMED (old name, option
 * set) and IGNORED (unknown TAGC_ name, or an old one beside the present one), and an error for REFUSED. */
enum tagc_options_taken { TAGC_TAKEN_NOT_OURS, TAGC_TAKEN, TAGC_TAKEN_RENAMED, TAGC_TAKEN_IGNORED, TAGC_TAKEN_REFUSED };
enum tagc_options_taken tagc_options_take(struct tagc_options *options, char *const *environment, const char *variable,
                                          char *why, size_t size);

/* Fills *options from an environment (as `environ`: NAME=value strings, NULL-terminated). Logs refused values and sets
 * options->bad. Warns of unknown TAGC_ names (with the nearest known one) and of old names (with the present one). */
void tagc_options_read(struct tagc_options *options, char *const *environment);

/* As tagc_options_read(), from the environment of the process. Text is copied: programs may overwrite their
 * environment. A process with more rights than its caller (setuid, setgid, file capabilities) has the caller's
 * environment: then no TAGC_ variable counts, options->bad is set, and the log says so. */
void tagc_options_read_process(struct tagc_options *options);

/* Writes the options that are not local as lines of NAME=value with a final NUL. Cuts a long text, adding a hash.
 * False: over `size` bytes. */
bool tagc_options_describe(const struct tagc_options *options, char *text, size_t size);
#define TAGC_OPTIONS_TEXT 3500 /* always suffices */

/* As tagc_options_describe(), with all options. */
bool tagc_options_list(const struct tagc_options *options, char *text, size_t size);
#define TAGC_OPTIONS_LIST 5000 /* likewise */

/* The Levenshtein distance of two short names. */
size_t tagc_options_distance(const char *a, const char *b);

/* The known name nearest to `name` by edit distance; never NULL. */
const char *tagc_options_nearest(const char *name);

#endif
