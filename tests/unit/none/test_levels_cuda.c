/* SPDX-License-Identifier: BSD-3-Clause
 * The CUDA kernels of `precise` in two levels make the host's messages, say which of them lack their sums, and get the
 * host's results: values of all kinds, full lists, odd sizes, few and many groups, specials, hostile messages.
 *
 * It runs on the device of libcuda.so.1: the stand-in, or a GPU (tests/gpu/run). Words: `ptx` takes the PTX for older
 * drivers; `short` leaves out repetitions, for tools that slow everything down; `large` runs the checks only for a GPU.
 */
#include "kernels/codec/assign_buffer.h"
#include "kernels/codec/codecs.h"
#include "kernels/none/levels.h"
#include "tests/unit/device/cuda_rank.h"
#include "tests/unit/none/families.h"

enum { MOST_HOSTS = 8, DTYPES = 3, GROUP = 2048 /* elements of a group */ };

static const char *const types[DTYPES] = {"fp32", "fp16", "bf16"};

struct setting {
  int hosts, local;
  uint64_t n;
  enum tagc_dtype dtype;
  uint32_t divisor;
  int family; /* FAMILIES: specials */
  uint32_t most;
  uint32_t gap; /* elements between shards */
  bool hostile;
};

/* A host of the emulated ranks, on the host and on the device. */
struct side {
  struct tagc_job host, device;
  struct twin send, values, recv, message_out, message_in, flags, state, counts, health;
  uint8_t *said; /* the device's flags belong to nobody on the host */
};

static struct tagc_cuda_launcher launcher;
static char difference[200];
static uint64_t compared, lacking, listed;

static void differs(const struct setting *s, int host, const char *what, size_t at) {
  if (!difference[0])
    snprintf(difference, sizeof difference,
             "%s of host %d differs at %zu: %d hosts of %d, n=%llu, %s, by %u, family %d", what, host, at, s->hosts,
             s->local, (unsigned long long)s->n, types[s->dtype], s->divisor, s->family);
}

static void compare(const struct setting *s, int host, const char *what, const struct twin *twin, size_t from,
                    size_t bytes) {
  const size_t at = twin_differs(twin, from, bytes);
  compared += bytes;
  if (at)
    differs(s, host, what, at - 1);
}

/* NaN, infinities, sums beyond fp32 that come back, and zeros of both signs. */
static uint32_t special_bits(int rank, uint64_t i, enum tagc_dtype dtype) {
  const float large = dtype == TAGC_FLOAT16 ? 65504 : 0x1.fep127f;
  const float cases[][3] = {
    {NAN, 1, 2},           {INFINITY, 1, -large}, {INFINITY, -INFINITY, 0}, {large, large, -large},
    {large, large, large}, {-large, 1, -large},   {-0.0f, -0.0f, -0.0f},    {1, 0x1p-14f, -1}};
  uint8_t stored[4] = {0};
  tagc_store(stored, 0, dtype, cases[i % 8][(rank + (int)(i / 8)) % 3]);
  return bits_at(stored, 0, dtype);
}

static uint64_t stride_of(const struct setting *s) { return s->n + s->gap; }

/* The values of the ranks of a host, each with a shard for every host. The first group alone has specials. */
static uint16_t *draw_values(const struct setting *s, int host) {
  const uint64_t stride = stride_of(s), shards = (uint64_t)(s->local * s->hosts);
  uint16_t *values = calloc(shards * stride, sizeof *values);
  for (uint64_t shard = 0; shard < shards; shard++)
    for (uint64_t i = 0; i < s->n; i++) {
      const int rank = host * s->local + (int)shard / s->hosts;
      const int family = s->family == FAMILIES && i >= GROUP ? NORMAL : s->family;
      values[shard * stride + i] =
        (uint16_t)(family == FAMILIES ? special_bits(rank, i, s->dtype)
                                      : draw_bits((enum family)family, rank, i, s->divisor, s->dtype));
    }
  return values;
}

static void start_side(const struct setting *s, struct side *side, int host, struct tagc_codec_stats *stats) {
  const uint64_t stride = stride_of(s);
  const size_t values = (size_t)(s->local * s->hosts) * stride * sizeof(uint16_t), hosts = (size_t)s->hosts;
  side->host = (struct tagc_job){
    .shape = {.n = s->n, .nranks = s->hosts, .dtype = s->dtype, .keep_ppm = 1, .local = s->local},
    .rank = host,
    .stride = stride,
    .send = draw_values(s, host),
    .values = calloc(1, values),
    .recv = calloc(s->n, sizeof(uint16_t)),
    .scale = 1,
    .divisor = (float)s->divisor,
    .stats = stats,
    .ends = host % 2 == 0,
    .cycle = 1,
  };
  struct tagc_job *job = &side->host;
  tagc_codec_precise.layout(&job->shape, &job->layout);
  const size_t message = job->layout.message_bytes;
  job->message_out = calloc(hosts, message);
  job->message_in = calloc(hosts, message);
  side->device = *job;
  tagc_cuda_codec_of(&tagc_codec_precise)->layout(&tagc_codec_precise, &job->shape, &side->device.layout);
  const size_t flags = hosts * side->device.layout.exponent_bytes;
  side->said = calloc(1, flags);
  side->send = twin_new((void *)(uintptr_t)job->send, values, 0);
  side->values = twin_new((void *)(uintptr_t)job->values, values, 0);
  side->recv = twin_new(job->recv, s->n * sizeof(uint16_t), 0);
  side->message_out = twin_new(NULL, hosts * message, 0);
  side->message_out.host = job->message_out;
  side->message_in = twin_new(job->message_in, hosts * message, 0);
  side->flags = twin_new(NULL, flags, 0);
  side->flags.host = side->said;
  side->state = twin_new(NULL, side->device.layout.state_bytes, 0);
  side->counts = twin_new(NULL, sizeof(struct tagc_counts), 0);
  side->health = twin_new(NULL, sizeof(struct tagc_health), 0);
  MUST(cuMemsetD8Async(side->counts.base + GUARD, 0, side->counts.bytes, NULL));
  MUST(cuMemsetD8Async(side->health.base + GUARD, 0, side->health.bytes, NULL));
  struct tagc_job *device = &side->device;
  device->send = twin_at(&side->send);
  device->values = twin_at(&side->values);
  device->recv = twin_at(&side->recv);
  device->message_out = twin_at(&side->message_out);
  device->message_in = twin_at(&side->message_in);
  device->exponents = twin_at(&side->flags);
  device->state = twin_at(&side->state);
  device->health = twin_at(&side->health);
  MUST(cuCtxSynchronize());
}

static void end_side(struct side *side) {
  const struct twin *all[] = {&side->send,  &side->values, &side->recv,   &side->message_out, &side->message_in,
                              &side->flags, &side->state,  &side->counts, &side->health};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    MUST(cuMemFree_v2(all[i]->base));
  free((void *)(uintptr_t)side->host.send);
  free((void *)(uintptr_t)side->host.values);
  free(side->host.recv);
  free(side->host.message_out);
  free(side->host.message_in);
  free(side->said);
}

static bool is_full(const struct side *side, int shard) {
  uint32_t count;
  memcpy(&count, side->host.message_out + (size_t)shard * side->host.layout.message_bytes, sizeof count);
  listed += count == TAGC_LEVELS_FULL ? 0 : count;
  return count == TAGC_LEVELS_FULL;
}

/* A message that lacks its sums says no more than that. */
static void encode_both(const struct setting *s, struct side *side, int host) {
  const struct tagc_cuda_codec *codec = tagc_cuda_codec_of(&tagc_codec_precise);
  void *counts = twin_at(&side->counts);
  const size_t message = side->host.layout.message_bytes;
  const struct tagc_codec_stats before = *side->host.stats;
  tagc_codec_precise.encode(&side->host);
  MUST(codec->prepare(&launcher, &tagc_codec_precise, &side->device, counts, NULL));
  MUST(codec->encode(&launcher, &tagc_codec_precise, &side->device, counts, NULL));
  for (int shard = 0; shard < s->hosts; shard++) {
    const bool full = is_full(side, shard);
    side->said[(size_t)shard * TAGC_LEVELS_FLAG_BYTES] = full && shard != host;
    lacking += full && shard != host;
    compare(s, host, "a message", &side->message_out, (size_t)shard * message, full ? sizeof(uint32_t) : message);
  }
  compare(s, host, "a flag", &side->flags, 0, side->flags.bytes);
  compare(s, host, "the values", &side->send, 0, side->send.bytes);
  struct tagc_counts after;
  device_read(&after, side->counts.base + GUARD, sizeof after);
  if (after.selected != side->host.stats->selected - before.selected)
    differs(s, host, "the count of values", 0);
}

/* Brings the messages, and the values of hosts without sums. */
static void exchange(const struct setting *s, struct side *sides) {
  const size_t message = sides[0].host.layout.message_bytes, stride = stride_of(s);
  for (int to = 0; to < s->hosts; to++)
    for (int from = 0; from < s->hosts; from++) {
      if (from == to)
        continue;
      memcpy(sides[to].host.message_in + (size_t)from * message, sides[from].host.message_out + (size_t)to * message,
             message);
      for (int local = 0; local < s->local && is_full(&sides[from], to); local++)
        memcpy((uint16_t *)(uintptr_t)sides[to].host.values + (size_t)(local * s->hosts + from) * stride,
               (const uint16_t *)sides[from].host.send + (size_t)(local * s->hosts + to) * stride,
               s->n * sizeof(uint16_t));
    }
}

/* Messages of another program: their lists are too long, or out of order, with places beyond the shard; no two have the
 * same place. */
static void make_hostile(const struct setting *s, struct side *side) {
  for (int from = 0; from < s->hosts; from++) {
    uint8_t *at = side->host.message_in + (size_t)from * side->host.layout.message_bytes;
    const struct tagc_levels_message message = tagc_levels_parts(s->n, at);
    *message.count = from % 2 ? message.capacity + 1000 : message.capacity;
    for (uint32_t e = 0; e < message.capacity; e++)
      message.places[e] = from % 2 ? UINT32_MAX - e : 4 * (e * 7919 % (uint32_t)(s->n / 2)) + (uint32_t)from;
  }
}

static void decode_both(const struct setting *s, struct side *side, int host) {
  struct tagc_job *job = &side->host;
  twin_put(&side->message_in);
  twin_put(&side->values);
  job->has_values = true;
  tagc_codec_precise.decode(job);
  MUST(tagc_cuda_codec_of(&tagc_codec_precise)
         ->decode(&launcher, &tagc_codec_precise, &side->device, twin_at(&side->counts), NULL));
  compare(s, host, "the result", &side->recv, 0, s->hostile ? 0 : side->recv.bytes);
  if (twin_differs(&side->state, 0, 0) || twin_differs(&side->counts, 0, 0))
    differs(s, host, "what is beside the state", 0);
  struct tagc_counts after;
  struct tagc_health health;
  device_read(&after, side->counts.base + GUARD, sizeof after);
  device_read(&health, side->health.base + GUARD, sizeof health);
  if (after.nonfinite_seen != job->nonfinite_seen || health.nonfinite[1] != (job->ends && job->nonfinite_seen))
    differs(s, host, "what was seen", 0);
}

static bool same(const struct setting *s) {
  struct side sides[MOST_HOSTS] = {0};
  struct tagc_codec_stats stats = {0};
  difference[0] = '\0';
  launcher.most = s->most;
  for (int h = 0; h < s->hosts; h++)
    start_side(s, &sides[h], h, &stats);
  for (int h = 0; h < s->hosts; h++)
    encode_both(s, &sides[h], h);
  exchange(s, sides);
  for (int h = 0; h < s->hosts; h++) {
    if (s->hostile)
      make_hostile(s, &sides[h]);
    decode_both(s, &sides[h], h);
    end_side(&sides[h]);
  }
  launcher.most = 0;
  if (difference[0])
    note("%s", difference);
  return !difference[0];
}

/* Every family with every type; hosts, sizes, divisors, gaps and groups take turns. */
static void check_families(bool brief) {
  static const uint64_t sizes[] = {600, 1, 255, 256, 2311, 77, 4099};
  static const uint32_t divisors[] = {1, 6, 8, 24}, most[] = {0, 1, 7, 2, 0}, gaps[] = {0, 0, 3, 512};
  static const int hosts[] = {2, 3, 4}, locals[] = {3, 8, 4, 5};
  unsigned turn = 0;
  for (int family = 0; family <= FAMILIES; family++) {
    bool all = true;
    lacking = listed = 0;
    for (int dtype = TAGC_FLOAT16; dtype < DTYPES; dtype++)
      for (int round = 0; round < (brief ? 2 : 7); round++, turn++) {
        const struct setting s = {.hosts = hosts[turn % 3],
                                  .local = locals[turn / 2 % 4],
                                  .n = sizes[round],
                                  .dtype = (enum tagc_dtype)dtype,
                                  .divisor = divisors[turn / 3 % 4],
                                  .family = family,
                                  .most = most[turn % 5],
                                  .gap = gaps[turn % 4]};
        all &= same(&s);
      }
    ok(all, "values of family %d: the host's messages and results (%llu entries, %llu messages without sums)", family,
       (unsigned long long)listed, (unsigned long long)lacking);
    if (family == ANY)
      ok(lacking > 0, "some lists are full");
    if (family == NORMAL && !brief)
      ok(listed > 0 && lacking == 0, "normal values have entries, and fill no list");
  }
}

/* Chunks are encoded while those before are decoded: what these have seen stays. */
static void check_chunks(void) {
  const struct setting s = {.hosts = 2, .local = 3, .n = 300, .dtype = TAGC_BFLOAT16, .divisor = 1, .family = NORMAL};
  struct side side = {0};
  struct tagc_codec_stats stats = {0};
  struct tagc_counts counts = {.nonfinite_seen = 1};
  bool kept[2];
  start_side(&s, &side, 0, &stats);
  MUST(cuMemcpyHtoD_v2(side.counts.base + GUARD, &counts, sizeof counts));
  for (int first = 0; first < 2; first++) {
    side.device.continues = !first;
    encode_both(&s, &side, 0);
    device_read(&counts, side.counts.base + GUARD, sizeof counts);
    kept[first] = counts.nonfinite_seen;
  }
  end_side(&side);
  ok(kept[0] && !kept[1], "a later chunk leaves what the ones before have seen, and a call begins anew");
}

/* The last of two groups ends a decode: it sees which specials all warps of the other one have seen. */
static void check_two_groups(void) {
  const struct setting s = {.hosts = 2, .local = 2, .n = 2311, .dtype = TAGC_FLOAT16, .divisor = 1, .family = FAMILIES};
  ok(same(&s), "two groups: the host's messages and results");
}

static void check_hostile(void) {
  const struct setting s = {.hosts = 3, .local = 3, .n = 300, .dtype = TAGC_BFLOAT16, .divisor = 1, .hostile = true};
  ok(same(&s), "messages with other counts and places touch nothing else");
}

static void check_layout(void) {
  struct tagc_shape shape = {.n = 100, .nranks = 2, .dtype = TAGC_BFLOAT16, .keep_ppm = 1, .local = 3};
  struct tagc_layout layout;
  const struct tagc_cuda_codec *codec = tagc_cuda_codec_of(&tagc_codec_precise);
  ok(codec->layout(&tagc_codec_precise, &shape, &layout) && layout.exponent_bytes > 0,
     "exponents say which messages lack their sums");
  shape.local = 1025;
  ok(!codec->layout(&tagc_codec_precise, &shape, &layout), "more than 1,024 ranks a host are refused");
}

static void check_large(void) {
  for (int dtype = TAGC_FLOAT16; dtype < DTYPES; dtype++) {
    const struct setting s = {
      .hosts = 2, .local = 4, .n = (2 << 20) + 17, .dtype = (enum tagc_dtype)dtype, .divisor = 8, .family = NORMAL};
    ok(same(&s), "%s: a large shard", types[dtype]);
  }
}

int main(int argc, char **argv) {
  const bool brief = cuda_brief(argc, argv);
  launcher = device_launcher(cuda_said(argc, argv, "ptx"));
  sim_random_restart();
  if (cuda_said(argc, argv, "large")) {
    check_large();
    return tap_done();
  }
  check_layout();
  check_families(brief);
  check_chunks();
  check_two_groups();
  check_hostile();
  note("%llu bytes compared", (unsigned long long)compared);
  return tap_done();
}
