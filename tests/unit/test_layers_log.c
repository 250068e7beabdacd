/* SPDX-License-Identifier: BSD-3-Clause
 * The lines that say what was inferred of slots, and why.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "env/log.h"
#include "interpose/layers_log.h"
#include "layermap/calls.h"
#include "tests/unit/tap.h"

static void says(const char *got, const char *wanted)
{
  if (!ok(strcmp(got, wanted) == 0, "%s", wanted))
    note("got: %s", got);
}

static void test_unknown(void)
{
  struct tagc_slot_info slot = {.signature = {77, TAGC_REDUCE_SCATTER, 7, 1, true}, .unit = 3, .pass = 1};
  struct tagc_layer layer = {.name = "unit3"};
  struct tagc_layers layers = {.layers = &layer, .count = 1};
  char text[TAGC_LAYERS_WORDS];
  says(tagc_layers_words(&layers, text), "no model is known that has units of these sizes: slots are named by their places");
  says(tagc_layer_words(&slot, &layer, text), "unit3 is unit 3 by the reverse order of the gradients, in pass 2 of the cycle; reduce-scatter 77 "
       "float32 avg; nothing is known of what is in it");
}

/* Of a file of calls: the lines as the log has them. */
static void test_sequence(const char *file)
{
  struct tagc_complaint complaint;
  struct tagc_cycle_options options = {0, 256};
  struct tagc_call_file *calls = tagc_calls_read(file, &complaint);
  struct tagc_cycle *cycle = tagc_cycle_create(&options);
  struct tagc_sighting seen;
  if (!ok(calls && cycle, "%s", file))
    return;
  for (int round = 0; round < 3; round++)
    for (size_t i = 0; i < calls->lists[0].count; i++)
      tagc_cycle_observe(cycle, &calls->lists[0].calls[i], &seen);
  size_t count;
  char why[160], text[8192] = "";
  const struct tagc_slot_info *slots = tagc_cycle_slots(cycle, &count);
  struct tagc_layers *layers = tagc_layers_infer(slots, count, calls->lists[0].nranks, NULL, why);
  int pipes[2], before = dup(STDERR_FILENO);
  if (layers && pipe(pipes) == 0) {
    dup2(pipes[1], STDERR_FILENO);
    tagc_log_set_level(TAGC_LOG_WARN);
    tagc_layers_log(0, slots, layers);
    tagc_log_set_level(TAGC_LOG_INFO);
    tagc_layers_log(0, slots, layers);
    dup2(before, STDERR_FILENO);
    close(pipes[1]);
    for (size_t used = 0, got = 1; got > 0 && used < sizeof text - 1; used += got) {
      ssize_t n = read(pipes[0], text + used, sizeof text - 1 - used);
      got = n > 0 ? (size_t)n : 0;
    }
    close(pipes[0]);
  }
  size_t lines = 0;
  for (const char *at = text; (at = strchr(at, '\n')); at++)
    lines++;
  ok(lines == count + 1, "a line, and one for each of %zu slots, at TAGC_LOG=info alone", count);
  ok(strstr(text, "communicator 0: gpt2, hidden 768, ") && strstr(text, "(by arithmetic, "), "the model: %.120s", text);
  const char *line = strstr(text, "communicator 0, slot 11: ");
  ok(line && strncmp(line, "communicator 0, slot 11: block.0 is unit 1 by the gathers of the forward pass; reduce-scatter 3543936 float32 "
                           "avg; 12 parameters, block.0.", 133) == 0, "%.180s", line ? line : "none");
  close(before);
  tagc_layers_free(layers);
  tagc_calls_free(calls);
  tagc_cycle_destroy(cycle);
}

int main(void)
{
  const char *top = getenv("abs_top_srcdir");
  char file[2048];
  snprintf(file, sizeof file, "%s/tests/fixtures/fsdp2-gpt2-small.calls", top ? top : "..");
  test_unknown();
  test_sequence(file);
  return tap_done();
}
