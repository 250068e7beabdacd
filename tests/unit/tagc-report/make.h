/* SPDX-License-Identifier: BSD-3-Clause
 * Synthetic traces (interpose/trace/format.h): record by record, or whole jobs with numbers that a test can predict.
 *
 * Ownership  trace_free() frees a trace. Without memory, or if a file cannot be written, the program ends.
 * Codes      are private to this file: readers of traces know them only by their NAME records.
 * Threads    One at a time.
 */
#ifndef TESTS_UNIT_TAGC_REPORT_MAKE_H
#define TESTS_UNIT_TAGC_REPORT_MAKE_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env/hash.h"
#include "interpose/trace/format.h"

/* -- a trace, record by record ------------------------------------------------------------------------------------- */

/* In memory; all zeros: empty. */
struct trace {
  unsigned char *bytes;
  size_t size, room;
  size_t chunk;                    /* where the open one begins; 0: none is open */
  uint64_t chunks, dropped, calls; /* dropped: the count in the next chunks */
};

/* Zeroed room for a new part of the trace, valid until the next one is added. */
static inline void *trace_more(struct trace *t, size_t bytes) {
  if (t->size + bytes > t->room) {
    t->room = 2 * (t->size + bytes) + 4096;
    t->bytes = realloc(t->bytes, t->room);
    if (!t->bytes)
      abort();
  }
  memset(t->bytes + t->size, 0, bytes);
  t->size += bytes;
  return t->bytes + t->size - bytes;
}

static inline void trace_free(struct trace *t) {
  free(t->bytes);
  *t = (struct trace){0};
}

static inline void trace_head(struct trace *t) {
  struct tagc_trace_head head = {
    .order = TAGC_TRACE_ORDER, .major = TAGC_TRACE_MAJOR, .minor = TAGC_TRACE_MINOR, .head_bytes = sizeof head};
  memcpy(head.magic, TAGC_TRACE_MAGIC, sizeof head.magic);
  memcpy(trace_more(t, sizeof head), &head, sizeof head);
}

/* Recomputes the sum of the chunk at `at` after a change. */
static inline void trace_sum(struct trace *t, size_t at) {
  struct tagc_trace_chunk chunk;
  memcpy(&chunk, t->bytes + at, sizeof chunk);
  chunk.sum = 0;
  chunk.sum =
    tagc_hash_add(tagc_hash_add(TAGC_HASH_START, &chunk, sizeof chunk), t->bytes + at + sizeof chunk, chunk.bytes);
  memcpy(t->bytes + at, &chunk, sizeof chunk);
}

/* Ends the chunk; the next record begins another one. */
static inline void trace_chunk_ends(struct trace *t) {
  struct tagc_trace_chunk chunk = {TAGC_TRACE_CHUNK_MAGIC, 0, t->chunks, t->dropped, 0};
  if (!t->chunk)
    return;
  chunk.bytes = (uint32_t)(t->size - t->chunk - sizeof chunk);
  memcpy(t->bytes + t->chunk, &chunk, sizeof chunk);
  trace_sum(t, t->chunk);
  t->chunks++;
  t->chunk = 0;
}

/* Adds the bytes of a record, of any content. */
static inline void trace_add_bytes(struct trace *t, const void *record, size_t bytes) {
  if (!t->size)
    trace_head(t);
  if (t->chunk && t->size - t->chunk + bytes > (1 << 16))
    trace_chunk_ends(t);
  if (!t->chunk) {
    t->chunk = t->size;
    trace_more(t, sizeof(struct tagc_trace_chunk));
  }
  memcpy(trace_more(t, bytes), record, bytes);
}

/* Adds a record of the kind with these fields (the header is filled in here) and that many texts. */
static inline void trace_add(struct trace *t, enum tagc_trace_kind kind, uint32_t comm, const void *fields, size_t size,
                             unsigned texts, const char *const *text) {
  static union {
    struct tagc_trace_record record;
    unsigned char bytes[TAGC_TRACE_RECORD_MOST];
  } r;
  size_t at = size;
  memcpy(r.bytes, fields, size);
  for (unsigned i = 0; i < texts; i++) {
    size_t length = strlen(text[i]) + 1;
    if (at + length > sizeof r.bytes - 8)
      abort();
    memcpy(r.bytes + at, text[i], length);
    at += length;
  }
  for (; at % 8; at++)
    r.bytes[at] = 0;
  r.record = (struct tagc_trace_record){(uint16_t)kind, (uint16_t)at, comm};
  trace_add_bytes(t, r.bytes, at);
}

/* trace_put(&t, CALL, 1, .number = 1, .count = 7): a record without texts, by its fields. */
#define trace_put(t, KIND, comm, ...) trace_put_(t, KIND, comm, TRACE_STRUCT_##KIND, __VA_ARGS__)
#define trace_put_(t, KIND, comm, type, ...) \
  do { \
    type trace_fields = {__VA_ARGS__}; \
    trace_add(t, TAGC_TRACE_##KIND, comm, &trace_fields, sizeof trace_fields, 0, NULL); \
  } while (0)
#define TRACE_STRUCT_COMM struct tagc_trace_comm
#define TRACE_STRUCT_COMM_END struct tagc_trace_comm_end
#define TRACE_STRUCT_CALL struct tagc_trace_call
#define TRACE_STRUCT_TIMES struct tagc_trace_times
#define TRACE_STRUCT_PROFILE struct tagc_trace_profile
#define TRACE_STRUCT_CYCLE struct tagc_trace_cycle
#define TRACE_STRUCT_STATE struct tagc_trace_state
#define TRACE_STRUCT_END struct tagc_trace_end

static inline void trace_process(struct trace *t, const struct tagc_trace_process *fields, const char *host,
                                 const char *program, const char *version) {
  trace_add(t, TAGC_TRACE_PROCESS, 0, fields, sizeof *fields, 3, (const char *const[]){host, program, version});
}

static inline void trace_name(struct trace *t, enum tagc_trace_table table, unsigned code, const char *text) {
  struct tagc_trace_name fields = {.table = (uint16_t)table, .code = (uint16_t)code};
  trace_add(t, TAGC_TRACE_NAME, 0, &fields, sizeof fields, 1, &text);
}

/* "NAME=value" lines. */
static inline void trace_options(struct trace *t, const char *text) {
  struct tagc_trace_options fields = {.record = {0}};
  trace_add(t, TAGC_TRACE_OPTIONS, 0, &fields, sizeof fields, 1, &text);
}

static inline void trace_lock(struct trace *t, uint32_t comm, const struct tagc_trace_lock *fields, const char *layers,
                              const char *or_layers) {
  trace_add(t, TAGC_TRACE_LOCK, comm, fields, sizeof *fields, 2, (const char *const[]){layers, or_layers});
}

static inline void trace_slot(struct trace *t, uint32_t comm, const struct tagc_trace_slot *fields, const char *layer,
                              const char *codec) {
  trace_add(t, TAGC_TRACE_SLOT, comm, fields, sizeof *fields, 2, (const char *const[]){layer, codec});
}

static inline void trace_write(struct trace *t, const char *path) {
  FILE *file = fopen(path, "wb");
  trace_chunk_ends(t);
  if (!file || (t->size && fwrite(t->bytes, 1, t->size, file) != t->size) || fclose(file) != 0) {
    perror(path);
    exit(1);
  }
}

/* -- what codes mean ----------------------------------------------------------------------------------------------- */

enum {
  MADE_REDUCE_SCATTER,
  MADE_ALL_GATHER,
  MADE_ALL_REDUCE,
  MADE_BROADCAST,
  MADE_SEND,
  MADE_RECV,
  MADE_GROUP_END,
  MADE_INIT,
  MADE_SPLIT,
  MADE_DESTROY,
  MADE_ALL_TO_ALL,
  MADE_FUNCTIONS
};
enum { MADE_OTHER_REASON, MADE_SAID_YES, MADE_WARMUP, MADE_SMALL, MADE_OBSERVED, MADE_PLAIN_WINDOW, MADE_REASONS };
enum { MADE_PASS, MADE_COMPRESS, MADE_ACTIONS };
enum { MADE_FLOAT32, MADE_BFLOAT16, MADE_INT64, MADE_UINT8, MADE_TYPES };
enum { MADE_SUM, MADE_AVG, MADE_MAX, MADE_OPS };

static inline void trace_names(struct trace *t) {
  static const char *const functions[MADE_FUNCTIONS] = {
    "ncclReduceScatter", "ncclAllGather",    "ncclAllReduce", "ncclBroadcast",   "ncclSend",    "ncclRecv",
    "ncclGroupEnd",      "ncclCommInitRank", "ncclCommSplit", "ncclCommDestroy", "ncclAlltoAll"};
  static const char *const reasons[MADE_REASONS] = {"not a reduce-scatter",     "compressed",
                                                    "warming up (TAGC_WARMUP)", "small (TAGC_MIN_BYTES)",
                                                    "observing (TAGC_MODE)",    "plain window (TAGC_AB)"};
  static const char *const actions[MADE_ACTIONS] = {"pass", "compress"};
  static const char *const types[MADE_TYPES] = {"float32", "bfloat16", "int64", "uint8"};
  static const char *const ops[MADE_OPS] = {"sum", "avg", "max"};
  for (unsigned i = 0; i < MADE_FUNCTIONS; i++)
    trace_name(t, TAGC_TRACE_FUNCTIONS, i, functions[i]);
  for (unsigned i = 0; i < MADE_REASONS; i++)
    trace_name(t, TAGC_TRACE_REASONS, i, reasons[i]);
  for (unsigned i = 0; i < MADE_ACTIONS; i++)
    trace_name(t, TAGC_TRACE_ACTIONS, i, actions[i]);
  for (unsigned i = 0; i < MADE_TYPES; i++)
    trace_name(t, TAGC_TRACE_TYPES, i, types[i]);
  for (unsigned i = 0; i < MADE_OPS; i++)
    trace_name(t, TAGC_TRACE_OPS, i, ops[i]);
}

static inline unsigned trace_type_bytes(unsigned type) {
  return type == MADE_FLOAT32 ? 4 : type == MADE_BFLOAT16 ? 2 : type == MADE_INT64 ? 8 : 1;
}

/* -- a job: fully sharded training of L layers on W ranks ---------------------------------------------------------- */

/* A step gathers layers 0..L-1, then gathers and reduce-scatters L-1..0, and all-reduces one float. A lone all-reduce
 * and `warmup` unnumbered cycles come first. Ranks share hosts in blocks. Their calls end
 * together, so all times are predictable. */
struct trace_job {
  int ranks, hosts;               /* hosts: 0 or 1: one */
  unsigned steps, layers, warmup; /* steps: cycles with numbers */
  uint64_t shard;                 /* elements of a layer's shard; layer l has l % 3 more */
  unsigned type, op;              /* of gradients; MADE_... */
  unsigned window;                /* of TAGC_MODE=ab, in steps, plain first; 0: no sides */
  bool compressed;                /* without sides: all steps */
  unsigned wire_percent;          /* bytes of a compressed call, in percent of plain; 0: 25 */
  bool on_gpu;                    /* calls only enqueue, and TIMES has the rest */
  bool profiled;                  /* NCCL's profiler saw the second half of each call as its kernel */
  bool times, states, cycles, slots;
  uint64_t compute_ns;              /* of a rank in a step, beside its calls */
  uint64_t plain_ns, compressed_ns; /* duration on the wire; other calls take the plain one */
  uint64_t jitter_ns;               /* a rank's compute varies by up to this, step by step */
  int slow_rank;                    /* computes `slow_ns` longer; -1: none */
  uint64_t slow_ns;
  int64_t clock_skew_ns;   /* each host's realtime clock is that much ahead of the previous host's */
  uint64_t identity;       /* of the communicator; 0: unknown */
  unsigned disturbed;      /* every that many steps one is; 0: none */
  bool allgathers;         /* records the cycle's all-gathers; compressed steps compress them with bf16 */
  unsigned hidden_percent; /* of encode and decode, under the exchange */
  bool often_unknown;      /* every other compressed call lacks that part, and has a short encode and decode */
  uint64_t revote;         /* from this cycle on the codec is q8; 0: it stays q4 */
  bool all_reduces;        /* a step has all-reduces of whole layers instead of all calls on shards */
  int first_pid;           /* of rank 0; the others follow; 0: 1000 */
  int world, first_rank; /* ranks of a communicator without calls, which binds jobs, and the place of rank 0; 0: none */
};

static inline struct trace_job trace_job_usual(int ranks, unsigned steps, unsigned layers) {
  return (struct trace_job){.ranks = ranks,
                            .hosts = ranks,
                            .steps = steps,
                            .layers = layers,
                            .warmup = 1,
                            .shard = 1 << 18,
                            .op = MADE_AVG,
                            .times = true,
                            .states = true,
                            .cycles = true,
                            .slots = true,
                            .compute_ns = 30000000,
                            .plain_ns = 2000000,
                            .compressed_ns = 700000,
                            .slow_rank = -1,
                            .identity = 0x7a6c};
}

/* A number in 0..1, a function of the three. */
static inline double trace_chance(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t hash =
    tagc_hash_add(tagc_hash_add(tagc_hash_add(TAGC_HASH_START, &a, sizeof a), &b, sizeof b), &c, sizeof c);
  return (double)(hash >> 11) / (double)(UINT64_C(1) << 53);
}

static inline unsigned trace_job_calls(const struct trace_job *job) {
  return (job->all_reduces ? 1 : 3) * job->layers + 1;
}

static inline uint64_t trace_job_shard(const struct trace_job *job, unsigned layer) { return job->shard + layer % 3; }

/* The side of a step, counted from 1: enum tagc_sum_side. */
static inline unsigned trace_job_side(const struct trace_job *job, uint64_t cycle) {
  if (!job->window || cycle <= 2)
    return 0;
  return (cycle - 3) / job->window % 2 ? 2 : 1;
}

/* A rank while its trace is made. */
struct trace_rank {
  const struct trace_job *job;
  struct trace *t;
  int rank;
  uint64_t now;  /* the end of the last call, on all ranks */
  uint64_t step; /* from 0, with those of the warm-up */
};

/* The bytes of a plain call in a ring, averaged over the host's ranks, which share the traffic that leaves the host. */
static inline void trace_ring(const struct trace_job *job, unsigned function, uint64_t raw, uint64_t *inside,
                              uint64_t *between) {
  uint64_t ranks = (uint64_t)job->ranks, others = ranks - 1, hosts = job->hosts > 1 ? (uint64_t)job->hosts : 1;
  uint64_t bytes = function == MADE_ALL_GATHER       ? raw * others
                   : function == MADE_REDUCE_SCATTER ? raw / ranks * others
                                                     : 2 * raw * others / ranks;
  *between = hosts > 1 ? bytes * hosts / ranks : 0;
  *inside = bytes - *between;
}

/* This rank's compute time before its next call, in a step with `calls` calls. */
static inline uint64_t trace_compute(const struct trace_rank *r, int rank, unsigned calls, unsigned at) {
  uint64_t ns = r->job->compute_ns / calls, most = r->job->jitter_ns / calls;
  ns += (uint64_t)((double)most * trace_chance((uint64_t)rank, r->step, at));
  return ns + (rank == r->job->slow_rank ? r->job->slow_ns / calls : 0);
}

/* Adds the at-th call of the step; `call` has the fields that are not times. */
static inline void trace_job_call(struct trace_rank *r, unsigned calls, unsigned at, struct tagc_trace_call call) {
  const struct trace_job *job = r->job;
  bool small = call.action == MADE_COMPRESS;
  uint64_t mine = r->now + trace_compute(r, r->rank, calls, at), last = mine;
  for (int i = 0; i < job->ranks; i++) {
    uint64_t there = r->now + trace_compute(r, i, calls, at);
    last = there > last ? there : last;
  }
  uint64_t wire = small ? job->compressed_ns : job->plain_ns;
  call.number = ++r->t->calls;
  call.began_ns = mine;
  call.host_ns = job->on_gpu ? 5000 : last + wire - mine;
  call.thread = 1;
  call.peer = -1;
  trace_ring(job, call.function, call.raw_bytes, &call.plain_inside, &call.plain_between);
  unsigned percent = !small ? 100 : job->wire_percent ? job->wire_percent : 25;
  call.inside = call.plain_inside * percent / 100;
  call.between = call.plain_between * percent / 100;
  trace_add(r->t, TAGC_TRACE_CALL, 1, &call, sizeof call, 0, NULL);
  const bool unknown = job->often_unknown && small && call.number % 2;
  const uint64_t encode = small ? wire / (unknown ? 70 : 10) : 0, decode = small ? wire / (unknown ? 70 : 20) : 0;
  const uint64_t hidden = unknown ? 0 : (encode + decode) * job->hidden_percent / 100;
  if (job->times && (call.slot >= 0 || call.allgather || call.function == MADE_REDUCE_SCATTER))
    trace_put(r->t, TIMES, 1, .call = call.number, .encode_ns = encode,
              .exchange_ns = wire - encode - decode + hidden + (last - mine), .decode_ns = decode, .hidden_ns = hidden,
              .by_device = job->on_gpu, .hidden_unknown = unknown);
  if (job->profiled)
    trace_put(r->t, PROFILE, 1, .call = call.number, .posted_ns = mine, .kernel_began_ns = last + wire / 2,
              .kernel_ns = wire - wire / 2, .function = call.function, .channels = 2, .sent_bytes = call.between,
              .sending_ns = wire / 4, .sends = 1, .by_device = job->on_gpu);
  r->now = last + wire;
}

/* Adds one of the step's calls on a layer. */
static inline void trace_layer_call(struct trace_rank *r, unsigned at, unsigned function, unsigned layer,
                                    struct tagc_trace_call like) {
  const struct trace_job *job = r->job;
  bool reduces = function != MADE_ALL_GATHER, whole = function == MADE_ALL_REDUCE;
  like.function = (uint16_t)function;
  like.count = trace_job_shard(job, layer) * (whole ? (uint64_t)job->ranks : 1);
  like.type = (uint8_t)job->type;
  like.op = (uint8_t)(reduces ? job->op : 0);
  like.raw_bytes = like.count * trace_type_bytes(job->type) * (uint64_t)(reduces && !whole ? job->ranks : 1);
  like.slot = reduces && like.lock ? (int32_t)(job->layers - 1 - layer) : -1;
  if (!reduces && job->allgathers)
    like.allgather = like.lock ? (at < job->layers ? layer : 2 * job->layers - 1 - layer) + 1 : 0;
  else if (!reduces) {
    like.action = MADE_PASS;
    like.reason = MADE_OTHER_REASON;
  }
  trace_job_call(r, trace_job_calls(job), at, like);
}

static inline void trace_job_states(struct trace_rank *r, uint64_t cycle) {
  for (unsigned slot = 0; slot < r->job->layers; slot++)
    trace_put(r->t, STATE, 1, .cycle = cycle, .lock = 1, .slot = slot, .residual_norm = 1.0 / (double)cycle,
              .gradient_norm = 2.0 / (double)cycle, .error = 0.1 + 0.01 * slot);
}

/* Adds a step; cycle 0: of the warm-up. */
static inline void trace_job_step(struct trace_rank *r, uint64_t cycle) {
  const struct trace_job *job = r->job;
  unsigned layers = job->layers, at = 0, side = trace_job_side(job, cycle);
  bool small = side == 2 || (!job->window && job->compressed && cycle > 2);
  uint64_t began = r->now;
  struct tagc_trace_call like = {
    .lock = cycle > 0, .cycle = cycle, .slot = -1, .flags = cycle > 0 ? TAGC_TRACE_IN_SYNC : 0};
  like.flags |= side == 1 ? TAGC_TRACE_PLAIN_SIDE : side == 2 ? TAGC_TRACE_COMPRESSED_SIDE : 0;
  like.action = small ? MADE_COMPRESS : MADE_PASS;
  like.reason = small                            ? MADE_SAID_YES
                : side == 1                      ? MADE_PLAIN_WINDOW
                : job->compressed || job->window ? MADE_WARMUP
                                                 : MADE_OBSERVED;
  for (unsigned i = 0; i < layers && !job->all_reduces; i++)
    trace_layer_call(r, at++, MADE_ALL_GATHER, i, like);
  for (unsigned i = layers; i-- > 0;) {
    if (!job->all_reduces)
      trace_layer_call(r, at++, MADE_ALL_GATHER, i, like);
    trace_layer_call(r, at++, job->all_reduces ? MADE_ALL_REDUCE : MADE_REDUCE_SCATTER, i, like);
  }
  struct tagc_trace_call loss = {.function = MADE_ALL_REDUCE,
                                 .count = 1,
                                 .raw_bytes = 4,
                                 .slot = -1,
                                 .cycle = cycle,
                                 .lock = like.lock,
                                 .flags = like.flags,
                                 .reason = MADE_OTHER_REASON};
  trace_job_call(r, trace_job_calls(job), at, loss);
  if (job->states && small)
    trace_job_states(r, cycle);
  if (job->cycles && cycle)
    trace_put(r->t, CYCLE, 1, .began_ns = began, .ended_ns = r->now, .cycle = cycle, .lock = 1, .side = (uint16_t)side,
              .disturbed = job->disturbed && cycle % job->disturbed == 0);
  r->step++;
}

/* The gathers of the backward pass repeat those of the forward pass. */
static inline void trace_job_allgathers(struct trace_rank *r, const char *codec) {
  const struct trace_job *job = r->job;
  for (unsigned i = 0; i < 2 * job->layers && job->allgathers; i++) {
    const unsigned layer = i < job->layers ? i : 2 * job->layers - 1 - i;
    const struct tagc_trace_allgather fields = {.lock = 1,
                                                .allgather = i + 1,
                                                .slot = job->layers - 1 - layer,
                                                .again = i >= job->layers,
                                                .count = trace_job_shard(job, layer),
                                                .type = (uint16_t)job->type,
                                                .reason = *codec ? MADE_SAID_YES : MADE_WARMUP,
                                                .voted = *codec != '\0'};
    trace_add(r->t, TAGC_TRACE_ALLGATHER, 1, &fields, sizeof fields, 1, &codec);
  }
}

static inline void trace_vote(struct trace *t, uint32_t comm, const struct tagc_trace_vote *fields, const char *why) {
  trace_add(t, TAGC_TRACE_VOTE, comm, fields, sizeof *fields, 1, &why);
}

/* `codec`: "" before the vote. */
static inline void trace_job_slots(struct trace_rank *r, const char *codec) {
  const struct trace_job *job = r->job;
  const bool voted = *codec != '\0';
  for (unsigned slot = 0; slot < job->layers; slot++) {
    unsigned layer = job->layers - 1 - slot;
    char name[32];
    struct tagc_trace_slot s = {.lock = 1,
                                .slot = slot,
                                .unit = layer,
                                .count = trace_job_shard(job, layer) * (job->all_reduces ? (uint64_t)job->ranks : 1),
                                .type = (uint16_t)job->type,
                                .op = (uint16_t)job->op,
                                .reason = voted ? MADE_SAID_YES : MADE_WARMUP,
                                .voted = voted};
    uint64_t all = trace_job_shard(job, layer) * (uint64_t)job->ranks;
    s.part[layer == 0 ? TAGC_TRACE_EMBED : TAGC_TRACE_MLP] = all - all / 4;
    s.part[TAGC_TRACE_ATTN] = all / 4;
    s.selected = voted ? all : 0;
    snprintf(name, sizeof name, layer == 0 ? "embed" : "block.%u", layer - 1);
    trace_add(r->t, TAGC_TRACE_SLOT, 1, &s, sizeof s, job->all_reduces ? 3 : 2,
              (const char *const[]){name, codec, "ncclAllReduce"});
  }
}

static inline void trace_job_rank(struct trace *t, const struct trace_job *job, int rank) {
  struct trace_rank r = {job, t, rank, 1000000000, 0};
  int hosts = job->hosts > 1 ? job->hosts : 1, host = rank / (job->ranks / hosts);
  char name[32], sides[48];
  struct tagc_trace_process process = {.pid = (job->first_pid ? job->first_pid : 1000) + rank,
                                       .nccl_version = 22707,
                                       .monotonic_ns = 1000000000,
                                       .realtime_ns = 1700000000000000000 + host * job->clock_skew_ns};
  bool votes = job->compressed || job->window;
  snprintf(name, sizeof name, "node%d", host);
  trace_process(t, &process, name, "train", "0.1");
  trace_names(t);
  snprintf(sides, sizeof sides, "TAGC_MODE=ab\nTAGC_AB=%u\n", job->window);
  trace_options(t, job->window ? sides : job->compressed ? "TAGC_MODE=compress\n" : "TAGC_MODE=observe\n");
  trace_put(t, COMM, 1, .identity = job->identity, .on_host = !job->on_gpu, .born_ns = r.now, .rank = rank,
            .nranks = job->ranks, .function = MADE_INIT, .agreed = 1, .hosts = (uint32_t)hosts, .number = 0);
  if (job->world)
    trace_put(t, COMM, 2, .identity = 0x30b, .on_host = !job->on_gpu, .born_ns = r.now, .rank = job->first_rank + rank,
              .nranks = job->world, .function = MADE_INIT, .agreed = 1, .number = 1);
  for (unsigned i = 0; i < job->warmup; i++)
    trace_job_step(&r, 0);
  struct tagc_trace_lock lock = {
    .at_ns = r.now, .lock = 1, .calls = trace_job_calls(job), .slots = job->layers, .gradients = 1, .confidence = 80};
  if (job->slots) {
    trace_lock(t, 1, &lock, "llama, hidden 64", "gpt2, hidden 64");
    trace_job_slots(&r, "");
    trace_job_allgathers(&r, "");
  }
  for (uint64_t cycle = 1; cycle <= job->steps; cycle++) {
    if ((cycle == 3 || (job->revote && cycle == job->revote)) && votes && job->slots) {
      const bool again = cycle != 3;
      if (job->revote)
        trace_vote(t, 1, &(struct tagc_trace_vote){.at_ns = r.now, .cycle = cycle, .lock = 1, .vote = 1 + again},
                   again ? "the error was 3%" : "");
      trace_job_slots(&r, again ? "q8" : "q4");
      trace_job_allgathers(&r, "bf16");
    }
    trace_job_step(&r, cycle);
  }
  trace_put(t, COMM_END, 1, .at_ns = r.now, .function = MADE_DESTROY);
  trace_put(t, END, 0, .at_ns = r.now, .calls = t->calls, .dropped = t->dropped);
  trace_chunk_ends(t);
}

/* Writes the job's traces to FOLDER/NAME-RANK.trace. Returns their paths, which trace_paths_free() frees. */
static inline char **trace_job_write(const struct trace_job *job, const char *folder, const char *name) {
  char **paths = calloc((size_t)job->ranks + 1, sizeof *paths);
  for (int i = 0; paths && i < job->ranks; i++) {
    struct trace t = {0};
    size_t room = strlen(folder) + strlen(name) + 32;
    paths[i] = malloc(room);
    if (!paths[i])
      abort();
    snprintf(paths[i], room, "%s/%s-%d.trace", folder, name, i);
    trace_job_rank(&t, job, i);
    trace_write(&t, paths[i]);
    trace_free(&t);
  }
  return paths ? paths : (abort(), paths);
}

/* Frees the paths, and removes the files, too. */
static inline void trace_paths_free(char **paths) {
  for (char **path = paths; *path; path++) {
    remove(*path);
    free(*path);
  }
  free(paths);
}

#endif
