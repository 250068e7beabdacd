/* SPDX-License-Identifier: BSD-3-Clause
 * The candidates of a stripe: a list that the last line, an incomplete one, fills up to its end, and beyond. Every
 * variant makes the same of it, and writes nothing behind the memory of the list.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/sparse/sparsify.h"
#include "tests/unit/codec/variants.h"

enum { MOST = 100127, KEEP_PPM = 170, STRIPES = 2, CANARY = 4096, OTHERS = 100, SAMPLED = 58, SAMPLES = 14 };

/* Elements of the shard: the last line has 31 places, and is of the last stripe, or of the first one. */
static uint32_t n = MOST;

struct result {
  float *residual, values[64];
  uint32_t *bitmap, ids[64], counts[STRIPES];
  size_t bitmap_words, overrun;
};

static void *zeros(size_t bytes) {
  void *memory = calloc(1, bytes);
  if (!memory)
    abort();
  return memory;
}

static struct result choose_values(const float *gradient) {
  struct tagc_grid grid;
  struct tagc_sparsify_memory memory;
  struct result r = {.residual = zeros(n * sizeof(float))};
  tagc_grid_fill(&grid, n, KEEP_PPM, STRIPES);
  const size_t bytes = tagc_sparsify_assign_buffers(&memory, &grid, 1, NULL, 0);
  uint8_t *base = aligned_alloc(64, (bytes + CANARY + 63) / 64 * 64);
  if (!base)
    abort();
  memset(base, 0xa5, bytes + CANARY);
  tagc_sparsify_assign_buffers(&memory, &grid, 1, base, 0);
  r.bitmap_words = (size_t)grid.stripes * grid.stripe_lines;
  r.bitmap = zeros(r.bitmap_words * sizeof *r.bitmap);
  struct tagc_exceptions *exceptions = zeros(tagc_exceptions_bytes(n));
  uint8_t *exponents = zeros(n / 1024 + 64);
  const struct tagc_sparsify_shard shard = {.grid = &grid,
                                            .send = gradient,
                                            .dtype = TAGC_FLOAT32,
                                            .scale = 1,
                                            .seed = 7,
                                            .number = 1,
                                            .residual = r.residual,
                                            .residual_empty = true,
                                            .exceptions = exceptions,
                                            .exponents = exponents,
                                            .bitmap = r.bitmap,
                                            .memory = &memory};
  tagc_sparsify(&shard);
  size_t used = 0;
  for (int stripe = 0; stripe < STRIPES; stripe++) {
    r.counts[stripe] = memory.counts[stripe];
    for (uint32_t i = 0; i < r.counts[stripe] && used < 64; i++, used++) {
      r.values[used] = memory.values[(size_t)stripe * memory.stride + i];
      r.ids[used] = memory.ids[(size_t)stripe * memory.stride + i];
    }
  }
  for (size_t i = bytes; i < bytes + CANARY; i++)
    r.overrun += base[i] != 0xa5;
  free(exceptions);
  free(exponents);
  free(base);
  return r;
}

static void free_result(struct result *r) {
  free(r->residual);
  free(r->bitmap);
}

/* `before` candidates in the stripe of the last line, fewer in the other stripe, and a last line that is full of them;
 * its last values are the largest of all. The lines that are sampled (guess_threshold() in sparsify.c) are even ones.
 * They have a few smaller values, so that all of these are candidates. */
static float *make_gradient(uint32_t before, float last) {
  struct tagc_grid grid;
  tagc_grid_fill(&grid, n, KEEP_PPM, STRIPES);
  const uint32_t end = grid.lines - 1, its = tagc_grid_stripe_of(STRIPES, end);
  float *gradient = zeros(n * sizeof *gradient);
  uint32_t put[STRIPES] = {0};
  for (uint32_t line = 0, k = 0; line < end; line++) {
    const uint32_t stripe = tagc_grid_stripe_of(STRIPES, line), wanted = stripe == its ? before : OTHERS;
    for (uint32_t lane = 0; line % 2 && lane < TAGC_GRID_LINE && put[stripe] < wanted; lane++, put[stripe]++)
      gradient[line * TAGC_GRID_LINE + lane] = 1.0f + (float)(k++ % 1000) * 1e-3f;
  }
  for (uint32_t line = SAMPLED, few = 0; line < end && few < SAMPLES; line += 2 * SAMPLED)
    for (uint32_t lane = 0; tagc_grid_stripe_of(STRIPES, line) != its && lane < 4 && few < SAMPLES; lane++, few++)
      gradient[line * TAGC_GRID_LINE + lane] = 0.9f;
  for (uint32_t i = end * TAGC_GRID_LINE; i < n; i++)
    gradient[i] = i + 8 < n ? 1.5f : last;
  return gradient;
}

static void check_full_list(uint32_t before, float last, const char *what) {
  float *gradient = make_gradient(before, last);
  tagc_variant_force(tagc_variant_name(TAGC_VARIANT_PLAIN));
  struct result plain = choose_values(gradient);
  ok(!plain.overrun, "%s, %u candidates before: plain stays within its memory", what, before);
  for (int v = TAGC_VARIANT_PLAIN + 1; v < TAGC_VARIANT_COUNT; v++) {
    const char *name = tagc_variant_name((enum tagc_variant)v);
    if (!tagc_variant_force(name))
      continue;
    struct result other = choose_values(gradient);
    ok(!other.overrun && memcmp(plain.residual, other.residual, n * sizeof(float)) == 0 &&
         memcmp(plain.bitmap, other.bitmap, plain.bitmap_words * sizeof *plain.bitmap) == 0 &&
         memcmp(plain.counts, other.counts, sizeof plain.counts) == 0 &&
         memcmp(plain.values, other.values, sizeof plain.values) == 0 &&
         memcmp(plain.ids, other.ids, sizeof plain.ids) == 0,
       "%s: the same, %zu bytes behind the memory are touched", name, other.overrun);
    free_result(&other);
  }
  free_result(&plain);
  free(gradient);
}

int main(void) {
  struct tagc_grid grid;
  struct tagc_sparsify_memory memory;
  variants_tell();
  tagc_grid_fill(&grid, n, KEEP_PPM, STRIPES);
  tagc_sparsify_assign_buffers(&memory, &grid, 1, NULL, 0);
  for (; n > MOST - 64; n -= TAGC_GRID_LINE) {
    for (uint32_t less = 0; less < 20; less++)
      check_full_list((uint32_t)memory.room - less, 3, "large values");
    check_full_list((uint32_t)memory.room, __builtin_inff(), "infinities");
    check_full_list((uint32_t)memory.room - 1, __builtin_nanf(""), "NaN");
  }
  return tap_done();
}
