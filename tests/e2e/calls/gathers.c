/* SPDX-License-Identifier: BSD-3-Clause
 * All-gathers of parameters, as sharded data parallelism calls them: every unit is gathered before its forward and
 * before its backward pass, and reduced after that. In between the program gathers bytes, norms and other data.
 *
 * Run under tests/standin/launch with the library preloaded and TAGC_WARMUP=0 TAGC_MIN_BYTES=4K.
 *
 *   gathers TYPE STEPS [in-place] [groups] [wild[=STEP]] [large] [jump=STEP] [hostile=STEP] [moments=STEP] [nonfinite]
 *           [most=ERROR] [least=ERROR]
 *
 * jump       other parameters from that step on
 * wild       other parameters in every step, or from that step on
 * hostile    rank 1's last unit ends in random bits in that step
 * large      units worth cutting
 * moments    gathers those of an optimiser before the forward pass of that step, as for a checkpoint. The last unit is
 *            kept after its forward pass, so no other call has its size.
 * nonfinite  some values are not finite
 * most, least  bounds for the largest relative error (L2) of gathered data; both 0: the bits are unchanged
 */
#include "env/hash.h"
#include "tests/e2e/harness.h"

enum { UNITS = 4, SMALL = 7, BYTES = 5000, ODD = 3001, MOST_RANKS = 16 };
enum { MOST_COUNT = 4099 * 16 };
static size_t counts[UNITS] = {2048, 4099, 4099, 3000};

static ncclDataType_t type;
static const char *type_name;
static bool in_place, groups, nonfinite, large;
static long wild = -1, jump = -1, hostile = -1, moments = -1;
static double most, least, largest;
static float numbers[2][MOST_COUNT]; /* of a shard: as they came, and as they should */
static char *shards[UNITS], *whole[UNITS], *gradient, *reduced;
static bool same = true, exact = true, own_exact = true, others_exact = true, moments_exact = true, specials = true;
static uint64_t hash_of_all = TAGC_HASH_START;

static size_t element(void) { return type == ncclFloat32 ? 4 : 2; }

/* A rank's part of a unit: the constants of its values, and the shard of the last requested step. */
static struct shard {
  uint64_t era; /* of base and slope, from 1 */
  long step;    /* of the bytes, from 1 */
  float *base, *slope, *values;
  char *bytes;
} known[MOST_RANKS][UNITS];

/* Like trained parameters: small, of many sizes, and a little different in every step. */
static void begin_era(struct shard *shard, int r, int unit, uint64_t era) {
  const uint64_t seed = mix((uint64_t)r << 40 ^ (uint64_t)unit << 20 ^ era << 50);
  for (size_t i = 0; i < counts[unit]; i++) {
    const uint64_t h = mix(seed ^ i);
    const float x = (float)(h & 0xffffff) / 8388608 - 1, y = (float)(h >> 24 & 0xffffff) / 8388608 - 1;
    shard->base[i] = 0.05f * x * y;
    shard->slope[i] = 1e-4f * x;
  }
  for (size_t i = 5; nonfinite && i < counts[unit]; i += 997)
    shard->base[i] = i % 2 ? INFINITY : NAN;
  shard->era = era + 1;
}

/* The bytes of rank r's shard in a step; read-only for the caller. */
static const char *shard_of(int r, long step, int unit) {
  struct shard *shard = &known[r][unit];
  const uint64_t era = wild >= 0 && step >= wild ? (uint64_t)step : jump >= 0 && step >= jump ? 1 : 0;
  if (!shard->bytes) {
    shard->base = malloc(counts[unit] * sizeof *shard->base);
    shard->slope = malloc(counts[unit] * sizeof *shard->slope);
    shard->values = malloc(counts[unit] * sizeof *shard->values);
    shard->bytes = malloc(counts[unit] * element());
  }
  if (shard->era != era + 1)
    begin_era(shard, r, unit, era);
  if (shard->step != step + 1) {
    for (size_t i = 0; i < counts[unit]; i++)
      shard->values[i] = shard->base[i] + shard->slope[i] * (float)step;
    store_all(shard->bytes, shard->values, counts[unit], type);
    for (size_t i = counts[unit] / 2; r == 1 && step == hostile && unit == UNITS - 1 && i < counts[unit] * element();
         i++)
      shard->bytes[i] = (char)mix((uint64_t)i);
    shard->step = step + 1;
  }
  return shard->bytes;
}

/* True if rank r's data came out exactly; also updates the largest error. */
static bool compare(const char *got, int r, long step, int unit) {
  const char *wanted = shard_of(r, step, unit);
  double error2 = 0, norm2 = 0;
  if (memcmp(got, wanted, counts[unit] * element()) == 0)
    return true;
  load_all(numbers[0], got, counts[unit], type);
  load_all(numbers[1], wanted, counts[unit], type);
  for (size_t i = 0; i < counts[unit] && !(step == hostile && unit == UNITS - 1); i++) {
    const double a = numbers[0][i], b = numbers[1][i];
    if (isfinite(b)) {
      error2 += (a - b) * (a - b);
      norm2 += b * b;
    } else {
      specials &= isnan(b) ? isnan(a) : a == b;
    }
  }
  const double error = norm2 > 0 ? sqrt(error2 / norm2) : 0;
  largest = error > largest || error != error ? error : largest;
  return false;
}

/* In place a rank's own shard may differ from the others' copies. */
static void check(long step, int unit) {
  const size_t bytes = counts[unit] * element();
  int64_t words[2 * MOST_RANKS], out[2 * MOST_RANKS];
  for (int r = 0; r < nranks; r++) {
    const char *shard = whole[unit] + (size_t)r * bytes;
    const uint64_t h = tagc_hash_words(shard, bytes);
    const bool is_exact = compare(shard, r, step, unit);
    exact &= is_exact;
    own_exact &= is_exact || r != rank;
    words[2 * r] = r == rank && in_place ? INT64_MAX : (int64_t)(h >> 1);
    words[2 * r + 1] = r == rank && in_place ? INT64_MAX : -words[2 * r];
    hash_of_all = tagc_hash_add(hash_of_all, &h, sizeof h);
  }
  CHECK(ncclAllReduce(words, out, 2 * (size_t)nranks, ncclInt64, ncclMin, world, NULL));
  for (int r = 0; r < nranks; r++)
    same &= out[2 * r] == -out[2 * r + 1];
}

static void gather(long step, int unit) {
  char *to = whole[unit];
  const size_t bytes = counts[unit] * element();
  memset(to, 0x55, bytes * (size_t)nranks);
  char *from = in_place ? to + (size_t)rank * bytes : shards[unit];
  memcpy(from, shard_of(rank, step, unit), bytes);
  CHECK(ncclAllGather(from, to, counts[unit], type, other, NULL));
}

/* Gathers data that are no parameters. */
static void gather_others(long step) {
  static unsigned char bytes[BYTES], all_bytes[BYTES * MOST_RANKS];
  static float small[SMALL], all_small[SMALL * MOST_RANKS], odd[ODD], all_odd[ODD * MOST_RANKS];
  memset(bytes, (int)(rank + step), sizeof bytes);
  for (int i = 0; i < SMALL; i++)
    small[i] = (float)(rank + i) * 1.1f;
  for (int i = 0; i < ODD; i++)
    odd[i] = (float)(rank * i) * 1.1f;
  CHECK(ncclAllGather(bytes, all_bytes, BYTES, ncclUint8, other, NULL));
  CHECK(ncclAllGather(small, all_small, SMALL, ncclFloat32, other, NULL));
  CHECK(ncclAllGather(odd, all_odd, ODD, ncclFloat32, other, NULL));
  for (int r = 0; r < nranks; r++) {
    for (int i = 0; i < BYTES; i++)
      others_exact &= all_bytes[r * BYTES + i] == (unsigned char)(r + step);
    for (int i = 0; i < SMALL; i++)
      others_exact &= all_small[r * SMALL + i] == (float)(r + i) * 1.1f;
    for (int i = 0; i < ODD; i++)
      others_exact &= all_odd[r * ODD + i] == (float)(r * i) * 1.1f;
  }
}

/* Gathers two of each unit, one after the other. The very first one cannot be told from parameters. */
static void gather_moments(void) {
  static float own[MOST_COUNT], all[MOST_COUNT * MOST_RANKS];
  for (int unit = 0; unit < UNITS; unit++)
    for (int second = 0; second < 2; second++) {
      for (size_t i = 0; i < counts[unit]; i++)
        own[i] = expf(-(float)(mix(i) % 40)) * (float)(rank + 1 + second);
      CHECK(ncclAllGather(own, all, counts[unit], ncclFloat32, other, NULL));
      for (size_t i = 0; i < counts[unit] * (size_t)nranks; i++)
        moments_exact &= (unit == 0 && !second) || all[i] == expf(-(float)(mix(i % counts[unit]) % 40)) *
                                                               (float)(i / counts[unit] + 1 + (size_t)second);
    }
}

static void reduce(int unit) { CHECK(ncclReduceScatter(gradient, reduced, counts[unit], type, ncclSum, other, NULL)); }

static void run_step(long step) {
  gather_others(step);
  if (step == moments)
    gather_moments();
  if (groups)
    CHECK(ncclGroupStart());
  for (int unit = 0; unit < UNITS; unit++)
    gather(step, unit);
  if (groups)
    CHECK(ncclGroupEnd());
  for (int unit = 0; unit < UNITS; unit++)
    check(step, unit);
  for (int unit = UNITS - 1; unit >= 0; unit--) {
    if (groups)
      CHECK(ncclGroupStart());
    if (moments < 0 || unit + 1 < UNITS)
      gather(step, unit);
    if (groups && unit + 1 < UNITS)
      reduce(unit + 1);
    if (groups)
      CHECK(ncclGroupEnd());
    check(step, unit);
    if (!groups)
      reduce(unit);
  }
  if (groups)
    reduce(0);
}

static bool number(const char *argument, const char *name, double *value) {
  const size_t length = strlen(name);
  if (strncmp(argument, name, length) != 0)
    return false;
  *value = atof(argument + length);
  return true;
}

static bool read_arguments(int argc, char **argv, long *steps) {
  static const struct {
    const char *name;
    ncclDataType_t type;
  } types[] = {{"fp32", ncclFloat32}, {"fp16", ncclFloat16}, {"bf16", ncclBfloat16}};
  for (size_t i = 0; i < 3 && argc > 2; i++)
    if (strcmp(argv[1], types[i].name) == 0) {
      type_name = types[i].name;
      type = types[i].type;
    }
  *steps = argc > 2 ? atol(argv[2]) : 0;
  for (int i = 3; i < argc; i++) {
    double value;
    in_place |= strcmp(argv[i], "in-place") == 0;
    if (strcmp(argv[i], "wild") == 0)
      wild = 0;
    groups |= strcmp(argv[i], "groups") == 0;
    large |= strcmp(argv[i], "large") == 0;
    nonfinite |= strcmp(argv[i], "nonfinite") == 0;
    if (number(argv[i], "wild=", &value))
      wild = (long)value;
    if (number(argv[i], "jump=", &value))
      jump = (long)value;
    if (number(argv[i], "hostile=", &value))
      hostile = (long)value;
    if (number(argv[i], "moments=", &value))
      moments = (long)value;
    (void)(number(argv[i], "most=", &most) || number(argv[i], "least=", &least));
  }
  return type_name && *steps > 0;
}

int main(int argc, char **argv) {
  long steps;
  if (!read_arguments(argc, argv, &steps)) {
    fprintf(stderr,
            "usage: gathers fp32|fp16|bf16 STEPS [in-place] [groups] [wild[=STEP]] [large] [jump=STEP] [hostile=STEP] "
            "[moments=STEP] [nonfinite] [most=ERROR] [least=ERROR]\n");
    return 2;
  }
  meet();
  CHECK(ncclCommSplit(world, 0, rank, &other, NULL));
  for (int unit = 0; unit < UNITS; unit++) {
    counts[unit] *= large ? 16 : 1;
    shards[unit] = malloc(counts[unit] * element());
    whole[unit] = malloc(counts[unit] * element() * (size_t)nranks);
  }
  gradient = calloc(MOST_COUNT * (size_t)nranks, element());
  reduced = malloc(MOST_COUNT * element());
  for (size_t i = 0; i < MOST_COUNT * (size_t)nranks; i++)
    store(gradient, i, (float)(i % 17) - 8, type);
  for (long step = 0; step < steps; step++)
    run_step(step);
  CHECK(ncclCommDestroy(other));
  other = NULL;
  all_ok(same, "%s: every rank ends with the same bytes", type_name);
  all_ok(exact || most > 0, "%s: bit for bit what went in, or rounding was expected", type_name);
  all_ok(largest <= most && largest >= least, "%s: the largest error is %.3g", type_name, largest);
  all_ok(own_exact || !in_place, "%s: in place the own shard is left as it is", type_name);
  all_ok(specials, "%s: what is not finite comes out in its place", type_name);
  all_ok(moments_exact, "%s: moments of the size of parameters come out bit for bit, but for the first ones",
         type_name);
  all_ok(others_exact, "%s: what is no parameter comes out bit for bit", type_name);
  if (rank == 0)
    printf("hash %016llx\n", (unsigned long long)hash_of_all);
  for (int unit = 0; unit < UNITS; unit++) {
    for (int r = 0; r < nranks; r++) {
      free(known[r][unit].base);
      free(known[r][unit].slope);
      free(known[r][unit].values);
      free(known[r][unit].bytes);
    }
    free(shards[unit]);
    free(whole[unit]);
  }
  free(gradient);
  free(reduced);
  return finish();
}
