/* SPDX-License-Identifier: BSD-3-Clause
 * env/options: every kind of option, good and bad values, unknown names, and the description that ranks compare.
 */
#include <string.h>

#include "env/log.h"
#include "env/options.h"
#include "tests/unit/tap.h"

static struct tagc_options o;
static char why[400];

static bool set(const char *name, const char *value) {
  why[0] = '\0';
  return tagc_options_set(&o, name, value, why, sizeof why);
}

static void good_values(void) {
  tagc_options_default(&o);
  ok(o.mode == TAGC_MODE_COMPRESS && o.sparsity.ppm[0] == 800000 && o.min_bytes == 1 << 20 && o.given == 0, "defaults");
  ok(set("TAGC_MODE", "ab") && o.mode == TAGC_MODE_AB, "TAGC_MODE=ab");
  ok(set("TAGC_MODE", "off") && o.mode == TAGC_MODE_OFF, "TAGC_MODE=off");
  ok(tagc_option_given(&o, TAGC_OPTION_mode) && !tagc_option_given(&o, TAGC_OPTION_ab), "what was given is known");
  ok(set("TAGC_MIN_BYTES", "64k") && o.min_bytes == 65536, "64k is 65536");
  ok(set("TAGC_MIN_BYTES", "2G") && o.min_bytes == UINT64_C(2) << 30, "2G");
  ok(set("TAGC_SPARSITY", "0.95") && o.sparsity.ppm[0] == 950000, "0.95");
  ok(set("TAGC_SPARSITY", ".999999") && o.sparsity.ppm[0] == 999999, ".999999");
  ok(set("TAGC_SPARSITY", "0") && o.sparsity.ppm[0] == 0, "0");
  ok(set("TAGC_SEED", "18446744073709551615") && o.seed == UINT64_MAX, "the largest seed");
  ok(set("TAGC_REPORT", "auto") && o.report == TAGC_REPORT_AUTO, "TAGC_REPORT=auto");
}

static bool budget(const char *value, enum tagc_budget_kind kind, uint64_t amount, const char *text) {
  char said[32];
  const bool good = set("TAGC_BUDGET", value);
  ok(good && o.budget.kind == kind && o.budget.amount == amount && strcmp(tagc_budget_text(&o.budget, said), text) == 0,
     "TAGC_BUDGET=%s is %llu of kind %d, %s%s", value, (unsigned long long)o.budget.amount, (int)o.budget.kind, said,
     why);
  return good;
}

static void budgets(void) {
  static const char *const bad[] = {
    "5",    "ms", "0ms",  "0%",  "-1ms",    "100.0001%", "101%", "3601s", "1.0000001ms", "0.00001%",
    "5 ms", "5m", "5msx", ".ms", "1.2.3ms", "1e3ms",     "0x1s", "nan%",  "5ms,2%",      "99999999999999999999s",
    "%",    "s",  "."};
  tagc_options_default(&o);
  budget("5ms", TAGC_BUDGET_TIME, 5000000, "5ms");
  budget("250us", TAGC_BUDGET_TIME, 250000, "250us");
  budget("0.02s", TAGC_BUDGET_TIME, 20000000, "20ms");
  budget("1.5s", TAGC_BUDGET_TIME, 1500000000, "1.5s");
  budget("0.0005ms", TAGC_BUDGET_TIME, 500, "0.5us");
  budget("1.00025ms", TAGC_BUDGET_TIME, 1000250, "1000.25us");
  budget("3600s", TAGC_BUDGET_TIME, TAGC_BUDGET_MOST_NS, "3600s");
  budget("2%", TAGC_BUDGET_ERROR, 20000, "2%");
  budget(".5%", TAGC_BUDGET_ERROR, 5000, "0.5%");
  budget("100%", TAGC_BUDGET_ERROR, 1000000, "100%");
  budget("0.0001%", TAGC_BUDGET_ERROR, 1, "0.0001%");
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const struct tagc_options before = o;
    ok(!set("TAGC_BUDGET", bad[i]) && strstr(why, "TAGC_BUDGET") && strstr(why, bad[i]) &&
         strstr(why, "as 5ms, 250us or 0.02s") && strstr(why, "2% or 0.5%") && memcmp(&before, &o, sizeof o) == 0,
       "refused: %s", why);
  }
  budget("", TAGC_BUDGET_NONE, 0, "");
}

static void schedule(const char *value, const char *text) {
  char said[TAGC_SCHEDULE_TEXT];
  ok(set("TAGC_SPARSITY", value) && strcmp(tagc_schedule_text(&o.sparsity, said), text) == 0,
     "TAGC_SPARSITY=%s is %s%s", value, said, why);
}

static void schedules(void) {
  static const char *const bad[] = {"0.5,",
                                    "0.5,0.8",
                                    "0.5,0.8@",
                                    "0.5,@200",
                                    "0.5@100,0.8@200",
                                    "0.5,0.8@1",
                                    "0.5,0.8@0",
                                    "0.5,0.8@-3",
                                    "0.5,0.8@200,",
                                    ",0.8@200",
                                    "0.5,0.8@2,0.9@2",
                                    "0.5,0.8@200,0.9@100",
                                    "0.5,1@200",
                                    "0.5,0.8@2.5",
                                    "0.5,0.8@1e3",
                                    "0.5,0.8@2k",
                                    "0.5, 0.8@200",
                                    "0.5,0.8@1000001",
                                    "0.5;0.8@200",
                                    "0.5,0.8 @200",
                                    "0.5,-0.8@200",
                                    "0.5,0.8@0x9",
                                    "0.5,0.8@200@300",
                                    "0.5,0.8@18446744073709551618",
                                    "0.5,0.8000001@2",
                                    "0,0@2,0@3,0@4,0@5,0@6,0@7,0@8,0@9"};
  char described[TAGC_OPTIONS_TEXT];
  tagc_options_default(&o);
  ok(o.sparsity.count == 1 && o.sparsity.from[0] == 1, "by default the sparsity is constant");
  schedule("0.5,0.8@200,0.95@1000", "0.5,0.8@200,0.95@1000");
  ok(o.sparsity.count == 3 && o.sparsity.ppm[1] == 800000 && o.sparsity.from[1] == 200 && o.sparsity.ppm[2] == 950000 &&
       o.sparsity.from[2] == 1000,
     "three stages");
  const struct {
    uint64_t cycle;
    uint32_t stage;
  } at[] = {{0, 0}, {1, 0}, {199, 0}, {200, 1}, {999, 1}, {1000, 2}, {UINT64_MAX, 2}};
  bool right = true;
  for (size_t i = 0; i < sizeof at / sizeof *at; i++)
    right &= tagc_schedule_stage(&o.sparsity, at[i].cycle) == at[i].stage;
  ok(right, "a stage begins in its cycle, and the last one never ends");
  schedule("0.500,.9@2", "0.5,0.9@2");
  schedule("0.95,0.5@1000000", "0.95,0.5@1000000");
  schedule("0.7", "0.7");
  ok(tagc_schedule_stage(&o.sparsity, UINT64_MAX) == 0, "a constant one has one stage");
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const struct tagc_options before = o;
    ok(!set("TAGC_SPARSITY", bad[i]) && strstr(why, "TAGC_SPARSITY=") == why && strstr(why, bad[i]) &&
         strstr(why, "accepted is a fraction from 0 to 0.999999 with at most six decimals, or up to 8 of them with "
                     "growing cycles from 2 to 1000000, as 0.5,0.8@200,0.95@1000") &&
         memcmp(&before, &o, sizeof o) == 0,
       "refused: %s", why);
  }
  const char *const longest = "0.999991,0.999992@999993,0.999993@999994,0.999994@999995,0.999995@999996,"
                              "0.999996@999997,0.999997@999998,0.999998@1000000";
  schedule(longest, longest);
  ok(tagc_options_describe(&o, described, sizeof described) && strstr(described, longest), "ranks compare all of it");
}

/* The table as tagc-run, the doctor and the manual use it. */
static void tables(void) {
  static const char *const presets[][2] = {
    {"TAGC_MODE", "compress"}, {"TAGC_AB", "20"},           {"TAGC_CODEC", "auto"}, {"TAGC_SPARSITY", "0.8"},
    {"TAGC_MIN_BYTES", "1M"},  {"TAGC_RESIDUAL_MAX", "1G"}, {"TAGC_SKIP", ""},      {"TAGC_DUMP_CYCLE", "0"},
  };
  char text[TAGC_OPTION_PRESET];
  for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
    const struct tagc_option *option = tagc_option_find(presets[i][0]);
    ok(option && strcmp(tagc_option_preset(option, text), presets[i][1]) == 0, "the default of %s is '%s'",
       presets[i][0], text);
  }
  bool same = true;
  struct tagc_options preset;
  tagc_options_default(&preset);
  for (size_t i = 0; i < TAGC_OPTION_COUNT; i++) {
    tagc_options_default(&o);
    same &= set(tagc_option_table[i].variable, tagc_option_preset(&tagc_option_table[i], text));
    o.given = 0;
    for (size_t j = 0; j < TAGC_OPTION_COUNT; j++) /* texts have other addresses, with the same characters */
      if (tagc_option_table[j].kind >= TAGC_OPTION_TEXT)
        *(const char **)((char *)&o + tagc_option_table[j].offset) =
          *(const char **)((char *)&preset + tagc_option_table[j].offset);
    same &= memcmp(&o, &preset, sizeof o) == 0;
  }
  ok(same, "every default is understood, and is the default");
  ok(!tagc_option_find("TAGC_MOD") && !tagc_option_find(""), "other names are not found");
  ok(tagc_option_find("TAGC_CALLS")->kind == TAGC_OPTION_OUTPUT &&
       tagc_option_find("TAGC_LAYERMAP")->kind == TAGC_OPTION_INPUT,
     "files are told from other texts");
  tagc_options_default(&o);
  ok(tagc_options_take(&o, NULL, "TAGC_AB=7", why, sizeof why) == TAGC_TAKEN && o.ab == 7, "NAME=value is taken");
  ok(tagc_options_take(&o, NULL, "TAGC_AB=x", why, sizeof why) == TAGC_TAKEN_REFUSED && strstr(why, "TAGC_AB=x"),
     "refused: %s", why);
  ok(tagc_options_take(&o, NULL, "TAGC_ABC=1", why, sizeof why) == TAGC_TAKEN_IGNORED && strstr(why, "TAGC_AB?"),
     "unknown: %s", why);
  ok(tagc_options_take(&o, NULL, "PATH=/bin", why, sizeof why) == TAGC_TAKEN_NOT_OURS &&
       tagc_options_take(&o, NULL, "TAGC_TEST_HIDE=avx2", why, sizeof why) == TAGC_TAKEN_NOT_OURS &&
       tagc_options_take(&o, NULL, "TAGC_AB", why, sizeof why) == TAGC_TAKEN_NOT_OURS,
     "not ours");
}

static void bad_values(void) {
  static const char *const cases[][2] = {
    {"TAGC_MODE", "on"},
    {"TAGC_MODE", ""},
    {"TAGC_MODE", "o"},
    {"TAGC_MODE", "off|observe"},
    {"TAGC_AB", "0"},
    {"TAGC_AB", "1"},
    {"TAGC_AB", "-1"},
    {"TAGC_AB", "1x"},
    {"TAGC_AB", " 1"},
    {"TAGC_MIN_BYTES", "1T"},
    {"TAGC_MIN_BYTES", "1kk"},
    {"TAGC_MIN_BYTES", "99999999999999999999"},
    {"TAGC_MIN_BYTES", "18446744073709551615G"},
    {"TAGC_SPARSITY", "1"},
    {"TAGC_SPARSITY", "1.5"},
    {"TAGC_SPARSITY", "-0.5"},
    {"TAGC_SPARSITY", "0.8000001"},
    {"TAGC_SPARSITY", "."},
    {"TAGC_SPARSITY", "8e-1"},
    {"TAGC_SPARSITY", "0,8"},
    {"TAGC_SEED", "18446744073709551616"},
    {"TAGC_SEED", "0x1"},
    {"TAGC_RESIDUAL", "fp64"},
    {"TAGC_WARMUP", ""},
    {"TAGC_LOG", "loud"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct tagc_options before = o;
    bool refused = !set(cases[i][0], cases[i][1]);
    ok(refused && strstr(why, cases[i][0]) && strstr(why, "accepted is") && memcmp(&before, &o, sizeof o) == 0,
       "%s=%s is refused: %s", cases[i][0], cases[i][1], why);
  }
  ok(!set("TAGC_MOD", "off") && strstr(why, "TAGC_MODE"), "an unknown name: %s", why);
  char longest[4000];
  memset(longest, '9', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  ok(!set("TAGC_AB", longest) && strlen(why) < sizeof why, "a very long value is refused");
}

static void environments(void) {
  char *typo[] = {"PATH=/bin", "TAGC_SPARSTY=0.5", "TAGC_=", "TAGC", NULL};
  char *bad[] = {"TAGC_SPARSITY=2", "TAGC_AB=7", NULL};
  tagc_log_set_level(-1);
  tagc_options_read(&o, typo);
  ok(!o.bad && o.sparsity.ppm[0] == 800000, "an unknown TAGC_ name is only a warning");
  ok(strcmp(tagc_options_nearest("TAGC_SPARSTY"), "TAGC_SPARSITY") == 0, "the nearest name of TAGC_SPARSTY");
  ok(strcmp(tagc_options_nearest("TAGC_LAYER"), "TAGC_LAYERS") == 0, "the nearest name of TAGC_LAYER");
  tagc_options_read(&o, bad);
  ok(o.bad && o.ab == 7 && o.sparsity.ppm[0] == 800000, "a bad value marks the process, the others are read");
}

/* Every old name sets its option, with a warning that gives the present name, which wins if both are set. */
static void renamed(void) {
  char old[100], present[100], text[TAGC_OPTION_PRESET];
  for (const struct tagc_option_rename *r = tagc_option_renames; r->old; r++) {
    const struct tagc_option *option = &tagc_option_table[r->option];
    char *both[] = {old, present, NULL};
    ok(tagc_option_find(r->old) == option && strncmp(r->old, "TAGC_", 5) == 0 && strcmp(r->old, option->variable) != 0,
       "%s is %s now", r->old, option->variable);
    snprintf(old, sizeof old, "%s=%s", r->old, tagc_option_preset(option, text));
    snprintf(present, sizeof present, "%s=%s", option->variable, text);
    tagc_options_default(&o);
    ok(tagc_options_take(&o, (char *[]){old, NULL}, old, why, sizeof why) == TAGC_TAKEN_RENAMED &&
         tagc_option_given(&o, r->option) && strstr(why, r->old) == why && strstr(why, option->variable),
       "taken: %s", why);
    tagc_options_default(&o);
    ok(tagc_options_take(&o, both, old, why, sizeof why) == TAGC_TAKEN_IGNORED && o.given == 0 &&
         strstr(why, option->variable) && strstr(why, "ignored"),
       "not taken: %s", why);
  }
  char *values[] = {"TAGC_GATHER=q8", "TAGC_GATHER_MAX=2G", NULL},
       *twice[] = {"TAGC_ALLGATHER=bf16", "TAGC_GATHER=wrong", NULL};
  tagc_options_read(&o, values);
  ok(!o.bad && o.allgather == TAGC_ALLGATHER_Q8 && o.allgather_max == UINT64_C(2) << 30,
     "old names have the values of the present ones");
  tagc_options_read(&o, twice);
  ok(!o.bad && o.allgather == TAGC_ALLGATHER_BF16, "the present name counts, and the old one's value is not looked at");
  tagc_options_read(&o, twice + 1);
  ok(o.bad && o.allgather == TAGC_ALLGATHER_AUTO, "a bad value marks the process under an old name, too");
  tagc_options_default(&o);
  ok(tagc_options_take(&o, NULL, twice[1], why, sizeof why) == TAGC_TAKEN_REFUSED &&
       strstr(why, "TAGC_ALLGATHER=wrong"),
     "refused: %s", why);
}

static char described[2][TAGC_OPTIONS_TEXT];

/* True if the other ranks would read these options differently from the defaults. */
static int differs(void) {
  return !tagc_options_describe(&o, described[1], sizeof described[1]) || strcmp(described[0], described[1]) != 0;
}

static void descriptions(void) {
  char longest[300], other[300], tiny[8];
  tagc_options_default(&o);
  ok(tagc_options_describe(&o, described[0], sizeof described[0]), "the defaults are described: %zu bytes",
     strlen(described[0]));
  ok(strstr(described[0], "TAGC_MODE=compress\n") && strstr(described[0], "TAGC_SPARSITY=0.8\n"), "a line an option");
  ok(!tagc_options_describe(&o, tiny, sizeof tiny), "8 bytes are too few");
  set("TAGC_LOG", "debug");
  set("TAGC_REPORT", "1");
  set("TAGC_NCCL", "/somewhere/libnccl.so.2");
  set("TAGC_AGREE_TIMEOUT", "5");
  ok(!differs(), "options that only print, wait or find the library do not part the ranks");
  set("TAGC_SPARSITY", "0.81");
  ok(differs() && strstr(described[1], "TAGC_SPARSITY=0.81\n"), "another sparsity does");
  tagc_options_default(&o);
  set("TAGC_BUDGET", "0.0050s");
  ok(differs() && strstr(described[1], "TAGC_BUDGET=5ms\n"), "another budget does, however it is written");
  tagc_options_default(&o);
  set("TAGC_CODEC", "lhc");
  ok(differs() && strstr(described[1], "TAGC_CODEC=lhc\n"), "and so does another codec");
  memset(longest, 'x', sizeof longest);
  longest[sizeof longest - 1] = '\0';
  memcpy(other, longest, sizeof other);
  other[250] = 'y';
  tagc_options_default(&o);
  set("TAGC_LAYERS", longest);
  tagc_options_describe(&o, described[0], sizeof described[0]);
  set("TAGC_LAYERS", other);
  ok(differs(), "two long texts that differ near their ends are told apart");
  set("TAGC_SKIP", longest);
  set("TAGC_CODEC", longest);
  set("TAGC_SEED", "18446744073709551615");
  set("TAGC_MIN_BYTES", "1048576G");
  ok(tagc_options_describe(&o, described[1], sizeof described[1]), "the longest description fits: %zu bytes",
     strlen(described[1]));
  set("TAGC_LAYERS", "a\nTAGC_SEED=7");
  ok(tagc_options_describe(&o, described[1], sizeof described[1]) && !strstr(described[1], "\nTAGC_SEED=7"),
     "a value cannot pose as a line of its own");
}

int main(void) {
  good_values();
  budgets();
  schedules();
  tables();
  tagc_options_default(&o);
  bad_values();
  environments();
  renamed();
  descriptions();
  return tap_done();
}
