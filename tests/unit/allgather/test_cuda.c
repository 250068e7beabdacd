/* SPDX-License-Identifier: BSD-3-Clause
 * The CUDA kernels of the codecs for all-gathers write the same bytes as the host: payloads, results, references,
 * refusals, counts. The settings vary codecs, types, sizes, numbers of ranks, values, addresses, grids, in and out of
 * place, hostile payloads, and several calls. Shards of support are zero in many places.
 *
 * It runs on the device of libcuda.so.1: the stand-in, or a GPU (tests/gpu/run). Words: as in test_cuda.c.
 */
#include "kernels/allgather/cuda.h"
#include "kernels/allgather/kernels.h"
#include "kernels/allgather/support.h"
#include "tests/unit/device/cuda_rank.h"
#include "tests/unit/tap.h"

enum values {
  V_WEIGHTS,
  V_EQUAL,
  V_ZEROS,
  V_SMALL,
  V_SOME_ODD,
  V_MANY_ODD,
  V_NOISE,
  V_EXPONENTS,
  V_FAR,
  V_LEVELS,
  V_KINDS
};
static const char *const kinds[] = {"weights",
                                    "equal",
                                    "zeros",
                                    "denormal",
                                    "some no numbers",
                                    "many no numbers",
                                    "noise",
                                    "many exponents",
                                    "far from the last ones",
                                    "changed here and there"};
static const char *const dtypes[] = {"fp32", "fp16", "bf16"};
enum { DTYPES = 3, STILL = 9, LANES = 32 };

struct setting {
  const struct tagc_allgather_codec *codec;
  uint64_t n;
  int nranks;
  enum tagc_dtype dtype;
  enum values values; /* of the last rank; the others have weights */
  size_t off;         /* elements past an aligned address */
  uint64_t gap;       /* elements between the shards of recv and of the reference: a piece's stride */
  bool in_place;
  uint32_t most; /* groups of a launch; 0: as many as are useful */
  int calls;
  bool hostile; /* the last rank's payload is damaged */
  bool in_turn; /* its exceptions repeat the same few places */
  int still;    /* from this call on nothing changes for STILL calls; 0: all calls change something */
};

/* A rank on both sides. */
struct both {
  struct tagc_allgather_job host, device;
  struct twin send, recv, payloads, reference, tables, state, counts;
  struct tagc_allgather_stats stats;
  struct tagc_allgather_sizes sizes;
  uint64_t digest;
  struct tagc_counts before;
};

static struct tagc_cuda_launcher launcher;
static uint64_t compared, escapes, refused, failed, small;
static char difference[256];

static uint64_t drawn;
static uint64_t draw(void) { return tagc_mix64(++drawn); }

static float normal(void) {
  float sum = 0;
  for (int i = 0; i < 6; i++)
    sum += (float)(draw() >> 40) * 0x1p-24f - 0.5f;
  return sum * 1.4142f;
}

/* -- what ranks have ----------------------------------------------------------------------------------------------- */

static float odd_value(uint64_t i) {
  static const uint32_t odd[] = {0x7f800000u, 0xff800000u, 0x7fc12345u, 0xffc00001u, 0x7b800000u, 0xfb800001u};
  return tagc_float_of(odd[i % 6]);
}

/* Changes of all densities, block by block of 512, and of a few steps of the type's, mostly. */
static float step_of(uint64_t i, float was, enum tagc_dtype dtype) {
  const uint32_t unit = dtype == TAGC_FLOAT32 ? 1 : dtype == TAGC_FLOAT16 ? 1 << 13 : 1 << 16;
  const bool changes = draw() % 14 < i / 512 % 15;
  const uint32_t steps = draw() % 99 == 0 ? draw() % 3000 : 1 + draw() % 3;
  return changes && was != 0 ? tagc_float_of(tagc_bits_of(was) + steps * unit) : was;
}

static float value_of(enum values values, uint64_t i, float was) {
  const float weight = 0.02f * normal(), changed = was + 1e-4f * normal();
  switch (values) {
  case V_EQUAL: return -1.5f;
  case V_ZEROS: return i % 3 ? 0.0f : -0.0f;
  case V_SMALL: return tagc_float_of((uint32_t)draw() % 0x00ffffffu);
  case V_SOME_ODD: return draw() % 997 == 0 || i == 3 ? odd_value(i) : weight;
  case V_MANY_ODD: return draw() % 20 == 0 ? odd_value(draw()) : weight;
  case V_EXPONENTS: return ldexpf(weight, (int)(draw() % 9 == 0 ? draw() % 12 : 0));
  case V_FAR: return was == 0 ? weight : weight * 3;
  case V_NOISE: return tagc_float_of((uint32_t)draw());
  default: return was == 0 ? weight : changed;
  }
}

/* Has element i of a shard for support a value? Blocks take turns. */
static bool is_there(uint64_t i) {
  static const uint32_t edges[] = {31, 32, 255, 256};
  switch (i / TAGC_ALLGATHER_BLOCK % 7) {
  case 0: return false;
  case 1: return draw() % 100 == 0;
  case 2: return draw() % 12 == 0;
  case 3: return draw() % 4 == 0;
  case 4: return draw() % 10 != 0;
  case 5: return true;
  default: return i % TAGC_ALLGATHER_BLOCK < edges[i / TAGC_ALLGATHER_BLOCK / 7 % 4];
  }
}

static void fill(const struct setting *s, struct both *all) {
  const size_t size = tagc_dtype_size(s->dtype);
  for (int r = 0; r < s->nranks; r++)
    for (uint64_t i = 0; i < s->n; i++) {
      const enum values values = r == s->nranks - 1 ? s->values : V_WEIGHTS;
      const float was = tagc_load(all[r].host.send, i, s->dtype);
      const float x = values == V_LEVELS && was != 0 ? step_of(i, was, s->dtype) : value_of(values, i, was);
      void *send = (void *)(uintptr_t)all[r].host.send;
      if (s->codec == &tagc_allgather_support && values != V_NOISE && !is_there(i))
        memset((char *)send + i * size, 0, size);
      else if (values == V_NOISE && size == 2)
        ((uint16_t *)send)[i] = (uint16_t)draw();
      else
        tagc_store(send, i, s->dtype, x);
    }
}

/* -- both sides ---------------------------------------------------------------------------------------------------- */

static void begin(const struct setting *s, struct both *b, int rank) {
  const size_t size = tagc_dtype_size(s->dtype), shard = s->n * size, apart = (s->n + s->gap) * size,
               off = s->off * size;
  const size_t all = (size_t)s->nranks * apart;
  const struct tagc_allgather_shape shape = {.n = s->n, .nranks = s->nranks, .dtype = s->dtype};
  struct tagc_allgather_layout there;
  *b = (struct both){
    .host = {
      .shape = shape, .rank = rank, .keep_own = s->in_place, .stats = &b->stats, .stride = s->gap ? s->n + s->gap : 0}};
  b->host.digest = &b->digest;
  b->host.sizes = s->codec->least_bytes ? &b->sizes : NULL;
  struct tagc_allgather_job *host = &b->host, *device = &b->device;
  s->codec->layout(&shape, &host->layout);
  tagc_allgather_cuda_layout(s->codec, &shape, &there);
  host->recv = calloc(1, all);
  host->send = s->in_place ? (char *)host->recv + (size_t)rank * apart : calloc(1, shard);
  host->payloads = aligned_alloc(64, (s->nranks * host->layout.payload_bytes + 63) / 64 * 64);
  memset(host->payloads, 0xa5, s->nranks * host->layout.payload_bytes);
  host->state = calloc(1, host->layout.state_bytes);
  host->reference = host->layout.reference_bytes ? calloc(1, all) : NULL;
  b->recv = twin_new(host->recv, all, off);
  b->send = twin_new(s->in_place ? NULL : (void *)(uintptr_t)host->send, s->in_place ? 0 : shard, off);
  b->payloads = twin_new(host->payloads, s->nranks * host->layout.payload_bytes, 0);
  b->reference = twin_new(host->reference, host->reference ? all : 0, 0);
  b->tables = twin_new(NULL, there.tables_bytes, 0);
  b->state = twin_new(NULL, there.state_bytes, 0);
  b->counts = twin_new(NULL, sizeof(struct tagc_counts), 0);
  MUST(cuMemsetD8Async(b->counts.base + GUARD, 0, b->counts.bytes, NULL));
  *device = *host;
  device->layout = there;
  device->recv = twin_at(&b->recv);
  device->send = s->in_place ? (char *)twin_at(&b->recv) + (size_t)rank * apart : (char *)twin_at(&b->send);
  device->payloads = twin_at(&b->payloads);
  device->reference = host->reference ? twin_at(&b->reference) : NULL;
  device->tables = twin_at(&b->tables);
  device->state = twin_at(&b->state);
  device->stats = NULL;
  device->sizes = NULL;
  MUST(cuCtxSynchronize());
}

static void end(const struct setting *s, struct both *b) {
  const struct twin *all[] = {&b->send, &b->recv, &b->payloads, &b->reference, &b->tables, &b->state, &b->counts};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    MUST(cuMemFree_v2(all[i]->base));
  if (!s->in_place)
    free((void *)(uintptr_t)b->host.send);
  free(b->host.recv);
  free(b->host.payloads);
  free(b->host.state);
  free(b->host.reference);
}

static void differs(const struct setting *s, int call, int rank, const char *what, size_t at) {
  if (!difference[0])
    snprintf(difference, sizeof difference,
             "%s %s n=%llu, %d ranks, %s, off %zu%s, %u groups, call %d: %s of rank %d: byte %zd", s->codec->name,
             dtypes[s->dtype], (unsigned long long)s->n, s->nranks, kinds[s->values], s->off,
             s->in_place ? ", in place" : "", s->most, call, what, rank, (ssize_t)at - 1);
}

static void compare(const struct setting *s, int call, int rank, const char *what, const struct twin *twin, size_t from,
                    size_t bytes) {
  const size_t at = twin_differs(twin, from, bytes);
  compared += bytes;
  if (at)
    differs(s, call, rank, what, at);
}

static struct tagc_counts counts_of(const struct both *b) {
  struct tagc_counts counts;
  device_read(&counts, b->counts.base + GUARD, sizeof counts);
  return counts;
}

static struct tagc_allgather_call call_of(const struct setting *s, const struct both *b) {
  return tagc_allgather_call_of(s->codec, &b->device, twin_at(&b->counts));
}

static void encode_both(const struct setting *s, struct both *b, int call) {
  const struct tagc_allgather_call gather = call_of(s, b);
  const size_t bytes = b->host.layout.payload_bytes, at = (size_t)b->host.rank * bytes;
  const struct tagc_allgather_header *header = (void *)(b->host.payloads + at);
  b->stats = (struct tagc_allgather_stats){0};
  b->before = counts_of(b);
  twin_put(&b->send);
  if (s->in_place)
    twin_put(&b->recv);
  s->codec->encode(&b->host);
  MUST(tagc_allgather_cuda_of(s->codec)->encode(&launcher, &gather, NULL));
  const size_t head = s->codec == &tagc_allgather_exact     ? sizeof(struct tagc_exact_header)
                      : s->codec == &tagc_allgather_support ? sizeof(struct tagc_support_header)
                                                            : sizeof *header;
  compare(s, call, b->host.rank, "a payload", &b->payloads, at, header->flags ? head : bytes);
  if (s->in_place)
    compare(s, call, b->host.rank, "the send buffer", &b->recv, 0, b->recv.bytes);
}

/* Both sides choose the same size for the next call. */
static void resize(const struct setting *s, struct both *b, const struct tagc_allgather_state *state,
                   struct tagc_allgather_sizes before, int call) {
  struct tagc_allgather_sizes sizes = before;
  struct tagc_allgather_job job = b->device;
  job.sizes = &sizes;
  job.refused = state->refused != 0;
  s->codec->choose_size(&job, state->needed);
  if (sizes.payload_bytes != b->sizes.payload_bytes || sizes.margin != b->sizes.margin)
    differs(s, call, b->host.rank, "the size of the next call", 0);
  b->host.layout.payload_bytes = b->device.layout.payload_bytes = sizes.payload_bytes;
  small += sizes.payload_bytes == s->codec->least_bytes;
}

/* The next call of support has just enough room, and the one after that too little. */
static void fit(const struct setting *s, struct both *b, int call) {
  uint64_t most = 0;
  if (s->codec != &tagc_allgather_support || !s->still)
    return;
  for (int rank = 0; rank < s->nranks; rank++) {
    const uint64_t needed = tagc_support_needed(tagc_allgather_payload(&b->host, rank));
    most = needed > most ? needed : most;
  }
  if (b->host.refused != (call == 2))
    differs(s, call, b->host.rank, "whether it has room", 0);
  b->host.layout.payload_bytes = b->device.layout.payload_bytes = most - 16 * (call > 0);
}

/* The digest behind a reference of exact, on both sides. */
static void compare_digest(const struct setting *s, struct both *b, int call) {
  uint64_t digest;
  if (s->codec != &tagc_allgather_exact)
    return;
  device_read(&digest, (CUdeviceptr)(uintptr_t)call_of(s, b).kept, sizeof digest);
  if (digest != b->digest)
    differs(s, call, b->host.rank, "the digest of a reference", 0);
}

static void decode_both(const struct setting *s, struct both *b, int call) {
  const struct tagc_allgather_call gather = call_of(s, b);
  const struct tagc_allgather_sizes sizes = b->sizes;
  const size_t references = b->reference.bytes ? b->recv.bytes : 0;
  struct tagc_allgather_state state;
  twin_put(&b->payloads);
  s->codec->decode(&b->host);
  MUST(tagc_allgather_cuda_of(s->codec)->decode(&launcher, &gather, NULL));
  /* Where a stream is damaged, only digests tell that it is: in both places. */
  if (!b->host.failed) {
    compare(s, call, b->host.rank, "what is received", &b->recv, 0, b->recv.bytes);
    compare(s, call, b->host.rank, "a reference", &b->reference, 0, references);
  }
  if (twin_differs(&b->state, 0, 0) || twin_differs(&b->counts, 0, 0) || twin_differs(&b->tables, 0, 0))
    differs(s, call, b->host.rank, "what is beside the state", 0);
  device_read(&state, b->state.base + GUARD, sizeof state);
  const struct tagc_counts after = counts_of(b);
  if ((state.refused != 0) != b->host.refused || after.overflowed - b->before.overflowed != b->stats.refused)
    differs(s, call, b->host.rank, "whether it is refused", 0);
  if (after.selected - b->before.selected != b->stats.escapes ||
      after.nonfinite - b->before.nonfinite != b->stats.nonfinite)
    differs(s, call, b->host.rank, "a count", 0);
  if ((state.failed != 0) != b->host.failed)
    differs(s, call, b->host.rank, "whether it has failed", 0);
  compare_digest(s, b, call);
  if (b->host.sizes)
    resize(s, b, &state, sizes, call);
  fit(s, b, call);
  escapes += b->stats.escapes;
  refused += b->host.refused;
  failed += b->host.failed;
}

static void exchange(const struct setting *s, struct both *all) {
  const size_t bytes = all[0].host.layout.payload_bytes;
  for (int from = 0; from < s->nranks; from++)
    for (int to = 0; to < s->nranks; to++)
      if (from != to)
        memcpy(all[to].host.payloads + (size_t)from * bytes, all[from].host.payloads + (size_t)from * bytes, bytes);
  uint8_t *last = all[0].host.payloads + (size_t)(s->nranks - 1) * bytes;
  const bool exact = s->codec == &tagc_allgather_exact; /* other headers are refusals */
  for (size_t i = exact ? sizeof(struct tagc_exact_header) : sizeof(struct tagc_allgather_header);
       s->hostile && i < bytes; i++)
    if (draw() % 8 == 0)
      last[i] = (uint8_t)draw();
  /* Indexes that end behind the payload. */
  if (s->hostile && s->codec == &tagc_allgather_support && draw() % 2) {
    const size_t room = bytes - tagc_support_parts_of(s->n).values - 16 * (draw() % 8);
    ((struct tagc_support_header *)(void *)last)->values = room / tagc_dtype_size(s->dtype);
  }
  struct tagc_exceptions *list = (void *)(last + sizeof(struct tagc_allgather_header));
  for (uint32_t i = 0; s->in_turn && i < tagc_exceptions_capacity(s->n); i++) {
    list->count = i + 1;
    list->entry[i] = (struct tagc_exception){i < LANES ? i % 3 : i - LANES, tagc_bits_of((float)i)};
  }
  for (int to = 1; to < s->nranks - 1; to++)
    memcpy(all[to].host.payloads + (size_t)(s->nranks - 1) * bytes, last, bytes);
}

static void refer_both(const struct setting *s, struct both *b, int call) {
  tagc_allgather_step *refer = tagc_allgather_cuda_of(s->codec)->refer;
  const struct tagc_allgather_call gather = call_of(s, b);
  s->codec->refer(&b->host);
  twin_put(&b->reference);
  if (refer)
    MUST(refer(&launcher, &gather, NULL));
  compare_digest(s, b, call);
}

/* The result of a plain call. */
static void gather_plainly(const struct setting *s, struct both *all, int call) {
  const size_t size = tagc_dtype_size(s->dtype), shard = s->n * size, apart = (s->n + s->gap) * size;
  for (int to = 0; to < s->nranks; to++) {
    for (int from = 0; from < s->nranks; from++)
      memmove((char *)all[to].host.recv + (size_t)from * apart, all[from].host.send, shard);
    twin_put(&all[to].recv);
    if (!s->codec->refer)
      continue;
    memcpy(all[to].host.reference, all[to].host.recv, (size_t)s->nranks * apart); /* refer() copies whole shards */
    refer_both(s, &all[to], call);
  }
}

/* All calls of a setting: the first one of a codec with a reference is plain. */
static bool same(const struct setting *s) {
  struct both *all = calloc((size_t)s->nranks, sizeof *all);
  difference[0] = '\0';
  launcher.most = s->most;
  drawn = s->n * 1000003;
  for (int r = 0; r < s->nranks; r++)
    begin(s, &all[r], r);
  if (s->codec->refer) {
    fill(s, all);
    gather_plainly(s, all, -1);
  }
  for (int call = 0; call < s->calls && !difference[0]; call++) {
    if (!s->still || call < s->still || call >= s->still + STILL)
      fill(s, all);
    for (int r = 0; r < s->nranks; r++) {
      all[r].host.seed = all[r].device.seed = s->n + 77u * (unsigned)call;
      encode_both(s, &all[r], call);
    }
    exchange(s, all);
    for (int r = 0; r < s->nranks; r++)
      decode_both(s, &all[r], call);
    if (all[0].host.refused)
      gather_plainly(s, all, call);
    if (all[0].host.failed)
      break;
  }
  for (int r = 0; r < s->nranks; r++)
    end(s, &all[r]);
  free(all);
  launcher.most = 0;
  if (difference[0])
    note("%s", difference);
  return !difference[0];
}

/* -- what there is ------------------------------------------------------------------------------------------------- */

static struct setting usual(const struct tagc_allgather_codec *codec, enum tagc_dtype dtype) {
  return (struct setting){.codec = codec, .n = 5000, .nranks = 2, .dtype = dtype, .calls = 2};
}

/* Skips a shape that the codec does not support; host and device must agree on that. */
static bool same_if_there(const struct setting *s) {
  const struct tagc_allgather_shape shape = {.n = s->n, .nranks = s->nranks, .dtype = s->dtype};
  struct tagc_allgather_layout host, device;
  const bool there = s->codec->layout(&shape, &host);
  if (there != tagc_allgather_cuda_layout(s->codec, &shape, &device)) {
    note("layouts differ");
    return false;
  }
  return !there || same(s);
}

static void check_values(const struct tagc_allgather_codec *codec) {
  bool all = true;
  for (int dtype = 0; dtype < DTYPES; dtype++)
    for (int values = 0; values < V_KINDS; values++) {
      struct setting s = usual(codec, (enum tagc_dtype)dtype);
      s.values = (enum values)values;
      s.n += (unsigned)values * 131;
      s.in_place = values % 2;
      all &= same_if_there(&s);
    }
  ok(all, "%s: the host's bytes, whatever the values", codec->name);
}

static void check_sizes(const struct tagc_allgather_codec *codec, bool brief) {
  static const uint64_t sizes[] = {200, 255, 256, 257, 300, 511, 512, 1000, 4096, 66000, 70001};
  bool all = true;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes - (brief ? 2 : 0); i++)
    for (int dtype = 0; dtype < DTYPES; dtype++) {
      struct setting s = usual(codec, (enum tagc_dtype)dtype);
      s.n = sizes[i];
      s.nranks = 2 + (int)i % 3;
      s.values = i % 2 ? V_SOME_ODD : V_EXPONENTS;
      s.in_place = i / 2 % 2;
      all &= same_if_there(&s);
    }
  struct setting many = usual(codec, TAGC_FLOAT32);
  many.nranks = 9;
  many.n = 2000;
  all &= same_if_there(&many);
  ok(all, "%s: sizes and numbers of ranks", codec->name);
}

static void check_addresses(const struct tagc_allgather_codec *codec, bool brief) {
  bool all = true;
  for (size_t off = 0; off < 8; off++)
    for (int dtype = brief ? (int)(off % DTYPES) : 0; dtype < DTYPES; dtype += brief ? DTYPES : 1) {
      struct setting s = usual(codec, (enum tagc_dtype)dtype);
      s.n = 2048 + off % 3;
      s.off = off;
      s.in_place = off / 4;
      s.values = codec == &tagc_allgather_exact ? V_LEVELS : V_SOME_ODD;
      all &= same_if_there(&s);
    }
  ok(all, "%s: buffers at any address that is good for an element", codec->name);
}

static void check_strides(const struct tagc_allgather_codec *codec, bool brief) {
  bool all = true;
  for (uint64_t gap = 1; gap < 9000; gap = gap * 19 + 1)
    for (int dtype = brief ? (int)(gap % DTYPES) : 0; dtype < DTYPES; dtype += brief ? DTYPES : 1) {
      struct setting s = usual(codec, (enum tagc_dtype)dtype);
      s.gap = gap;
      s.nranks = 3;
      s.values = V_SOME_ODD;
      s.in_place = dtype == 1;
      all &= same_if_there(&s);
    }
  ok(all, "%s: shards apart, as those of pieces", codec->name);
}

static void check_grids(const struct tagc_allgather_codec *codec, bool brief) {
  static const uint32_t grids[] = {1, 2, 7, 0};
  bool all = true;
  for (int i = 0; i < (brief ? 1 : 4); i++) {
    struct setting s = usual(codec, TAGC_FLOAT32);
    s.n = !brief ? 140001 : codec == &tagc_allgather_exact ? 5000 : 66000; /* three segments, or two */
    s.calls = brief ? 1 : 2;
    s.nranks = 2;
    s.most = grids[i];
    s.values = V_EXPONENTS;
    all &= same_if_there(&s);
  }
  ok(all, "%s: the same with %s", codec->name, brief ? "one group" : "1, 2, 7 and all groups");
}

static void check_hostile(const struct tagc_allgather_codec *codec) {
  bool all = true;
  for (int i = 0; i < 6; i++) {
    struct setting s = usual(codec, i % 2 ? TAGC_BFLOAT16 : TAGC_FLOAT32);
    s.n = 900 + 777 * (unsigned)i;
    s.nranks = 3;
    s.hostile = true;
    s.in_place = i / 3;
    all &= same_if_there(&s);
  }
  ok(all, "%s: what the host makes of damaged payloads", codec->name);
}

/* Payloads of all sizes: of headers alone, with too little room, and with more than is needed. */
static void check_payload_sizes(void) {
  bool all = true;
  for (int dtype = 0; dtype < DTYPES; dtype++) {
    struct setting s = usual(&tagc_allgather_exact, (enum tagc_dtype)dtype);
    s.values = V_LEVELS;
    s.n = 17 * TAGC_EXACT_BLOCK + 100;
    s.calls = 15;
    s.still = 3;
    s.in_place = dtype == 1;
    all &= same(&s);
    s.values = V_FAR;
    s.still = 0;
    all &= same(&s);
  }
  ok(all && small > 10, "exact: payloads of all sizes, %llu times the least", (unsigned long long)small);
}

static void check_support_room(void) {
  bool all = true;
  for (int dtype = 0; dtype < DTYPES; dtype++) {
    struct setting s = usual(&tagc_allgather_support, (enum tagc_dtype)dtype);
    s.n = 9000 + 7 * (unsigned)dtype;
    s.calls = 3;
    s.still = 1;
    s.in_place = dtype == 1;
    all &= same(&s);
  }
  ok(all, "support: payloads with just enough room, and with 16 bytes less");
}

/* A broadcast: one shard, of the root's rank 0. The other rank has none. */
static bool broadcast_is_same(enum tagc_dtype dtype, uint64_t n, bool in_place) {
  const struct tagc_allgather_codec *exact = &tagc_allgather_exact;
  const size_t shard = n * tagc_dtype_size(dtype);
  struct setting other = {.codec = exact, .n = n, .nranks = 1, .dtype = dtype, .values = V_LEVELS}, root = other;
  struct both ranks[2];
  bool arrived = true;
  difference[0] = '\0';
  root.in_place = in_place;
  begin(&root, &ranks[0], 0);
  begin(&other, &ranks[1], -1);
  for (int call = -1; call < 3 && !difference[0]; call++) {
    fill(&root, ranks);
    if (call >= 0)
      encode_both(&root, &ranks[0], call);
    memcpy(ranks[1].host.payloads, ranks[0].host.payloads, ranks[0].host.layout.payload_bytes);
    for (int r = 0; r < 2; r++) {
      struct both *b = &ranks[r];
      b->host.sizes = NULL;
      if (call >= 0) {
        b->stats = (struct tagc_allgather_stats){0};
        b->before = counts_of(b);
        decode_both(&root, b, call);
      } else {
        memmove(b->host.recv, ranks[0].host.send, shard);
        memcpy(b->host.reference, b->host.recv, shard);
        twin_put(&b->recv);
        refer_both(&root, b, call);
      }
      arrived &= !b->host.refused && !b->host.failed && memcmp(b->host.recv, ranks[0].host.send, shard) == 0;
    }
  }
  end(&root, &ranks[0]);
  end(&other, &ranks[1]);
  if (difference[0])
    note("%s", difference);
  return arrived && !difference[0];
}

static void check_broadcasts(bool brief) {
  bool all = true;
  for (int dtype = brief ? TAGC_BFLOAT16 : 0; dtype < DTYPES; dtype++)
    all &= broadcast_is_same((enum tagc_dtype)dtype, brief ? 2001 : 9001, dtype == 1);
  ok(all, "exact: broadcasts, at the root and elsewhere");
}

/* Exceptions in an order that our sender never produces: the last one of a place counts. More than a warp has lanes
 * begin without order, and then repeat places in order. */
static void check_turns(bool brief) {
  struct setting s = usual(&tagc_allgather_q8, TAGC_FLOAT32);
  s.n = 140000; /* room for 35 */
  s.calls = 1;
  s.in_turn = true;
  bool all = same(&s);
  if (!brief) {
    s.n = 300000; /* for 74 */
    all &= same(&s);
  }
  ok(all, "q8: exceptions without order, one after the other");
}

/* Values for which the order of summation decides whether a block is far. */
static void check_order(void) {
  enum { ALL = 64 * TAGC_ALLGATHER_BLOCK };
  struct setting s = usual(&tagc_allgather_delta, TAGC_FLOAT32);
  struct both b;
  struct tagc_allgather_state state;
  uint32_t far = 0;
  s.n = ALL;
  begin(&s, &b, 0);
  float *send = (float *)(uintptr_t)b.host.send, *reference = b.host.reference, differences[TAGC_ALLGATHER_BLOCK];
  for (int i = 0; i < ALL; i++) {
    const float quarter = normal();
    send[i] = 4 * quarter;
    reference[i] = send[i] - (draw() % 2 ? quarter : quarter * (draw() % 2 ? 1 + 0x1p-22f : 1 - 0x1p-22f));
  }
  for (int i = 0; i < ALL; i += TAGC_ALLGATHER_BLOCK)
    far += (tagc_allgather_kernels()->delta_differ(send + i, reference + i, TAGC_FLOAT32, differences) &
            TAGC_DELTA_FAR) != 0;
  twin_put(&b.send);
  twin_put(&b.reference);
  const struct tagc_allgather_call gather = call_of(&s, &b);
  MUST(tagc_allgather_cuda_of(s.codec)->encode(&launcher, &gather, NULL));
  device_read(&state, b.state.base + GUARD, sizeof state);
  ok(state.far == far && far > 8 && far < 56,
     "delta: squares are added in the order of the format (%u of 64 blocks are far)", far);
  end(&s, &b);
}

/* Enough blocks that segments, grids and lists are those of real parameters. */
static void check_large(const struct tagc_allgather_codec *codec) {
  for (int dtype = 0; dtype < DTYPES; dtype++) {
    struct setting s = usual(codec, (enum tagc_dtype)dtype);
    s.n = (8 << 20) + 17;
    s.values = dtype ? V_WEIGHTS : V_SOME_ODD;
    ok(same_if_there(&s), "%s: large shards of %s", codec->name, dtypes[dtype]);
  }
}

int main(int argc, char **argv) {
  const bool brief = cuda_brief(argc, argv);
  launcher = device_launcher(cuda_said(argc, argv, "ptx"));
  for (int i = 0; tagc_allgather_codec_at(i); i++) {
    const struct tagc_allgather_codec *codec = tagc_allgather_codec_at(i);
    if (!tagc_allgather_cuda_of(codec)) {
      skip(codec->name, "it has no kernels: its calls pass on a GPU");
      continue;
    }
    if (cuda_said(argc, argv, "large")) {
      check_large(codec);
      continue;
    }
    check_values(codec);
    check_sizes(codec, brief);
    check_addresses(codec, brief);
    check_strides(codec, brief);
    if (!brief || codec == &tagc_allgather_lossless || codec == &tagc_allgather_exact ||
        codec == &tagc_allgather_support) /* groups share memory */
      check_grids(codec, brief);
    check_hostile(codec);
  }
  if (!cuda_said(argc, argv, "large")) {
    ok(escapes > 1000 && refused > 10, "there were escapes (%llu), and shards that were refused (%llu)",
       (unsigned long long)escapes, (unsigned long long)refused);
    ok(failed > 0, "damaged payloads were noticed (%llu)", (unsigned long long)failed);
    check_payload_sizes();
    check_support_room();
    check_broadcasts(brief);
    check_turns(brief);
    check_order();
    ok(!tagc_allgather_cuda_of(&(struct tagc_allgather_codec){0}), "other codecs are not known");
  }
  note("%llu bytes compared", (unsigned long long)compared);
  return tap_done();
}
