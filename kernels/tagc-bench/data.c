/* SPDX-License-Identifier: BSD-3-Clause
 * Gradients: made up, or read from the files of TAGC_DUMP (interpose/exec/dump.h: raw elements, the shape in the name).
 * Made-up values depend on seed, rank and position alone, so a seed always gives the same.
 */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/tagc-bench/bench.h"
#include "kernels/codec/bits.h"
#include "kernels/codec/device.h"

#define SCALE 0x1p-6 /* gradients are small, and fp16 must hold the widest of these */
#define PI 3.14159265358979323846

enum { WIDTH = 768, NARROW = 64, COLUMNS = 8, RUN = 4096 };

void *bench_need(size_t bytes) {
  void *memory = tagc_device_host.alloc(&tagc_device_host, bytes, NULL);
  if (!memory)
    bench_stop(BENCH_FAILED, "no memory for %zu bytes", bytes);
  memset(memory, 0, bytes);
  return memory;
}

void bench_release(const void *memory) { tagc_device_host.release(&tagc_device_host, (void *)(uintptr_t)memory, NULL); }

void bench_check_memory(double bytes) {
  const double have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  if (bytes > 0.8 * have)
    bench_stop(BENCH_FAILED,
               "that takes %.1f GiB of memory, and this machine has %.1f: choose fewer --elements or "
               "--ranks",
               bytes * 0x1p-30, have * 0x1p-30);
}

/* -- made up ------------------------------------------------------------------------------------------------------ */

/* The source of one rank's values: each position draws its own. */
struct source {
  uint64_t key;         /* of the rank */
  uint64_t shared;      /* of all ranks */
  uint64_t width, rows; /* of the gradient's matrix */
  uint32_t *tokens;     /* sparse rows: the count of each row in the rank's batch */
};

/* Two independent draws per position, both in (0, 1). */
static double uniform(uint64_t key, uint64_t i, unsigned which) {
  return ((double)(tagc_mix64(key + 4 * i + which) >> 11) + 0.5) * 0x1p-53;
}

/* Box, Muller 1958. */
static double normal(uint64_t key, uint64_t i) {
  return sqrt(-2 * log(uniform(key, i, 0))) * cos(2 * PI * uniform(key, i, 1));
}

static double random_sign(uint64_t key, uint64_t i) { return tagc_mix64(key + 4 * i + 3) >> 63 ? -1 : 1; }

static double draw_gauss(const struct source *s, uint64_t i) { return normal(s->key, i); }

static double draw_laplace(const struct source *s, uint64_t i) {
  return -random_sign(s->key, i) * log(uniform(s->key, i, 0));
}

/* Three degrees of freedom: a normal over the root of the mean of three squares. Two of these sum to an exponential. */
static double draw_student_t(const struct source *s, uint64_t i) {
  const double third = normal(~s->key, i), two = -2 * log(uniform(s->key, i, 2));
  return normal(s->key, i) / sqrt((third * third + two) / 3);
}

/* Runs of positions differ in width, as layers do: sigma from 1 to 2. */
static double draw_lognormal(const struct source *s, uint64_t i) {
  const double sigma = 1 + uniform(~s->shared, i / RUN, 0);
  return random_sign(s->key, i) * exp(sigma * normal(s->key, i));
}

/* The gradient of an embedding: rows for the batch's tokens, drawn by Zipf's law, and zeros elsewhere. */
static double draw_sparse_rows(const struct source *s, uint64_t i) {
  const uint64_t row = i / s->width;
  return row < s->rows && s->tokens[row] ? sqrt(s->tokens[row]) * normal(s->key, i) : 0;
}

/* A few columns of the matrix, equal on all ranks, carry almost all of the mass. */
static double draw_clustered_columns(const struct source *s, uint64_t i) {
  for (uint64_t c = 0; c < COLUMNS; c++)
    if (i % s->width == tagc_mix64(s->shared + c) % s->width)
      return 50 * normal(s->key, i);
  return normal(s->key, i);
}

/* The tokens of a rank's batch, a 16th of the vocabulary. By Zipf's law row k has a share of 1/k, so the first k rows
 * have ln k / ln rows. Frequent rows lie anywhere. */
static void draw_tokens(struct source *s) {
  s->tokens = bench_need((s->rows + 1) * sizeof *s->tokens);
  for (uint64_t t = 0; t < (s->rows + 15) / 16; t++) {
    const double place = pow((double)s->rows, uniform(~s->key, t, 2)) - 1;
    s->tokens[tagc_mix64(s->shared + (uint64_t)place) % s->rows]++;
  }
}

static void make_up(struct bench_world *world, enum bench_data data, uint64_t seed) {
  static double (*const draw[BENCH_DATA_COUNT])(const struct source *, uint64_t) = {
    [BENCH_GAUSS] = draw_gauss,
    [BENCH_LAPLACE] = draw_laplace,
    [BENCH_STUDENT_T] = draw_student_t,
    [BENCH_LOGNORMAL] = draw_lognormal,
    [BENCH_SPARSE_ROWS] = draw_sparse_rows,
    [BENCH_CLUSTERED_COLUMNS] = draw_clustered_columns,
  };
  const uint64_t count = (uint64_t)world->ranks * world->n;
  for (int rank = 0; rank < world->ranks; rank++) {
    struct source s = {.shared = tagc_mix64(seed + 1), .width = count < 1024 * WIDTH ? NARROW : WIDTH};
    s.key = tagc_mix64(s.shared + (uint64_t)rank + 1);
    s.rows = count / s.width ? count / s.width : 1;
    if (data == BENCH_SPARSE_ROWS)
      draw_tokens(&s);
    for (uint64_t i = 0; i < count; i++)
      tagc_store(world->send[rank], i, world->dtype, (float)(SCALE * draw[data](&s, i)));
    bench_release(s.tokens);
  }
}

/* -- read --------------------------------------------------------------------------------------------------------- */

/* The end of a dump's name: ...-rank0-unit3-fp32-W2-n12345.raw. Absent parts are 0 or -1. */
struct file_name {
  int rank, ranks;
  uint64_t n;
  bool typed;
  enum tagc_dtype dtype;
};

static struct file_name parse_name(const char *path) {
  struct file_name name = {.rank = -1};
  const char *slash = strrchr(path, '/'), *at = NULL, *rank = NULL;
  path = slash ? slash + 1 : path;
  for (const char *p = path; (p = strstr(p, "-W")); p++)
    at = p;
  for (const char *p = path; (p = strstr(p, "-rank")); p++)
    rank = p;
  unsigned long long n;
  int ranks, end = 0;
  if (!at || sscanf(at, "-W%d-n%llu.raw%n", &ranks, &n, &end) != 2 || !end || at[end] || ranks < 2 || n == 0)
    return name;
  name.ranks = ranks;
  name.n = n;
  for (int t = 0; t < 3; t++) {
    const char *type = bench_dtype_name((enum tagc_dtype)t);
    size_t length = strlen(type);
    if ((size_t)(at - path) > length && memcmp(at - length, type, length) == 0) {
      name.typed = true;
      name.dtype = (enum tagc_dtype)t;
    }
  }
  if (rank && sscanf(rank, "-rank%d-", &name.rank) != 1)
    name.rank = -1;
  return name;
}

static uint64_t size_of_file(const char *path) {
  struct stat status;
  if (stat(path, &status) != 0)
    bench_stop(BENCH_FAILED, "%s: %s", path, strerror(errno));
  if (!S_ISREG(status.st_mode))
    bench_stop(BENCH_FAILED, "%s: not a file", path);
  return (uint64_t)status.st_size;
}

static void read_file(const char *path, void *to, uint64_t bytes) {
  FILE *file = fopen(path, "rbe");
  if (!file)
    bench_stop(BENCH_FAILED, "%s: %s", path, strerror(errno));
  const uint64_t got = fread(to, 1, bytes, file);
  if (got != bytes)
    bench_stop(BENCH_FAILED, "%s: %s", path, ferror(file) ? strerror(errno) : "it became shorter");
  fclose(file);
}

/* The ranks of one reduce-scatter have one shape, and a file each. A folder of two runs or pipeline stages has more. */
static void check_names(const struct bench_options *o) {
  for (int i = 1; i < o->input_count; i++) {
    const struct file_name name = parse_name(o->inputs[i]);
    for (int j = 0; j < i && name.n; j++) {
      const struct file_name other = parse_name(o->inputs[j]);
      if (other.n &&
          (other.n != name.n || other.ranks != name.ranks || other.typed != name.typed || other.dtype != name.dtype))
        bench_stop(BENCH_USAGE, "the names say different shapes: %s and %s; give files of one type, W and n",
                   o->inputs[j], o->inputs[i]);
      if (name.rank >= 0 && other.rank == name.rank)
        bench_stop(BENCH_USAGE, "two files of rank %d: %s and %s; give one a rank", name.rank, o->inputs[j],
                   o->inputs[i]);
    }
  }
}

/* The shape of the world: from options, else the name of the first file, else its size. */
static void shape_from_files(const struct bench_options *o, struct bench_world *world) {
  const struct file_name name = parse_name(o->inputs[0]);
  check_names(o);
  world->dtype = o->dtype_given || !name.typed ? o->dtype : name.dtype;
  world->ranks = o->ranks ? o->ranks : name.ranks ? name.ranks : o->input_count > 1 ? o->input_count : 2;
  if (world->ranks > BENCH_MOST_RANKS)
    bench_stop(BENCH_USAGE, "%s: %d ranks, at most %d are simulated (--ranks says otherwise)", o->inputs[0],
               world->ranks, BENCH_MOST_RANKS);
  if (o->input_count != 1 && o->input_count != world->ranks)
    bench_stop(BENCH_USAGE, "--input takes one file for all ranks, or one for each of the %d, not %d", world->ranks,
               o->input_count);
  const uint64_t held = size_of_file(o->inputs[0]) / tagc_dtype_size(world->dtype);
  world->n = o->elements ? o->elements : name.n && name.ranks == world->ranks ? name.n : held / (uint64_t)world->ranks;
  for (int i = 0; i < o->input_count; i++) {
    const uint64_t bytes = size_of_file(o->inputs[i]);
    if (world->n == 0 || world->n > bytes / tagc_dtype_size(world->dtype) / (uint64_t)world->ranks)
      bench_stop(BENCH_FAILED, "%s: %llu bytes are not %d shards of %llu elements of %s", o->inputs[i],
                 (unsigned long long)bytes, world->ranks, (unsigned long long)(world->n ? world->n : 1),
                 bench_dtype_name(world->dtype));
  }
}

/* One file for all: rank r gets it rotated by r shards, so that ranks differ. */
static void read_one(const struct bench_options *o, struct bench_world *world) {
  const uint64_t shard = world->n * tagc_dtype_size(world->dtype), ranks = (uint64_t)world->ranks;
  read_file(o->inputs[0], world->send[0], ranks * shard);
  for (uint64_t rank = 1; rank < ranks; rank++)
    for (uint64_t j = 0; j < ranks; j++)
      memcpy((char *)world->send[rank] + j * shard, (char *)world->send[0] + (j + rank) % ranks * shard, shard);
}

/* One file per rank: by the ranks in the names if these are 0 to ranks - 1, else in the given order. */
static void read_each(const struct bench_options *o, struct bench_world *world) {
  const char *path[BENCH_MOST_RANKS] = {NULL};
  bool named = true;
  for (int i = 0; i < world->ranks; i++) {
    const int rank = parse_name(o->inputs[i]).rank;
    named = named && rank >= 0 && rank < world->ranks;
    if (named)
      path[rank] = o->inputs[i];
  }
  for (int i = 0; i < world->ranks; i++)
    read_file(named ? path[i] : o->inputs[i], world->send[i],
              (uint64_t)world->ranks * world->n * tagc_dtype_size(world->dtype));
}

/* -- the world ---------------------------------------------------------------------------------------------------- */

struct bench_world bench_world_new(const struct bench_options *o) {
  struct bench_world world = {.dtype = o->dtype,
                              .ranks = o->ranks ? o->ranks : 2,
                              .n = o->elements ? o->elements : 1 << 20,
                              .name = bench_data_name(o->data)};
  if (o->from_files) {
    world.name = o->inputs[0];
    shape_from_files(o, &world);
  }
  const double bytes = (double)world.ranks * (double)world.n * (double)tagc_dtype_size(world.dtype);
  bench_check_memory(bytes * world.ranks);
  for (int rank = 0; rank < world.ranks; rank++)
    world.send[rank] = bench_need((size_t)bytes);
  if (!o->from_files)
    make_up(&world, o->data, o->seed);
  else if (o->input_count == 1)
    read_one(o, &world);
  else
    read_each(o, &world);
  return world;
}

void bench_world_free(struct bench_world *world) {
  for (int rank = 0; rank < world->ranks; rank++)
    bench_release(world->send[rank]);
}
