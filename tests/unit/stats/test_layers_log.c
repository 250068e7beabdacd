/* SPDX-License-Identifier: BSD-3-Clause
 * The log lines about inferred slots, with the reasons.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "env/log.h"
#include "interpose/stats/layers_log.h"
#include "layermap/cycle/calls.h"
#include "tests/unit/fixtures.h"
#include "tests/unit/tap.h"

static void says(const char *got, const char *wanted) {
  if (!ok(strcmp(got, wanted) == 0, "%s", wanted))
    note("got: %s", got);
}

static void test_unknown(void) {
  struct tagc_slot_info slot = {.signature = {77, TAGC_COLL_REDUCE_SCATTER, 7, 1, true}, .unit = 3, .pass = 1};
  struct tagc_layer layer = {.name = "unit3"};
  struct tagc_layers layers = {.layers = &layer, .count = 1};
  char text[TAGC_LAYERS_WORDS];
  says(tagc_layers_words(&layers, text),
       "no model is known that has units of these sizes: slots are named by their places");
  says(tagc_layer_words(&slot, &layer, text),
       "unit3 is unit 3 (by gradients), pass 2, 77 float32 avg: parameters unknown");
}

/* The guess, its alternatives, and the selected parameters. */
static void test_words(void) {
  char text[TAGC_LAYERS_WORDS];
  struct tagc_layers layers = {
    .source = TAGC_LAYER_ARITHMETIC, .confidence = 97, .what = "llama, hidden 64, 2 blocks, fsdp2"};
  says(tagc_layers_words(&layers, text), "llama, hidden 64, 2 blocks, fsdp2 (97% sure)");
  layers.confidence = 40;
  says(tagc_layers_words(&layers, text), "llama, hidden 64, 2 blocks, fsdp2 (40% sure: ambiguous)");
  layers.source = TAGC_LAYER_MAP;
  layers.confidence = 75;
  says(tagc_layers_words(&layers, text), "llama, hidden 64, 2 blocks, fsdp2 (by TAGC_LAYERMAP, 75% sure)");

  enum { EXPERTS = 40 };
  static struct tagc_parameter experts[EXPERTS];
  static struct tagc_member members[EXPERTS];
  bool is_selected[EXPERTS];
  for (int i = 0; i < EXPERTS; i++) {
    snprintf(experts[i].name, sizeof experts[i].name, "experts.%02d.up.weight", i);
    members[i] = (struct tagc_member){&experts[i], 3, "h"};
    is_selected[i] = i != 1;
  }
  const struct tagc_layer block = {.name = "h.3", .members = members, .count = EXPERTS};
  const struct tagc_layer pair = {.name = "h.3-4", .members = members, .count = 2};
  says(tagc_selected_words(&block, is_selected, text), "experts.00.up.weight experts.02.up.weight experts.03.up.weight "
                                                       "experts.04.up.weight and 35 more");
  says(tagc_selected_words(&pair, is_selected, text), "h.3.experts.00.up.weight");
  static const struct tagc_parameter outside[] = {{"norm.weight", TAGC_KIND_NORM, 4, 1, 0},
                                                  {"head.weight", TAGC_KIND_HEAD, 4, 4, 0}};
  const struct tagc_member of_head[] = {{&outside[0], -1, "head"}, {&outside[1], -1, "head"}};
  const struct tagc_layer head = {.name = "head", .members = of_head, .count = 2};
  says(tagc_selected_words(&head, (const bool[]){true, true}, text), "norm.weight head.weight");
}

/* The text on stderr up to listen_end(), which returns it. */
static int pipes[2], stderr_before;
static char heard[8192];

static void listen_begin(void) {
  stderr_before = dup(STDERR_FILENO);
  if (pipe(pipes) != 0)
    exit(1);
  dup2(pipes[1], STDERR_FILENO);
}

static const char *listen_end(void) {
  dup2(stderr_before, STDERR_FILENO);
  close(stderr_before);
  close(pipes[1]);
  size_t used = 0;
  for (size_t got = 1; got > 0 && used < sizeof heard - 1; used += got) {
    ssize_t n = read(pipes[0], heard + used, sizeof heard - 1 - used);
    got = n > 0 ? (size_t)n : 0;
  }
  close(pipes[0]);
  heard[used] = '\0';
  return heard;
}

/* ---- lists that name nothing ------------------------------------------------------------------------------------- */

static const struct tagc_parameter weights[] = {{"attn.q.weight", TAGC_KIND_ATTN, 4, 4, 0},
                                                {"mlp.up.weight", TAGC_KIND_MLP, 4, 4, 0}};
static const struct tagc_member inside[] = {{&weights[0], 0, "h"}, {&weights[1], 0, "h"}};
static const struct tagc_slot_info two_slots[] = {{.unit = 1}, {.unit = 0}};

/* `wanted`: the contents of its one line; "": none. */
static void complains(const struct tagc_layer *layer, const char *list, enum tagc_log_level missing,
                      const char *wanted) {
  const struct tagc_layers layers = {.layers = (struct tagc_layer *)layer, .count = 2};
  tagc_log_set_level(TAGC_LOG_WARN);
  listen_begin();
  tagc_layers_log_unnamed(3, "TAGC_SKIP", list, missing, two_slots, &layers);
  const char *text = listen_end(), *end = strchr(text, '\n');
  if (!ok(*wanted ? end && !end[1] && strstr(text, wanted) : !end, "%s: %s", list, *wanted ? wanted : "no complaint"))
    note("got: %s", text);
}

static void test_unnamed(void) {
  const struct tagc_layer known[] = {{.name = "h.1", .members = inside, .count = 2, .block_offset = 1},
                                     {.name = "h.0", .members = inside, .count = 2}};
  const struct tagc_layer half[] = {known[0], {.name = "unit0"}};
  const struct tagc_layer unknown[] = {{.name = "unit1"}, {.name = "unit0"}};
  complains(known, "Atn", TAGC_LOG_INFO,
            "communicator 3: TAGC_SKIP: \"Atn\" matches nothing here; known are the kinds attn, mlp, "
            "embed, head, norm, bias and expert, and names such as h.0.attn.q.weight");
  complains(known, "h.0,MLP,attn", TAGC_LOG_INFO, "\"MLP\" matches nothing here (is mlp meant?); known");
  complains(known, "attention", TAGC_LOG_INFO, "\"attention\" matches nothing here (is attn meant?); known");
  complains(known, "all", TAGC_LOG_INFO, "\"all\" matches nothing here (is @all meant?); known");
  complains(known, "block.*.attn*", TAGC_LOG_INFO, "\"block.*.attn*\" matches nothing here; known");
  complains(known, "2", TAGC_LOG_INFO, "\"2\" matches nothing here; known");
  complains(known, "*,h.1,unit0,0-5,attn,@paper,@all,h.*.mlp*, ", TAGC_LOG_INFO, "");
  complains(known, "", TAGC_LOG_WARN, "");
  complains(known, "expert", TAGC_LOG_WARN, "\"expert\" matches nothing here; known");
  complains(known, "expert,bias", TAGC_LOG_INFO, "");
  complains(unknown, "attn,norm", TAGC_LOG_INFO,
            "TAGC_SKIP=attn,norm: the layers of 2 of 2 slots are not known: kinds match nothing there; set "
            "TAGC_LAYERMAP=torch, which asks a program of PyTorch, or TAGC_LAYERMAP=FILE after \"tagc-map from-config "
            "-o FILE config.json\"\n");
  complains(half, "@paper", TAGC_LOG_INFO,
            "TAGC_SKIP=@paper: the layers of 1 of 2 slots are not known: kinds match nothing there");
  complains(unknown, "block.0", TAGC_LOG_INFO,
            "\"block.0\" matches nothing here; known are the kinds attn, mlp, embed, head, norm, bias and "
            "expert, and names such as unit0");
  complains(unknown, "unit0,*", TAGC_LOG_INFO, "");
}

/* The log lines for a file of calls. */
static void test_sequence(const char *file) {
  struct tagc_complaint complaint;
  struct tagc_cycle_options options = {0, 256, 0};
  struct tagc_call_file *calls = tagc_calls_read(file, &complaint);
  struct tagc_cycle *cycle = tagc_cycle_create(&options);
  struct tagc_sighting seen;
  if (!ok(calls && cycle, "%s", file))
    return;
  for (int round = 0; round < 3; round++)
    for (size_t i = 0; i < calls->lists[0].count; i++)
      tagc_cycle_observe(cycle, &calls->lists[0].calls[i], &seen);
  size_t count;
  char why[160];
  const struct tagc_slot_info *slots = tagc_cycle_slots(cycle, &count);
  struct tagc_layers *layers = tagc_layers_infer(slots, count, calls->lists[0].nranks, NULL, why);
  listen_begin();
  if (layers) {
    tagc_log_set_level(TAGC_LOG_WARN);
    tagc_layers_log(0, slots, layers);
    tagc_log_set_level(TAGC_LOG_INFO);
    tagc_layers_log(0, slots, layers);
  }
  const char *text = listen_end();
  size_t lines = 0;
  for (const char *at = text; (at = strchr(at, '\n')); at++)
    lines++;
  ok(lines == count + 2, "two lines, and one for each of %zu slots, at TAGC_LOG=info alone", count);
  size_t longest = 0;
  for (const char *at = text, *end; (end = strchr(at, '\n')); at = end + 1)
    longest = (size_t)(end - at) > longest ? (size_t)(end - at) : longest;
  ok(longest <= 144, "the longest of them has %zu characters", longest);
  ok(strstr(text, "communicator 0: or: ") != NULL, "what differs in the next best guess");
  ok(strstr(text, "communicator 0: gpt2, hidden 768, ") && strstr(text, "% sure)\n"), "the model: %.120s", text);
  const char *line = strstr(text, "communicator 0, slot 11: ");
  ok(line && strncmp(line,
                     "communicator 0, slot 11: block.0 is unit 1 (by gathers), 3543936 float32 avg: 12 parameters, "
                     "norm1.weight to mlp.down.bias\n",
                     123) == 0,
     "%.180s", line ? line : "none");
  tagc_layers_free(layers);
  tagc_calls_free(calls);
  tagc_cycle_destroy(cycle);
}

int main(void) {
  glob_t found;
  test_unknown();
  test_words();
  test_unnamed();
  if (ok(fixtures_find("fsdp2-gpt2-small", &found) == 1, "the sequence is there"))
    test_sequence(found.gl_pathv[0]);
  globfree(&found);
  return tap_done();
}
