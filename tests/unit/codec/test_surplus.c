/* SPDX-License-Identifier: BSD-3-Clause
 * Capacity flags: a rank that fills the capacity of a foreign shard (lhc: of one of its stripes), and leaves a good
 * part behind, reports this in all its messages of the call. job->surplus_seen is then the same on every rank. Values
 * that are not finite have a separate bit. Dense codecs have room for everything.
 */
#include "kernels/codec/exceptions.h"
#include "kernels/lhc/lhc.h"
#include "tests/unit/codec/sim.h"
#include "tests/unit/codec/variants.h"

enum { EXCEPTION = 1, SURPLUS = 2 }; /* on the wire */

struct setting {
  const char *codec;
  uint64_t n;
  uint32_t keep_ppm; /* at most 250000: see put_some() */
  enum tagc_dtype dtype;
  enum tagc_storage residual;
};

static struct tagc_grid grid_of(const struct sim *sim) {
  struct tagc_lhc_geometry geo;
  tagc_lhc_geometry_fill(&geo, &sim->shape);
  if (strcmp(sim->codec->name, "sparse") == 0)
    tagc_grid_fill(&geo.grid, sim->shape.n, sim->shape.keep_ppm, 1);
  return geo.grid;
}

/* Puts values from..to-1 of a stripe, counted across its lines, so that no block of 256 fills up. */
static void put_some(struct sim *sim, int rank, int shard, uint32_t stripe, uint32_t from, uint32_t to, float x) {
  const struct tagc_grid grid = grid_of(sim);
  const uint32_t lines = tagc_grid_stripe_lines(&grid, stripe);
  for (uint32_t i = 0, found = 0; found < to; i++) {
    const uint64_t at = (uint64_t)tagc_grid_line(grid.stripes, stripe, i % lines) * TAGC_GRID_LINE + i / lines;
    if (at >= sim->shape.n)
      continue;
    if (found++ >= from)
      sim_put(sim, rank, shard, at, x);
  }
}

/* Puts `more` values than fit (or less), in all stripes of all shards that `rank` sends. */
static void put_all(struct sim *sim, int rank, int more) {
  const struct tagc_grid grid = grid_of(sim);
  for (int shard = 0; shard < sim->shape.nranks; shard++)
    for (uint32_t stripe = 0; stripe < grid.stripes; stripe++)
      put_some(sim, rank, shard, stripe, 0, tagc_grid_capacity(&grid, stripe) + (uint32_t)more, (float)(1 + shard % 5));
}

/* Runs a first call, or the next one. Flags that are already set must be cleared if they do not apply. */
static void step(struct sim *sim, bool fresh) {
  for (int rank = 0; rank < sim->shape.nranks; rank++) {
    sim->job[rank].residual_empty |= fresh;
    sim->job[rank].nonfinite_seen = sim->job[rank].surplus_seen = true;
  }
  sim_step(sim, 77);
}

/* True if `sender` alone reports `told`, in all its messages, and all ranks read it. */
static bool heard(const struct sim *sim, int sender, uint32_t told) {
  bool good = true;
  for (int rank = 0; rank < sim->shape.nranks; rank++) {
    const struct tagc_job *job = &sim->job[rank];
    good &= job->nonfinite_seen == ((told & EXCEPTION) != 0) && job->surplus_seen == ((told & SURPLUS) != 0);
    for (int shard = 0; shard < sim->shape.nranks; shard++) {
      uint32_t word;
      memcpy(&word, job->message_out + (size_t)shard * sim->layout.message_bytes + 4, sizeof word);
      good &= shard == rank || word == (rank == sender ? told : 0);
    }
  }
  return good;
}

/* Edges of the capacity. The sender is the last rank, which fills the last stripe of its last foreign shard. */
static void check_edges(struct sim *sim, const char *what) {
  const int nranks = sim->shape.nranks, sender = nranks - 1, last = nranks - 2;
  const struct tagc_grid grid = grid_of(sim);
  const uint32_t stripe = grid.stripes - 1, room = tagc_grid_capacity(&grid, stripe);
  for (int rank = 0; rank < nranks; rank++)
    put_all(sim, rank, -1);
  step(sim, true);
  ok(room > 2 && heard(sim, sender, 0), "%s: all shards filled but for one place each: nobody is full", what);
  put_some(sim, sender, last, stripe, 0, room, 64);
  step(sim, true);
  ok(heard(sim, sender, 0), "%s: exactly full: nothing stays behind", what);
  put_some(sim, sender, last, stripe, room, room + room / 2 + 1, 64);
  step(sim, true);
  ok(heard(sim, sender, SURPLUS), "%s: half as many again, in one stripe of one shard of one rank: all ranks know",
     what);
  put_some(sim, sender, last, stripe, room, room + room / 2 + 1, 0x1p-9f);
  step(sim, true);
  ok(heard(sim, sender, 0), "%s: full, and what stays is as little as rounding leaves: that does not count", what);
  sim_clear(sim);
  put_some(sim, sender, last, stripe, 0, room, 0x1.8p-121f);
  for (int rank = 0; rank < nranks; rank++)
    for (uint64_t i = 0; i < sim->shape.n; i++)
      sim_put(sim, rank, rank, i, 1);
  step(sim, true);
  ok(heard(sim, sender, 0), "%s: neither own shards count nor what counts as zero", what);
}

static void check_residual(struct sim *sim, const char *what) {
  const int sender = sim->shape.nranks - 1;
  const struct tagc_grid grid = grid_of(sim);
  const uint32_t stripe = grid.stripes / 2, room = tagc_grid_capacity(&grid, stripe);
  const uint32_t many = room + room / 2 + 1;
  sim_clear(sim);
  put_some(sim, sender, 0, stripe, 0, many, 1);
  step(sim, true);
  bool good = heard(sim, sender, SURPLUS);
  sim_clear(sim);
  step(sim, false);
  ok(good && heard(sim, sender, 0), "%s: half as many too many: told, and not in the next call, which sends them",
     what);
  put_some(sim, sender, 0, stripe, 0, many, 1);
  step(sim, true);
  sim_clear(sim);
  put_some(sim, sender, 0, stripe, many, many + room, 1);
  step(sim, false);
  ok(heard(sim, sender, SURPLUS), "%s: as many as fit, and those that had stayed: told", what);
}

static void check_exceptions(struct sim *sim, const char *what) {
  const int nranks = sim->shape.nranks, sender = nranks - 1;
  const struct tagc_grid grid = grid_of(sim);
  const uint32_t room = tagc_grid_capacity(&grid, 0);
  sim_clear(sim);
  put_some(sim, sender, 0, 0, 0, room - 1, 1);
  put_some(sim, sender, 0, 0, room - 1, room + 1, INFINITY);
  step(sim, true);
  ok(heard(sim, sender, EXCEPTION), "%s: exceptions take no room", what);
  put_some(sim, sender, 0, 0, room + 1, 2 * room, 1);
  step(sim, true);
  ok(heard(sim, sender, EXCEPTION | SURPLUS), "%s: full, and with exceptions: both are told", what);
  sim_clear(sim);
  put_some(sim, sender, 0, 0, 0, 2 * room, 1);
  sim_put(sim, sender, sender, 5, NAN);
  step(sim, true);
  ok(heard(sim, sender, EXCEPTION | SURPLUS), "%s: full, and an exception in the own shard", what);
  sim_clear(sim);
  for (uint64_t i = 0; i < 2 * tagc_exceptions_capacity(sim->shape.n); i++)
    sim_put(sim, sender, 0, i, NAN);
  step(sim, true);
  ok(heard(sim, sender, EXCEPTION), "%s: more exceptions than fit do not fill a shard", what);
}

/* Rank 0's reaction to received words, after a call in which no rank had anything to report. */
static void check_hostile(struct sim *sim, const char *what, bool dense) {
  static const uint32_t words[] = {EXCEPTION, SURPLUS, EXCEPTION | SURPLUS, 4, 0xfffffffcu, 0x80000001u, 0xfffffffeu};
  struct tagc_job *job = &sim->job[0];
  bool good = true;
  sim_clear(sim);
  step(sim, true);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    for (int sender = 1; sender < sim->shape.nranks; sender++) {
      uint8_t *at = job->message_in + (size_t)sender * sim->layout.message_bytes + 4;
      memcpy(at, &words[i], sizeof *words);
      sim->codec->decode(job);
      memset(at, 0, sizeof *words);
      good &= job->nonfinite_seen == ((words[i] & EXCEPTION) != 0);
      good &= job->surplus_seen == (!dense && (words[i] & SURPLUS) != 0);
    }
  ok(good, "%s: each bit is read for itself, and no others", what);
}

static void check(const struct setting *s, int nranks) {
  struct sim sim = sim_new_stored(s->codec, s->n, nranks, s->dtype, s->keep_ppm, s->residual);
  char what[128];
  snprintf(what, sizeof what, "%s n=%llu W=%d type %d storage %d, %zu counters in %u stripes", s->codec,
           (unsigned long long)s->n, nranks, s->dtype, s->residual, sim.layout.sketch_count, grid_of(&sim).stripes);
  check_edges(&sim, what);
  check_residual(&sim, what);
  check_exceptions(&sim, what);
  check_hostile(&sim, what, false);
  sim_free(&sim);
}

/* In a block of 256 `sparse` sends 255 values; the one left over still counts as chosen. */
static void check_full_blocks(void) {
  struct sim sim = sim_new("sparse", 512, 3, TAGC_FLOAT32, 900000);
  const uint64_t room = 460;
  for (uint64_t i = 0; i < room - 1; i++)
    sim_put(&sim, 2, 0, i, 3);
  step(&sim, true);
  ok(sim.layout.capacity == room && heard(&sim, 2, 0), "a full block does not make a full shard");
  for (uint64_t i = room - 1; i < 512; i++)
    sim_put(&sim, 2, 0, i, 3);
  step(&sim, true);
  ok(heard(&sim, 2, SURPLUS), "a full shard is one although a block sends one less");
  sim_free(&sim);
}

static void check_everything(const char *codec) {
  struct sim sim = sim_new(codec, 300, 3, TAGC_FLOAT32, 1000000);
  for (uint64_t i = 0; i < 299; i++)
    sim_put(&sim, 1, 2, i, 1);
  step(&sim, true);
  bool good = heard(&sim, 1, 0);
  sim_put(&sim, 1, 2, 299, 1);
  step(&sim, true);
  ok(good && heard(&sim, 1, 0), "%s: where all is kept, nothing stays behind a shard without a zero", codec);
  sim_free(&sim);
}

static void check_dense(const struct tagc_codec *codec) {
  struct sim sim = sim_new(codec->name, 700, 3, TAGC_FLOAT32, 50000);
  const bool tells = strcmp(codec->name, "none") != 0 && strcmp(codec->name, "precise") != 0;
  bool seen = false;
  for (uint64_t i = 0; i < 700; i++)
    for (int rank = 0; rank < 9; rank++)
      sim_put(&sim, rank / 3, rank % 3, i, sim_normal());
  step(&sim, true);
  for (int rank = 0; rank < 3; rank++)
    seen |= sim.job[rank].surplus_seen;
  ok(!seen && (!tells || heard(&sim, 0, 0)), "%s is never full", codec->name);
  if (tells)
    check_hostile(&sim, codec->name, true);
  sim_free(&sim);
}

static void check_all(void) {
  static const struct setting settings[] = {
    {"sparse", 5003, 50000, TAGC_FLOAT32, TAGC_STORAGE_FP32},
    {"sparse", 5003, 50000, TAGC_BFLOAT16, TAGC_STORAGE_BF16},
    {"sparse", 1009, 200000, TAGC_FLOAT32, TAGC_STORAGE_INT8},
    {"lhc", 600, 100000, TAGC_FLOAT32, TAGC_STORAGE_FP32},
    {"lhc", 600, 100000, TAGC_BFLOAT16, TAGC_STORAGE_BF16},
    {"lhc", 600, 100000, TAGC_FLOAT32, TAGC_STORAGE_INT8},
    {"lhc", 20011, 250000, TAGC_FLOAT32, TAGC_STORAGE_FP32},
    {"lhc", 20011, 250000, TAGC_BFLOAT16, TAGC_STORAGE_BF16},
    {"lhc", 20011, 250000, TAGC_FLOAT32, TAGC_STORAGE_INT8},
    {"lhc", 300007, 250000, TAGC_BFLOAT16, TAGC_STORAGE_FP32},
  };
  static const int ranks[] = {2, 3, 8};
  sim_random_restart();
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    for (size_t w = 0; w < sizeof ranks / sizeof *ranks; w++)
      if (settings[i].n < 100000 || ranks[w] < 8) /* 8: 19 million values a call */
        check(&settings[i], ranks[w]);
  check_full_blocks();
  check_everything("sparse");
  check_everything("lhc");
  for (const struct tagc_codec *const *codec = tagc_codecs; *codec; codec++)
    if (!(*codec)->needs_residual)
      check_dense(*codec);
}

int main(void) {
  with_each_variant(check_all);
  return tap_done();
}
