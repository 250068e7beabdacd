/* SPDX-License-Identifier: BSD-3-Clause
 * Measures how long the search for a transformer's architecture takes: for real models as they are wrapped, for
 * unpublished sizes, and for slots of no transformer. Prints one line each: CPU milliseconds, the mean and the slowest.
 */
#include <time.h>

#include "layermap/infer/layers.h"
#include "tests/unit/model/architectures.h"
#include "tests/unit/infer/solve_slots.h"

static struct slots slots;

struct times {
  double sum, most;
  unsigned count;
};

static void measure(struct times *times, int nranks) {
  struct timespec begin, end;
  char why[160];
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  struct tagc_layers *layers = tagc_layers_infer(slots.infos, slots.count, nranks, NULL, why);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  tagc_layers_free(layers);
  double ms = 1e3 * (double)(end.tv_sec - begin.tv_sec) + 1e-6 * (double)(end.tv_nsec - begin.tv_nsec);
  times->sum += ms;
  times->most = ms > times->most ? ms : times->most;
  times->count++;
}

static void report(const char *what, const char *layout, const struct times *times) {
  printf("%-28s %-9s %8.2f ms, at most %8.2f\n", what, layout, times->sum / times->count, times->most);
}

static void measure_models(enum wrapping wrapping, enum tagc_layout_kind layout, uint32_t wider) {
  struct times times = {0, 0, 0};
  for (size_t i = 0; i < KNOWN_MODELS; i++) {
    struct tagc_architecture a = known_models[i].a;
    a.intermediate += a.intermediate ? wider : 0;
    a.expert_intermediate += a.expert_intermediate ? wider : 0;
    struct tagc_model *model = tagc_family_model(&a);
    make_slots(&slots, model, wrapping, layout, 8);
    measure(&times, 8);
    tagc_model_free(model);
  }
  report(wider ? "a wider MLP" : wrapping_names[wrapping], tagc_layout_name(layout), &times);
}

/* Measures rows of slots with sizes that no transformer has. */
static void measure_others(size_t count, size_t different) {
  struct times times = {0, 0, 0};
  slots.count = count;
  for (uint64_t turn = 1; turn <= 10; turn++) {
    for (size_t i = 0; i < count; i++)
      slots.infos[i] = (struct tagc_slot_info){
        .unit = (uint32_t)(count - 1 - i),
        .gathered = true,
        .signature = {.count = 1000003 * turn + 7919 * (i % different), .dtype = 7, .is_float = true}};
    measure(&times, 8);
  }
  char what[40];
  snprintf(what, sizeof what, "%zu slots, %zu different", count, different);
  report(what, "-", &times);
}

int main(void) {
  for (int wrapping = 0; wrapping < WRAP_BUCKETS; wrapping++)
    measure_models((enum wrapping)wrapping, TAGC_LAYOUT_FSDP2, 0);
  measure_models(WRAP_BUCKETS, TAGC_LAYOUT_MEGATRON, 0);
  measure_models(WRAP_BUCKETS, TAGC_LAYOUT_ZERO3, 0);
  measure_models(WRAP_ROOT, TAGC_LAYOUT_FSDP1, 64);
  measure_models(WRAP_ROOT, TAGC_LAYOUT_FSDP2, 64);
  measure_others(40, 1);
  measure_others(40, 2);
  measure_others(40, 40);
  measure_others(2000, 2000);
  measure_others(16000, 3);
  return 0;
}
