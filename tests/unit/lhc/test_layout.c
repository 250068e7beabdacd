/* SPDX-License-Identifier: BSD-3-Clause
 * The layout of `lhc`: pure, monotone, as documented, safe for any size; the example of its header; refusals.
 */
#include "kernels/lhc/lhc.h"
#include "tests/unit/codec/sim.h"
#include "tests/unit/tap.h"

static bool layout(uint64_t n, int nranks, uint32_t keep_ppm, struct tagc_layout *out) {
  struct tagc_shape shape = {.n = n, .nranks = nranks, .dtype = TAGC_FLOAT32, .keep_ppm = keep_ppm};
  memset(out, 0xff, sizeof *out);
  return tagc_codec_find("lhc")->layout(&shape, out);
}

static size_t pad(size_t bytes) { return (bytes + 15) / 16 * 16; }

/* A second version of the formulas in lhc/codec.c. */
static bool as_documented(uint64_t n, uint64_t senders, uint64_t keep_ppm, const struct tagc_layout *l) {
  uint64_t kept = n * keep_ppm / 1000000, lines = (n + 31) / 32;
  uint64_t all = senders * (kept ? kept : 1) < n ? senders * (kept ? kept : 1) : n;
  uint64_t room = (n + 63) / 64 < 16 ? (n + 63) / 64 : 16;
  room = (n + 4095) / 4096 > room ? (n + 4095) / 4096 : room;
  size_t exceptions = pad(8 + 8 * room);
  if (all < 4096) {
    uint64_t capacity = kept ? kept : 1;
    return l->sketch_count == 0 && l->exponent_bytes == 0 && l->capacity == capacity &&
           l->message_bytes == exceptions + pad(2 * ((n + 255) / 256)) + pad(capacity) + pad(4 * capacity);
  }
  uint64_t stripes = all <= 65536 ? 1 : (all + 24576) / 49152 < 2 ? 2 : (all + 24576) / 49152;
  uint64_t longest = (lines + stripes - 1) / stripes, positions = longest * 32 < n ? longest * 32 : n;
  uint64_t most = positions * keep_ppm / 1000000 ? positions * keep_ppm / 1000000 : 1;
  uint64_t meet = senders * most < positions ? senders * most : positions;
  uint64_t hashes = meet < 30000 ? 4 : 3, per_mille = meet < 30000 ? 1350 : 1215;
  uint64_t rows = (meet * per_mille + 32000 * hashes - 1) / (32000 * hashes);
  return l->exponent_bytes == pad((n + 1023) / 1024) &&
         l->sketch_count == stripes * (hashes * rows * 32 + (hashes == 3 ? 128 : 0)) &&
         l->message_bytes == exceptions + pad(4 * stripes * longest);
}

static void check_formula(void) {
  static const uint64_t sizes[] = {1, 2, 31, 33, 100, 4095, 4096, 20000, 65537, 1000003, 1 << 24, 4294967295u};
  static const uint32_t keeps[] = {1, 1000, 10000, 50000, 200000, 333333, 1000000};
  static const int ranks[] = {2, 3, 4, 8, 64, 1000, 65536};
  int wrong = 0, unsure = 0, odd = 0, excess = 0;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (size_t k = 0; k < sizeof keeps / sizeof *keeps; k++)
      for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++) {
        struct tagc_layout l, again;
        struct tagc_lhc_geometry geo;
        struct tagc_shape shape = {.n = sizes[s], .nranks = ranks[r], .keep_ppm = keeps[k]};
        bool fits = layout(sizes[s], ranks[r], keeps[k], &l);
        unsure += !fits || !layout(sizes[s], ranks[r], keeps[k], &again) || memcmp(&l, &again, sizeof l) != 0;
        wrong += !as_documented(sizes[s], (uint64_t)ranks[r] - 1, keeps[k], &l);
        odd += l.message_bytes % 16 || l.exponent_bytes % 16 || l.sketch_count * 4 % 16;
        tagc_lhc_geometry_fill(&geo, &shape);
        uint64_t capacity = 0;
        for (uint32_t stripe = 0; stripe < geo.grid.stripes; stripe++)
          capacity += tagc_grid_capacity(&geo.grid, stripe);
        excess +=
          capacity != l.capacity || geo.part_cells > 65535 || geo.union_capacity > (geo.hashes ? 65536 : geo.grid.n);
      }
  ok(unsure == 0, "layouts are pure");
  ok(wrong == 0, "sizes are the documented ones");
  ok(odd == 0, "every part is a multiple of 16 bytes");
  ok(excess == 0, "the capacity is the sum of those of the stripes, and 16 bits number what they must");
}

/* More elements never cost less, within one kind of layout and hashing; payloads grow with the fraction kept. */
static void check_monotone(void) {
  int wrong = 0;
  struct tagc_layout before = {0}, now;
  for (uint64_t n = 1; n < 3000000; n += 1 + n / 40, before = now) {
    layout(n, 2, 50000, &now);
    wrong += now.capacity < before.capacity;
    wrong += (before.sketch_count == 0) == (now.sketch_count == 0) && now.message_bytes < before.message_bytes;
  }
  ok(wrong == 0, "layouts grow with n");
  before = (struct tagc_layout){0};
  for (uint32_t keep = 5000; keep <= 1000000; keep += 997, before = now) {
    layout(1 << 20, 2, keep, &now);
    wrong += now.capacity < before.capacity;
    wrong += now.sketch_count < before.sketch_count - before.sketch_count / 10;
  }
  ok(wrong == 0, "layouts grow with what is kept, but for the step from 1.35 to 1.215 counters a value");
}

static void check_refused(void) {
  struct tagc_layout l;
  ok(!layout(0, 2, 50000, &l) && !layout(10, 1, 50000, &l) && !layout(10, 2, 0, &l) && !layout(10, 2, 1000001, &l),
     "nonsense is refused");
  ok(!layout(UINT64_C(1) << 32, 2, 50000, &l) && !layout(UINT64_C(1) << 33, 2, 50000, &l) &&
       !layout(UINT64_MAX, 2, 50000, &l) && !layout(1000, 1 << 17, 50000, &l),
     "so are positions that 32 bits cannot name");
  ok(layout(UINT32_MAX, 65536, 1000000, &l) && l.sketch_count * 4 > UINT32_MAX && l.state_bytes > UINT32_MAX,
     "the largest shape does not overflow");
}

static void check_example(void) {
  static const uint8_t bytes[64] = {[16] = 2, [32] = 1, 2, [50] = 0x80, 0x3f, [55] = 0x40};
  struct sim sim = sim_new("lhc", 3, 2, TAGC_FLOAT32, 1000000);
  sim_put(&sim, 0, 1, 1, 1);
  sim_put(&sim, 0, 1, 2, 2);
  sim_step(&sim, 1);
  ok(sim.layout.message_bytes == 64 && memcmp(sim.job[1].message_in, bytes, 64) == 0,
     "the message is the one of the example");
  sim_free(&sim);
}

/* More values than fit: the capacity is filled and never exceeded, in every stripe. */
static void check_capacity(void) {
  struct sim sim = sim_new("lhc", 700001, 3, TAGC_BFLOAT16, 200000);
  struct tagc_lhc_geometry geo;
  struct tagc_lhc_message message;
  tagc_lhc_geometry_fill(&geo, &sim.shape);
  tagc_lhc_message_fill(&message, &geo);
  for (int rank = 0; rank < 3; rank++)
    for (uint64_t i = 0; i < sim.shape.n; i++)
      sim_put(&sim, rank, 0, i, i % 2 ? 1.0f : sim_normal());
  sim_step(&sim, 1);
  int wrong = 0;
  for (int rank = 1; rank < 3; rank++)
    for (uint32_t stripe = 0; stripe < geo.grid.stripes; stripe++) {
      const uint32_t *words =
        (const uint32_t *)(sim.job[rank].message_out + message.bitmap) + stripe * geo.grid.stripe_lines;
      uint32_t bits = 0;
      for (uint32_t line = 0; line < geo.grid.stripe_lines; line++)
        bits += (uint32_t)__builtin_popcount(words[line]);
      wrong += bits != tagc_grid_capacity(&geo.grid, stripe);
    }
  ok(geo.grid.stripes > 3 && wrong == 0 && sim.stats.unrecovered == 0,
     "every stripe is filled to its capacity exactly");
  sim_free(&sim);
}

int main(void) {
  check_formula();
  check_monotone();
  check_refused();
  check_example();
  check_capacity();
  return tap_done();
}
