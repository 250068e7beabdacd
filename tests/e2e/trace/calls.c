/* SPDX-License-Identifier: BSD-3-Clause
 * Prints files of calls: one line for each communicator, and the units of its cycle in the order of their reduction,
 * with the names that follow from their sizes.
 *
 *   calls FILE...
 */
#include <inttypes.h>
#include <stdio.h>

#include "layermap/cycle/calls.h"
#include "layermap/infer/layers.h"

static void tell(const struct tagc_call_list *list) {
  struct tagc_cycle_options options = {1, 256, list->nranks};
  struct tagc_cycle *cycle = tagc_cycle_create(&options);
  struct tagc_sighting seen = {.state = TAGC_CYCLE_LEARNING};
  size_t count, reduced = 0;
  for (size_t i = 0; i < list->count && cycle; i++) {
    tagc_cycle_observe(cycle, &list->calls[i], &seen);
    reduced += list->calls[i].collective == TAGC_COLL_REDUCE_SCATTER;
  }
  printf("communicator %" PRIu64 " ranks %d rank %d calls %zu reduced %zu", list->communicator, list->nranks,
         list->rank, list->count, reduced);
  const struct tagc_slot_info *slots = cycle ? tagc_cycle_slots(cycle, &count) : NULL;
  if (slots)
    printf(" cycle %zu%s", tagc_cycle_length(cycle), tagc_cycle_is_gradients(cycle) ? " gradients" : "");
  char why[160];
  struct tagc_layers *layers = slots ? tagc_layers_infer(slots, count, list->nranks, NULL, why) : NULL;
  for (size_t i = 0; layers && i < count; i++)
    printf(" %s%s=%s", slots[i].name, slots[i].told ? "" : "?", layers->layers[i].name);
  printf("%s%s\n", layers ? " " : "", layers ? layers->what : "");
  tagc_layers_free(layers);
  tagc_cycle_destroy(cycle);
}

int main(int argc, char **argv) {
  int status = 0;
  for (int i = 1; i < argc; i++) {
    struct tagc_complaint complaint;
    struct tagc_call_file *file = tagc_calls_read(argv[i], &complaint);
    if (!file) {
      printf("%s:%u:%u: %s\n", argv[i], complaint.line, complaint.column, complaint.text);
      status = 1;
    }
    for (size_t j = 0; file && j < file->count; j++)
      tell(&file->lists[j]);
    tagc_calls_free(file);
  }
  return status;
}
