/* SPDX-License-Identifier: BSD-3-Clause
 * The table at exit: a layer's contents, names and groups of slots, and that a deep model fits a screen.
 */
#include <fenv.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interpose/entry/start.h"
#include "interpose/nccl/process.h"
#include "interpose/stats/exit_report.h"
#include "tests/unit/tap.h"

static void test_contents(void) {
  static const struct tagc_parameter parameters[] = {
    {"attn.q.weight", TAGC_KIND_ATTN, 10, 10, 0},
    {"attn.norm.weight", TAGC_KIND_ATTN | TAGC_KIND_NORM, 10, 1, 0},
    {"experts.0.up.weight", TAGC_KIND_MLP | TAGC_KIND_EXPERT, 20, 10, 0},
    {"router.weight", TAGC_KIND_EXPERT, 4, 10, 0},
    {"embed.weight", TAGC_KIND_EMBED, 500, 10, 0},
    {"head.weight", TAGC_KIND_HEAD, 300, 10, 0},
    {"x", 0, 7, 1, 0},
  };
  struct tagc_member members[7];
  uint64_t elements[TAGC_CONTENTS];
  for (int i = 0; i < 7; i++)
    members[i] = (struct tagc_member){&parameters[i], 0, "block"};
  struct tagc_layer layer = {.members = members, .count = 7};
  tagc_layer_contents(&layer, elements);
  ok(elements[TAGC_CONTENT_ATTN] == 100 && elements[TAGC_CONTENT_NORM] == 10 && elements[TAGC_CONTENT_MLP] == 240 &&
       elements[TAGC_CONTENT_EMBED] == 5000 && elements[TAGC_CONTENT_HEAD] == 3000 && elements[TAGC_CONTENT_OTHER] == 7,
     "elements are counted by what they are for");
  ok(tagc_layer_kind(elements) == TAGC_LAYER_EMBED, "a root that is an embedding before all");
  layer.count = 4;
  tagc_layer_contents(&layer, elements);
  ok(tagc_layer_kind(elements) == TAGC_LAYER_BLOCKS, "attention and MLP are a block");
  layer.count = 2;
  tagc_layer_contents(&layer, elements);
  ok(tagc_layer_kind(elements) == TAGC_LAYER_ATTN, "attention with its norm is attention");
  layer.count = 0;
  tagc_layer_contents(&layer, elements);
  ok(tagc_layer_kind(elements) == TAGC_LAYER_OTHER, "what is not known is other");
}

static void spans(const char *first, const char *last, const char *wanted, bool alike) {
  char text[80];
  const bool got = tagc_layer_span(first, last, text, sizeof text);
  if (!ok(got == alike && strcmp(text, wanted) == 0, "%s", wanted))
    note("got: %s", text);
}

static void test_spans(void) {
  spans("block.0", "block.31", "block.0 to 31", true);
  spans("block.10", "block.19", "block.10 to 19", true);
  spans("block.0-1", "block.30-31", "block.0-1 to 30-31", true);
  spans("block.0.mlp", "block.31.mlp", "block.0 to 31.mlp", true);
  spans("unit5", "unit12", "unit5 to 12", true);
  spans("block.0.mlp", "block.1.attn", "block.0.mlp to block.1.attn", false);
  spans("embed", "head", "embed to head", false);
}

/* The text on stderr up to listen_end(), which returns it. */
static char path[] = "/tmp/test_report.XXXXXX", heard[65536];
static int stderr_before;

static void listen_begin(void) {
  stderr_before = dup(STDERR_FILENO);
  int file = mkstemp(path);
  if (file < 0 || dup2(file, STDERR_FILENO) < 0)
    exit(1);
  close(file);
}

static void listen_end(void) {
  ssize_t n = pread(STDERR_FILENO, heard, sizeof heard - 1, 0);
  heard[n > 0 ? n : 0] = '\0';
  dup2(stderr_before, STDERR_FILENO);
  close(stderr_before);
  unlink(path);
  memcpy(strrchr(path, '.') + 1, "XXXXXX", 6);
}

static size_t lines_that_begin(const char *text) {
  size_t n = 0;
  for (const char *line = heard; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
    n += strncmp(line, text, strlen(text)) == 0;
  return n;
}

/* The width of the table's widest line, without the lines for programs. */
static size_t width(void) {
  size_t most = 0;
  for (const char *line = heard; *line; line += strcspn(line, "\n") + 1)
    if (strncmp(line, "  ", 2) == 0 && strcspn(line, "\n") > most)
      most = strcspn(line, "\n");
  return most;
}

static void has(const char *line) {
  if (!ok(strstr(heard, line) != NULL, "%s", line))
    note("%s", heard);
}

enum { BLOCKS = 80, ROWS = BLOCKS + 3 };

/* A model of 80 blocks on two hosts, in the order of its gradients, all numbers as wide as they get. */
static struct tagc_ledger_row rows[ROWS];
static struct tagc_decision_inputs inputs[ROWS];

static void fill(struct tagc_ledger_row *row, const char *name, enum tagc_layer_kind kind, uint32_t unit,
                 uint64_t shard) {
  *row = (struct tagc_ledger_row){
    .shard = shard,
    .kind = kind,
    .unit = unit,
    .codec = "q4",
    .calls = 100000,
    .compressed = 99990,
    .raw_bytes = shard << 20,
    .plain = {shard, UINT64_C(1023) << 40},
    .sent = {shard, UINT64_C(1023) << 38},
    .residual_bytes = UINT64_C(1023) << 20,
    .stats = {.unrecovered = 12345678, .nonfinite = 1234567, .residual_norm2 = 1e-8},
    .inputs = &inputs[row - rows],
  };
  snprintf(row->name, sizeof row->name, "%s", name);
  struct tagc_decision_inputs *its = row->inputs;
  its->choice = (struct tagc_choice){.reason = TAGC_REASON_compressed, .candidate = 2, .plain_ns = 1.2345e9};
  its->gradient = (struct tagc_gradient_stats){.density = 0.9999, .kurtosis = 12345};
  for (int c = 0; c < TAGC_CANDIDATES; c++) {
    its->choice.ns[c] = 2.3456e8;
    its->gradient.of[c].error = 0.0123;
  }
}

static void test_deep_model(void) {
  char name[32];
  fill(&rows[0], "head", TAGC_LAYER_HEAD, BLOCKS + 2, 5000);
  fill(&rows[1], "norm", TAGC_LAYER_NORM, BLOCKS + 1, 10);
  for (unsigned i = 0; i < BLOCKS; i++) {
    snprintf(name, sizeof name, "block.%u", BLOCKS - 1 - i);
    fill(&rows[2 + i], name, TAGC_LAYER_BLOCKS, BLOCKS - i, 9860);
  }
  fill(&rows[ROWS - 1], "embed", TAGC_LAYER_EMBED, 0, 5000);
  rows[2].compressed--; /* the run ended before the last cycle's call */
  inputs[40].gradient.density = 0.5;
  struct tagc_ledger ledger = {
    .nranks = 16, .hosts = {16, 2, 8}, .codec = "auto", .probed = true, .rows = rows, .row_count = ROWS};
  listen_begin();
  tagc_report_print(&(struct tagc_ledgers){.first = &ledger});
  listen_end();
  has("  block.0 to 79  80 q4     8000000    7999199 79.9 PiB");
  ok(lines_that_begin("  block") == 2, "80 blocks are a line of what was sent, and one of why: %zu",
     lines_that_begin("  block"));
  ok(strstr(heard, "  embed ") < strstr(heard, "  block.") && strstr(heard, "  block.") < strstr(heard, "  norm ") &&
       strstr(heard, "  norm ") < strstr(heard, "  head "),
     "embedding, blocks, norm, head");
  has("  total          83 -");
  ok(lines_that_begin("  all ") == 0, "a group of one line has no sum");
  ok(width() <= 120, "at most 120 columns: %zu", width());

  rows[42].codec = NULL; /* one differs from the others */
  rows[42].compressed = 0;
  rows[20].compressed = 100; /* and another one stopped early */
  listen_begin();
  tagc_report_print(&(struct tagc_ledgers){.first = &ledger});
  listen_end();
  has("  block.0 to 38   39 q4");
  has("  block.39         1 -       100000          0");
  has("  block.40 to 60  21 q4");
  has("  block.61         1 q4      100000        100");
  has("  block.62 to 79  18 q4");
  has("  all blocks      80 mixed");
  ok(width() <= 121, "one column more for the longer name: %zu", width());
}

/* A few equal rows keep their lines. */
static void test_few(void) {
  for (unsigned i = 0; i < 3; i++)
    fill(&rows[i], (const char *[]){"block.2.mlp", "block.1.mlp", "block.0.mlp"}[i], TAGC_LAYER_MLP, 2 - i, 77);
  struct tagc_ledger ledger = {.nranks = 2, .hosts = {2, 0, 2}, .codec = "q4", .rows = rows, .row_count = 3};
  rows[0].stats.lost = rows[2].stats.lost = 1000;
  rows[1].stats.overflowed = 3;
  listen_begin();
  tagc_report_print(&(struct tagc_ledgers){.first = &ledger});
  listen_end();
  has("     2000 values lost: too small for their codec");
  has("        3 shards came out NaN: more values that are not finite, or 2^120 and more, than fit");
  ok(lines_that_begin("  block.1.mlp") == 1 && strstr(heard, "block.0.mlp") < strstr(heard, "block.1.mlp"),
     "three slots, three lines");
  ok(lines_that_begin("  all mlp") == 0, "and where that is all, the total is the sum");

  for (unsigned i = 0; i < 2; i++)
    fill(&rows[i], (const char *[]){"block.1", "block.0"}[i], TAGC_LAYER_BLOCKS, 2 - i, 77);
  fill(&rows[2], "embed", TAGC_LAYER_EMBED, 0, 77);
  rows[0].codec = "q8";
  listen_begin();
  tagc_report_print(&(struct tagc_ledgers){.first = &ledger});
  listen_end();
  has("  slot         x codec");
  has("  block.0      1 q4");
  has("  all blocks   2 mixed");
  has("  total        3 -");
}

/* A program that traps floating-point exceptions, where the times of the wire were too short to measure. */
static void test_traps(void) {
  int status = 0;
  fill(&rows[0], "block.0", TAGC_LAYER_BLOCKS, 0, 77);
  struct tagc_ledger ledger = {
    .nranks = 4, .hosts = {4, 2, 2}, .two_levels = true, .codec = "auto", .probed = true, .rows = rows, .row_count = 1};
  listen_begin();
  const pid_t child = fork();
  if (child == 0) {
    feenableexcept(FE_ALL_EXCEPT);
    const int traps = fegetexcept();
    tagc_report_print(&(struct tagc_ledgers){.first = &ledger});
    _exit(fegetexcept() != traps);
  }
  waitpid(child, &status, 0);
  listen_end();
  ok(status == 0, "a program with traps has its report, and its traps: %d", status);
  has("reduce-scatter - MB/s and 0 us a step, messages by ncclSend - MB/s");
}

static void hear(void (*print)(const struct tagc_ledger *), const struct tagc_ledger *ledger) {
  listen_begin();
  print(ledger);
  listen_end();
}

static void hear_nothing(struct tagc_ledger *first) {
  listen_begin();
  tagc_report_nothing(&(struct tagc_ledgers){.first = first});
  listen_end();
}

/* Where nothing was compressed, a line a communicator and a sentence at the end say why. */
static void test_nothing(void) {
  struct tagc_ledger small = {.number = 1, .nranks = 4};
  struct tagc_ledger ledger = {.next = &small, .number = 0, .nranks = 16, .taken_for = "a step without gradients"};
  hear(tagc_report_passed, &ledger);
  ok(!*heard, "a communicator without large collectives has no line");
  hear_nothing(&ledger);
  has("tagc: nothing was compressed: no collective had a buffer of 1.0 MiB or more (TAGC_MIN_BYTES).\n");
  ledger.large = (struct tagc_ledger_large){.calls = 1508, .plain = {1024, 3 << 20}};
  ledger.large.reasons[TAGC_REASON_function] = 1300;
  ledger.large.reasons[TAGC_REASON_activations] = 200;
  ledger.large.reasons[TAGC_REASON_learning] = 5;
  ledger.large.reasons[TAGC_REASON_small] = 3;
  hear(tagc_report_passed, &ledger);
  has("tagc: communicator 0 of 16 ranks: taken for a step without gradients; nothing compressed of 1,508 large "
      "collectives, 3.0 MiB a rank: 200 not evidently a gradient");
  has("TAGC_ASSUME=gradients or a map (TAGC_LAYERMAP) says so; 5 the cycle of calls is not known yet");
  has("; 1300 for other reasons\n");
  ok(strchr(heard, '\n')[1] == '\0', "in one line");
  hear_nothing(&ledger);
  has("tagc: nothing was compressed, mostly for one reason: not evidently a gradient");
  has(". What to do: if it is one, TAGC_ASSUME=gradients or a map (TAGC_LAYERMAP) says so.\n");
  small.rank = 1;
  hear_nothing(&ledger);
  ok(!*heard, "the process that is first everywhere says it for all");
  small = (struct tagc_ledger){.nranks = 4, .allgather_rest.compressed = 1};
  hear_nothing(&ledger);
  ok(!*heard, "nobody says it if anything was compressed");
  ledger = (struct tagc_ledger){.nranks = 1};
  hear_nothing(&ledger);
  has("tagc: nothing was compressed: no communicator had two ranks or more, so nothing was sent.\n");
}

/* The slots of a cycle that comes back keep their counts, whatever their names are meanwhile; others do not. */
static void test_comes_back(void) {
  struct tagc_slot_info slots[] = {{.signature = {.count = 1000}, .unit = 1, .name = "unit1"},
                                   {.signature = {.count = 500}, .unit = 0, .name = "unit0"}};
  const struct tagc_allgather_info gathers[] = {{.signature = {.count = 500}, .slot = 1},
                                                {.signature = {.count = 1000}, .slot = 0}};
  struct tagc_ledger *ledger = tagc_ledger_create(0, 2);
  if (!ledger || !tagc_ledger_set_slots(ledger, slots, 2, NULL) || !tagc_ledger_set_allgathers(ledger, gathers, 2))
    exit(1);
  ledger->rows[0].calls = ledger->allgathers[0].calls = 10;
  strcpy(slots[0].name, "block.0");
  strcpy(slots[1].name, "embed");
  bool made = tagc_ledger_set_slots(ledger, slots, 2, NULL) && tagc_ledger_set_allgathers(ledger, gathers, 2);
  ok(made && ledger->rows[0].calls == 10 && ledger->allgathers[0].calls == 10 && ledger->rest.calls == 0 &&
       strcmp(ledger->allgathers[0].name, "embed") == 0,
     "slots and all-gathers with other names keep their counts: %d, %d", (int)ledger->rows[0].calls,
     (int)ledger->allgathers[0].calls);
  slots[0].unit = 2;
  made = tagc_ledger_set_slots(ledger, slots, 2, NULL) && tagc_ledger_set_allgathers(ledger, gathers, 2);
  ok(made && ledger->rows[0].calls == 0 && ledger->rest.calls == 10 && ledger->allgathers[0].calls == 0 &&
       ledger->allgather_rest.calls == 10,
     "other ones do not");
}

/* A process that makes communicators without end keeps the first ones, those with a compressed call, and a sum. Returns
 * how many it keeps. */
static size_t make_without_end(int made) {
  struct tagc_ledger *first = NULL;
  size_t kept = 0;
  for (int i = 0; i < made; i++) {
    struct tagc_ledger *ledger = tagc_ledger_create(i % 4 == 3, 2);
    if (!ledger)
      exit(1);
    first = first ? first : ledger;
    ledger->large = (struct tagc_ledger_large){.calls = 2, .plain = {0, 1 << 20}};
    ledger->large.reasons[TAGC_REASON_one_host] = 2;
    ledger->rest.compressed = i == made - 1;
    if (ledger->ab)
      tagc_ab_add(ledger->ab, &(struct tagc_ab_step){.cycle = 1, .side = TAGC_AB_PLAIN, .counts = true, .ms = 1});
    if (tagc_ledger_may_go(ledger))
      tagc_ledger_free(ledger);
  }
  for (const struct tagc_ledger *l = first; l; l = l->next)
    kept++;
  return kept;
}

static void test_gone(void) {
  enum { GONE = 1600 };
  int status = 0;
  listen_begin();
  const pid_t child = fork(); /* its exit has the report */
  if (child == 0) {
    /* GONE go, and of the one that stays a call was compressed. */
    const size_t kept = make_without_end(TAGC_LEDGERS_KEPT + GONE + 1);
    exit(kept == TAGC_LEDGERS_KEPT + 1 ? 0 : 9);
  }
  waitpid(child, &status, 0);
  lseek(STDERR_FILENO, 0, SEEK_SET);
  char last[4096] = "";
  for (ssize_t n; (n = read(STDERR_FILENO, heard, sizeof heard - 1)) > 0;) {
    heard[n] = '\0';
    const char *line = strstr(heard, "more communicators");
    while (line && line > heard && line[-1] != '\n')
      line--;
    if (line)
      snprintf(last, sizeof last, "%.*s", (int)strcspn(line, "\n"), line);
  }
  listen_end();
  ok(status == 0, "the first thousand stay, and one with a compressed call");
  ok(strstr(last, "tagc: 1,200 more communicators have ended; nothing compressed of 2,400 large collectives, 1.2 GiB a "
                  "rank: 2,400 all ranks share a host") == last,
     "of the others this rank tells the sum: %s", last);
}

/* A reason whose words name an option needs no advice; others that the user can change have it. */
static void test_advice(void) {
  ok(strstr(tagc_reason_advice(TAGC_REASON_activations), "TAGC_ASSUME=gradients") &&
       strstr(tagc_reason_advice(TAGC_REASON_activations), "TAGC_LAYERMAP"),
     "what is not evidently a gradient can be told");
  ok(strstr(tagc_reason_advice(TAGC_REASON_small), "TAGC_MIN_BYTES") && !*tagc_reason_advice(TAGC_REASON_one_host) &&
       strstr(tagc_reason_words(TAGC_REASON_one_host), "TAGC_SCOPE=flat"),
     "options are named once");
}

int main(void) {
  setenv("TAGC_REPORT", "1", 1);
  tagc_library_start();
  test_contents();
  test_spans();
  test_deep_model();
  test_few();
  test_traps();
  test_nothing();
  test_gone();
  test_comes_back();
  test_advice();
  return tap_done();
}
