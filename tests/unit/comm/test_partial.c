/* SPDX-License-Identifier: BSD-3-Clause
 * interpose/comm/partial: partly compressed calls by all ranks of a communicator, each in its own thread, on the
 * stand-in for NCCL. Layers are made by hand.
 *
 * Selected elements must have, bit for bit, the result of a buffer with nothing else: a second communicator calls with
 * elements that the test has packed in its own way. The others must be the exact sum: they are small integers. Both
 * hold in plain windows, in compressed ones, and when the residual is flushed between them.
 *
 * With ON_DEVICE (local.mk): the same with device memory on the stand-ins, with a GPU for each rank.
 */
#include <stdlib.h>
#include <string.h>

#include "interpose/calls/calls.h"
#include "interpose/comm/table.h"
#include "interpose/entry/launch.h"
#include "interpose/entry/start.h"
#include "interpose/nccl/process.h"
#include "interpose/comm/partial.h"
#include "kernels/codec/bits.h"
#include "tests/unit/tap.h"
#ifdef ON_DEVICE
#include "tests/standin/cuda/device.h"
#endif

enum { MEMBERS = 5, MOST_RANKS = 4, STEPS = 13, ROOM = 40000 };

static const struct tagc_parameter parameters[MEMBERS] = {
  {.name = "norm.weight", .kinds = TAGC_KIND_NORM, .rows = 41, .columns = 1},
  {.name = "attn.q.weight", .kinds = TAGC_KIND_ATTN, .rows = 41, .columns = 13},
  {.name = "mlp.up.weight", .kinds = TAGC_KIND_MLP, .rows = 163, .columns = 41},
  {.name = "mlp.norm.weight", .kinds = TAGC_KIND_NORM, .rows = 41, .columns = 1},
  {.name = "mlp.down.weight", .kinds = TAGC_KIND_MLP, .rows = 41, .columns = 163},
};

struct case_ {
  const struct tagc_codec *codec;
  enum tagc_layout_kind layout;
  enum tagc_dtype dtype;
  enum tagc_op op;
  int nranks, local; /* ranks, and ranks per host */
  bool in_place, is_guessed;
};

/* For each element of each shard its place in the packed shard, and whether it is selected. */
struct map {
  size_t n, selected, rest;
  bool is_selected[ROOM];
  size_t place[ROOM];
};

/* One communicator with all its ranks. */
struct world {
  const struct case_ *c;
  const struct map *map;
  bool packed; /* calls with the selected elements alone */
  size_t n;
  struct tagc_layer layer;
  struct tagc_layers layers;
  ncclComm_t handles[MOST_RANKS];
  struct rank {
    struct world *world;
    int rank;
    struct tagc_comm *comm;
    ncclRedOp_t op;
    void *stream;
    uint8_t *send, *recv; /* of the device */
    uint8_t *host, *out;  /* the input, and the results of all steps */
    ncclResult_t status;
    uint64_t compressed, flushed;
    enum tagc_reason reason;
    bool in_two_levels;
  } ranks[MOST_RANKS];
};

static struct tagc_member members[MEMBERS], all_mlp;
static struct map map;

static const ncclDataType_t types[] = {
  [TAGC_FLOAT32] = ncclFloat32, [TAGC_FLOAT16] = ncclFloat16, [TAGC_BFLOAT16] = ncclBfloat16};

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

struct place {
  size_t shard;
  size_t packed[2];
  bool last;
};

/* Every member has rows in every shard: padding follows elements of its own member. */
static bool visit(const struct tagc_segment *segment, void *data) {
  struct place *p = data;
  if (segment->member >= 0)
    p->last = members[segment->member].parameter->kinds & TAGC_KIND_MLP;
  for (size_t i = 0; i < segment->length; i++) {
    const size_t at = p->shard * map.n + segment->offset + i;
    map.is_selected[at] = p->last;
    map.place[at] = p->packed[!p->last]++;
  }
  return true;
}

static void make_map(const struct case_ *c) {
  struct place p = {.last = true};
  map = (struct map){.n = tagc_layout_shard(c->layout, members, MEMBERS, c->nranks, tagc_dtype_size(c->dtype))};
  for (int shard = 0; shard < c->nranks; shard++) {
    p.shard = (size_t)shard;
    p.packed[0] = p.packed[1] = 0;
    tagc_layout_walk(c->layout, members, MEMBERS, c->nranks, tagc_dtype_size(c->dtype), shard, visit, &p);
    map.selected = p.packed[0] > map.selected ? p.packed[0] : map.selected;
    map.rest = p.packed[1] > map.rest ? p.packed[1] : map.rest;
  }
}

static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  return x ^ x >> 27;
}

/* A gradient that is dense except for some columns, and small integers. */
static float value(int rank, int step, size_t at) {
  const uint64_t h = mix(mix((uint64_t)rank << 40 | (uint64_t)step << 32 | at) + 1);
  if (!map.is_selected[at])
    return (float)((int)(h >> 20) % 9 - 4);
  return ((float)(h & 0xffff) - 32768) / (h >> 16 & 15 ? 1048576 : 32768);
}

static bool fill(struct rank *r, int step) {
  const struct world *w = r->world;
  const struct case_ *c = w->c;
  const size_t bytes = (size_t)c->nranks * w->n * tagc_dtype_size(c->dtype);
  memset(r->host, 0, bytes);
  for (size_t at = 0; at < map.n * (size_t)c->nranks; at++)
    if (!w->packed)
      tagc_store(r->host, at, c->dtype, value(r->rank, step, at));
    else if (map.is_selected[at])
      tagc_store(r->host, at / map.n * w->n + map.place[at], c->dtype, value(r->rank, step, at));
  return r->comm->device->put(r->comm->device, r->send, r->host, bytes, r->stream);
}

static float scale_of(int rank) { return rank % 2 ? 2.0f : 0.5f; }

/* Exact in every order. */
static float rest_sum(const struct case_ *c, int step, size_t at) {
  float sum = 0;
  for (int rank = 0; rank < c->nranks; rank++)
    sum += value(rank, step, at) * (c->op == TAGC_OP_PREMULSUM ? scale_of(rank) : 1);
  return c->op == TAGC_OP_AVG ? sum / (float)c->nranks : sum;
}

/* ---- a communicator ---------------------------------------------------------------------------------------------- */

/* Replaces the layers that were found. */
static void know_layers(struct rank *r) {
  tagc_layers_free(r->comm->layers);
  r->comm->slots[0].codec = r->world->c->codec;
  r->comm->layers = &r->world->layers;
  if (!tagc_partial_select(r->comm))
    r->status = ncclSystemError;
}

static void step(struct rank *r, int number) {
  const struct world *w = r->world;
  const struct case_ *c = w->c;
  const size_t bytes = w->n * tagc_dtype_size(c->dtype);
  struct tagc_call call = {
    .entry = TAGC_ENTRY_ncclReduceScatter,
    .send = r->send,
    .recv = c->in_place ? r->send + (size_t)r->rank * bytes : r->recv,
    .count = w->n,
    .type = types[c->dtype],
    .op = r->op,
    .op_kind = c->op,
    .handle = w->handles[r->rank],
    .comm = r->comm,
    .stream = r->stream,
    .nccl = r->comm->nccl,
    .scale = c->op == TAGC_OP_PREMULSUM ? scale_of(r->rank) : 1,
  };
  const struct tagc_device *d = r->comm->device;
  memset(r->out + (size_t)number * bytes, 0xff, bytes);
  r->status = fill(r, number) && d->put(d, r->recv, r->out + (size_t)number * bytes, bytes, r->stream)
                ? tagc_call_observe(&call)
                : ncclUnhandledCudaError;
  if (r->status == ncclSuccess && r->comm->slot_count && r->comm->layers != &r->world->layers)
    know_layers(r);
  if (r->status == ncclSuccess)
    r->status = tagc_launch_run(&call, 1, NULL, NULL);
  if (!d->get(d, r->out + (size_t)number * bytes, call.recv, bytes, r->stream))
    r->status = ncclUnhandledCudaError;
}

static void *run(void *argument) {
  struct rank *r = argument;
  const struct tagc_device *d = r->comm->device;
  const size_t bytes = r->world->n * tagc_dtype_size(r->world->c->dtype);
#ifdef ON_DEVICE
  device_open(r->rank);
  r->stream = device_stream(CU_STREAM_NON_BLOCKING);
#endif
  r->send = d->alloc(d, (size_t)r->world->c->nranks * bytes, r->stream);
  r->recv = d->alloc(d, bytes, r->stream);
  if (!r->send || !r->recv)
    r->status = ncclSystemError;
  for (int i = 0; i < STEPS && r->status == ncclSuccess; i++)
    step(r, i);
  d->release(d, r->send, r->stream);
  d->release(d, r->recv, r->stream);
  return NULL;
}

static void begin_rank(struct world *w, int rank) {
  struct rank *r = &w->ranks[rank];
  const struct case_ *c = w->c;
  const size_t bytes = w->n * tagc_dtype_size(c->dtype);
  float scalar = scale_of(rank);
  uint8_t stored[4];
  *r = (struct rank){.world = w, .rank = rank, .op = c->op == TAGC_OP_AVG ? ncclAvg : ncclSum};
  r->comm = tagc_comm_acquire(w->handles[rank], tagc_real_called((const void *)&begin_rank), &r->status);
  if (!r->comm)
    exit(1);
  r->comm->agreement.state = TAGC_AGREED_YES;
  r->comm->agreement.host = (uint32_t)(rank / c->local);
  r->host = malloc((size_t)c->nranks * bytes);
  r->out = malloc(STEPS * bytes);
  tagc_store(stored, 0, c->dtype, scalar);
  if (c->op == TAGC_OP_PREMULSUM && ncclRedOpCreatePreMulSum(&r->op, stored, types[c->dtype], ncclScalarHostImmediate,
                                                             w->handles[rank]) != ncclSuccess)
    exit(1);
}

/* All steps of all ranks. */
static void play(struct world *w) {
  const struct case_ *c = w->c;
  pthread_t threads[MOST_RANKS];
  w->n = w->packed ? map.selected : map.n;
  w->layer = (struct tagc_layer){.name = "block.0",
                                 .members = w->packed ? &all_mlp : members,
                                 .count = w->packed ? 1 : MEMBERS,
                                 .layout = c->layout,
                                 .element_bytes = tagc_dtype_size(c->dtype),
                                 .is_guessed = c->is_guessed};
  w->layers = (struct tagc_layers){.layers = &w->layer, .count = 1, .confidence = 100};
  if (ncclCommInitAll(w->handles, c->nranks, NULL) != ncclSuccess)
    exit(1);
  for (int rank = 0; rank < c->nranks; rank++)
    begin_rank(w, rank);
  for (int rank = 0; rank < c->nranks; rank++)
    pthread_create(&threads[rank], NULL, run, &w->ranks[rank]);
  for (int rank = 0; rank < c->nranks; rank++)
    pthread_join(threads[rank], NULL);
  for (int rank = 0; rank < c->nranks; rank++) {
    struct rank *r = &w->ranks[rank];
    const struct tagc_ledger_row *row = tagc_ledger_row(r->comm->ledger, 0);
    r->compressed = row->compressed;
    r->flushed = r->comm->ledger->reasons[TAGC_REASON_flushed];
    r->reason = r->comm->slot_count ? r->comm->slots[0].reason : TAGC_REASON_learning;
    r->in_two_levels = r->comm->hierarchy.scope.two_levels;
    if (r->comm->layers == &w->layers)
      r->comm->layers = NULL;
    tagc_comm_release(tagc_comm_drop(w->handles[rank]));
  }
  for (int rank = 0; rank < c->nranks; rank++)
    tagc_comm_release(w->ranks[rank].comm);
  for (int rank = 0; rank < c->nranks; rank++)
    ncclCommDestroy(w->handles[rank]);
}

static void end(struct world *w) {
  for (int rank = 0; rank < w->c->nranks; rank++) {
    free(w->ranks[rank].host);
    free(w->ranks[rank].out);
  }
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

static bool is_right(const struct world *both, const struct world *alone, int rank) {
  const struct case_ *c = both->c;
  const struct rank *r = &both->ranks[rank], *other = &alone->ranks[rank];
  const size_t element = tagc_dtype_size(c->dtype);
  if (r->status != ncclSuccess || other->status != ncclSuccess)
    return false;
  for (int i = 0; i < STEPS; i++)
    for (size_t at = 0; at < map.n; at++) {
      const size_t here = (size_t)rank * map.n + at;
      const uint8_t *got = r->out + ((size_t)i * map.n + at) * element;
      const uint8_t *packed = other->out + ((size_t)i * map.selected + map.place[here]) * element;
      if (map.is_selected[here] ? memcmp(got, packed, element) != 0
                                : tagc_load(got, 0, c->dtype) != rest_sum(c, i, here)) {
        note("rank %d, step %d, element %zu (%s): %g, alone %g", rank, i, at,
             map.is_selected[here] ? "selected" : "rest", (double)tagc_load(got, 0, c->dtype),
             (double)tagc_load(packed, 0, c->dtype));
        return false;
      }
    }
  return true;
}

static bool try(const struct case_ *c, uint64_t *compressed, uint64_t *flushed) {
  struct world both = {.c = c}, alone = {.c = c, .packed = true};
  bool good = true;
  make_map(c);
  play(&both);
  play(&alone);
  for (int rank = 0; rank < c->nranks && good; rank++) {
    const struct rank *r = &both.ranks[rank], *other = &alone.ranks[rank];
    good = is_right(&both, &alone, rank) && r->compressed == other->compressed && r->flushed == other->flushed &&
           r->in_two_levels == (c->local > 1 && c->nranks > c->local);
    if (!good)
      note("%s %s: status %d, compressed %llu and alone %llu, flushed %llu, %s", c->codec->name,
           tagc_layout_name(c->layout), r->status, (unsigned long long)r->compressed,
           (unsigned long long)other->compressed, (unsigned long long)r->flushed, tagc_reason_words(r->reason));
  }
  *compressed += both.ranks[0].compressed;
  *flushed += both.ranks[0].flushed;
  end(&both);
  end(&alone);
  return good;
}

/* In two levels everything sends less between hosts, so some call of every row is compressed. Emulated GPUs and
 * sanitizers are slow: there each codec gets one type and one reduction, as with compilers other than gcc. */
static void codecs(bool all) {
  static const char *const ops[] = {"sum", "average", "pre-multiplied sum"}, *const names[] = {"fp32", "fp16", "bf16"};
  static const enum tagc_layout_kind layouts[] = {TAGC_LAYOUT_FSDP2, TAGC_LAYOUT_FSDP1, TAGC_LAYOUT_ZERO3};
  int number = 0;
  for (int i = 0; tagc_codecs[i]; i++)
    for (enum tagc_dtype dtype = TAGC_FLOAT32; dtype <= TAGC_BFLOAT16; dtype++) {
      if (!all && (int)dtype != i % 3)
        continue;
      uint64_t compressed = 0, flushed = 0;
      bool good = true;
      for (enum tagc_op op = TAGC_OP_SUM; op <= TAGC_OP_PREMULSUM; op++, number++) {
        if (!all && (int)op != (i + 1) % 3)
          continue;
        const struct case_ flat = {
          tagc_codecs[i], layouts[number % 3], dtype, op, op == TAGC_OP_AVG ? 4 : 2 + number % 2, 1, number % 2, false};
        const struct case_ levels = {tagc_codecs[i], layouts[(number + 1) % 3], dtype, op, 4, 2, number / 2 % 2, false};
        good &= try(&flat, &compressed, &flushed) && try(&levels, &compressed, &flushed);
        if (!good)
          note("failed with %s", ops[op]);
      }
      ok(good && compressed > 0,
         "%s, %s: what is selected comes out as it does alone, and the rest exactly (%llu calls "
         "compressed, %llu flushed)",
         tagc_codecs[i]->name, names[dtype], (unsigned long long)compressed, (unsigned long long)flushed);
      ok((flushed > 0) == tagc_codecs[i]->needs_residual, "and %s left over to be flushed",
         tagc_codecs[i]->needs_residual ? "something is" : "nothing is");
    }
}

/* Nothing is selected inside a slot whose order a map guesses: all of it passes. */
static void guesses(void) {
  const struct case_ known = {tagc_codecs[1], TAGC_LAYOUT_FSDP2, TAGC_FLOAT32, TAGC_OP_SUM, .nranks = 2, .local = 1};
  for (int guessed = 0; guessed < 2; guessed++) {
    struct case_ c = known;
    struct world w = {.c = &c};
    c.is_guessed = guessed;
    make_map(&c);
    play(&w);
    ok(guessed ? !w.ranks[0].compressed && w.ranks[0].reason == TAGC_REASON_unselected : w.ranks[0].compressed > 0,
       "with a%s order %llu calls are compressed: %s", guessed ? " guessed" : " known",
       (unsigned long long)w.ranks[0].compressed, tagc_reason_words(w.ranks[0].reason));
    end(&w);
  }
}

#ifdef ON_DEVICE
/* Restarts the program with the stand-ins for device memory. */
static void change_libraries(char **argv) {
  char self[4000], path[9000];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (getenv("CUDA_STANDIN_DEVICES") || length < 0)
    return;
  self[length] = '\0';
  for (int up = 0; up < 2; up++)
    *strrchr(self, '/') = '\0';
  snprintf(path, sizeof path, "%s/standin/device:%s/standin/cuda", self, self);
  setenv("LD_LIBRARY_PATH", path, 1);
  setenv("CUDA_STANDIN_DEVICES", "4", 1);
  execv("/proc/self/exe", argv);
  exit(1);
}
#endif

int main(int argc, char **argv) {
  (void)argc, (void)argv;
#ifdef ON_DEVICE
  change_libraries(argv);
#endif
  setenv("TAGC_MODE", "ab", 1);
  setenv("TAGC_AB", "2", 1);
  setenv("TAGC_MIN_BYTES", "0", 1);
  setenv("TAGC_WARMUP", "0", 1);
  setenv("TAGC_ASSUME", "gradients", 1);
  setenv("TAGC_SPARSITY", "0.97", 1);
  setenv("TAGC_CODEC", "none", 1);
  setenv("TAGC_LAYERS", "mlp", 1);
  setenv("TAGC_SKIP", "norm", 1);
  setenv("TAGC_LAYERMAP", "infer", 1); /* layers are known, so PyTorch is not asked */
  setenv("TAGC_REPORT", "0", 1);
  static const struct tagc_parameter all = {.name = "mlp.all", .kinds = TAGC_KIND_MLP, .rows = 1, .columns = 1};
  all_mlp = (struct tagc_member){&all, 0, "block"};
  for (int i = 0; i < MEMBERS; i++)
    members[i] = (struct tagc_member){&parameters[i], 0, "block"};
  if (!tagc_library_start())
    return 1;
#if defined ON_DEVICE || defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || defined __clang__
  codecs(false);
#else
  codecs(true);
#endif
  guesses();
  return tap_done();
}
