/* SPDX-License-Identifier: BSD-3-Clause
 * A rank's part of random programs, and the check of its results; see random_program.h.
 *
 * Values are small integers that repeat after PERIOD elements, a prime, so a shift shows. Their sums are exact in every
 * type and in every order. So a result must be right to the last bit, unless a codec that rounds may have had it. Then
 * its error, relative to the norms of the summands, must be that codec's. Around each buffer lie bytes that nobody
 * may change, and send buffers must stay as they were.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "tests/e2e/harness.h"
#include "tests/e2e/calls/random_program.h"

enum { PERIOD = 509, GUARD = 64, GUARD_BYTE = 0xee, POISON = 0xa5, MOST_JOBS = 64, TYPES = 10 };
static const size_t arena_bytes = (size_t)256 << 20; /* most of it is never touched */

struct job {
  const struct call *call;
  const struct communicator *comm;
  int bundle, place; /* place: of this rank in the communicator */
  ncclComm_t handle;
  uint64_t id;           /* of the call in the program */
  size_t size;           /* of an element */
  size_t sent, received; /* elements of the buffers */
  char *send, *recv;
  ncclRedOp_t op;
};

struct side_stream {
  int number;
  const struct event *run;
  char *arena;
  size_t used;
  struct job jobs[MOST_JOBS];
  int njobs;
  atomic_int at; /* the bundle whose block is under way */
  atomic_ullong blocks;
};

static const struct orders *orders;
static struct program program;
static ncclComm_t handles[MOST_COMMS];
static bool is_used[MOST_COMMS];
static int comms_used; /* of this process, with a collective: the numbers that reports give them */
static struct side_stream side_streams[LANES];

static double values[MOST_RANKS][PERIOD];
static char typed[TYPES][MOST_RANKS][PERIOD * 8];
static float of_half[1 << 16];

/* -- failure ------------------------------------------------------------------------------------------------------- */
__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...) {
  char text[600];
  va_list args;
  va_start(args, format);
  int n = snprintf(text, sizeof text, "FAIL %s: rank %d: ", program.name, rank);
  n += vsnprintf(text + n, sizeof text - (size_t)n, format, args);
  va_end(args);
  dprintf(STDERR_FILENO, "%s\n", text);
  _exit(1);
}

__attribute__((format(printf, 2, 3), noreturn)) static void fail_call(const struct job *job, const char *format, ...) {
  char text[300], words[100];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fail("step %d, bundle %d, communicator %d: %s: %s", program.bundles[job->bundle].step, job->bundle,
       program.bundles[job->bundle].comm, call_words(job->call, words), text);
}

static void must(ncclResult_t status, const char *what, int comm) {
  if (status != ncclSuccess)
    fail("%s, communicator %d: error %d, %s", what, comm, status, ncclGetErrorString(status));
}

/* Waits until the communicator is done, if it is non-blocking. The pauses grow: a launch takes some 300 us, a first
 * contact many times that. */
static ncclResult_t settle(ncclComm_t *handle, ncclResult_t status) {
  for (long us = 50; status == ncclInProgress; us = us < 800 ? 2 * us : us) {
    ncclComm_t comm = __atomic_load_n(handle, __ATOMIC_ACQUIRE); /* a child's appears late */
    ncclResult_t asked = comm ? ncclCommGetAsyncError(comm, &status) : ncclSuccess;
    if (asked != ncclSuccess)
      return asked;
    nanosleep(&(struct timespec){.tv_nsec = 1000 * us}, NULL);
  }
  return status;
}

/* -- values -------------------------------------------------------------------------------------------------------- */
static size_t type_bytes(ncclDataType_t type) {
  static const size_t bytes[TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return bytes[type];
}

static void store_any(char *to, size_t i, double value, ncclDataType_t type) {
  switch (type) {
  case ncclUint8: ((uint8_t *)to)[i] = (uint8_t)fabs(value); break;
  case ncclInt32: ((int32_t *)to)[i] = (int32_t)value; break;
  case ncclInt64: ((int64_t *)to)[i] = (int64_t)value; break;
  case ncclFloat64: ((double *)to)[i] = value; break;
  default: store(to, i, (float)value, type);
  }
}

static double load_any(const char *from, size_t i, ncclDataType_t type) {
  switch (type) {
  case ncclUint8: return ((const uint8_t *)from)[i];
  case ncclInt32: return ((const int32_t *)from)[i];
  case ncclInt64: return (double)((const int64_t *)from)[i];
  case ncclFloat64: return ((const double *)from)[i];
  case ncclFloat16: return of_half[((const uint16_t *)from)[i]];
  default: return load(from, i, type);
  }
}

static bool is_sparse(void) {
  const char *codec = orders->setting->codec;
  return strcmp(codec, "sparse") == 0 || strcmp(codec, "lhc") == 0;
}

static void make_values(void) {
  static const ncclDataType_t types[] = {ncclUint8,   ncclInt32,   ncclInt64,   ncclFloat64,
                                         ncclFloat32, ncclFloat16, ncclBfloat16};
  for (int r = 0; r < MOST_RANKS; r++)
    for (size_t k = 0; k < PERIOD; k++)
      values[r][k] = is_sparse() && k % 61 ? 0 : (double)(mix_bits((uint64_t)r * PERIOD + k) % 15) - 7;
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    for (int r = 0; r < MOST_RANKS; r++)
      for (size_t k = 0; k < PERIOD; k++)
        store_any(typed[types[t]][r], k, values[r][k], types[t]);
  for (int h = 0; h < 1 << 16; h++) {
    const uint16_t half = (uint16_t)h;
    of_half[h] = load(&half, 0, ncclFloat16);
  }
}

/* The first value of a place's buffer. Sparse buffers have their values at the same elements on all ranks. */
static size_t begins(const struct job *job, int place) {
  return mix_bits(job->id * 8 + (is_sparse() ? 0 : (uint64_t)place)) % PERIOD;
}

static double scalar_of(const struct job *job, int place) {
  static const double scalars[] = {1, 2, 0.5, -1};
  return job->call->op == SCALED ? scalars[((uint64_t)place + job->id) % 4] : 1;
}

/* Writes, or compares, `count` elements of a place's buffer from `first` on. Returns how many are equal. */
static size_t each_piece(const struct job *job, int place, size_t first, size_t count, char *buffer, bool writes) {
  const char *table = typed[job->call->type][job->comm->ranks[place]];
  for (size_t done = 0, n; done < count; done += n) {
    const size_t at = (begins(job, place) + first + done) % PERIOD;
    n = PERIOD - at < count - done ? PERIOD - at : count - done;
    char *piece = buffer + done * job->size;
    if (writes)
      memcpy(piece, table + at * job->size, n * job->size);
    else if (memcmp(piece, table + at * job->size, n * job->size) != 0)
      for (size_t i = 0;; i++)
        if (memcmp(piece + i * job->size, table + (at + i) * job->size, job->size) != 0)
          return done + i;
  }
  return count;
}

/* -- buffers ------------------------------------------------------------------------------------------------------- */
static char *take(struct side_stream *side_stream, size_t bytes, int byte) {
  const size_t all = (bytes + 2 * GUARD + 63) / 64 * 64;
  if (side_stream->used + all > arena_bytes)
    fail("the buffers of a block have no room");
  char *guarded = side_stream->arena + side_stream->used;
  side_stream->used += all;
  memset(guarded, GUARD_BYTE, GUARD);
  memset(guarded + GUARD, byte, bytes);
  memset(guarded + GUARD + bytes, GUARD_BYTE, GUARD);
  return guarded + GUARD;
}

static void check_guards(const struct job *job, const char *buffer, size_t bytes, const char *which) {
  for (size_t i = 0; i < GUARD; i++)
    if ((unsigned char)buffer[-1 - (ptrdiff_t)i] != GUARD_BYTE || (unsigned char)buffer[bytes + i] != GUARD_BYTE)
      fail_call(job, "somebody wrote outside of the %s buffer", which);
}

static void size_buffers(struct job *job) {
  const size_t n = (size_t)job->comm->nranks, count = job->call->count;
  const bool is_root = job->place == job->call->root;
  const enum function f = job->call->function;
  job->sent = f == REDUCE_SCATTER || f == ALL_TO_ALL || f == SCATTER ? n * count : count;
  job->received = f == ALL_GATHER || f == ALL_TO_ALL || (f == GATHER && is_root) ? n * count : count;
}

static void lay_out(struct side_stream *side_stream, struct job *job) {
  const size_t own = (size_t)job->place * job->call->count * job->size;
  size_buffers(job);
  if (job->call->in_place && job->call->function == ALL_GATHER) {
    job->recv = take(side_stream, job->received * job->size, POISON);
    job->send = job->recv + own;
  } else {
    job->send = take(side_stream, job->sent * job->size, 0);
    if (job->call->in_place)
      job->recv = job->send + (job->call->function == REDUCE_SCATTER ? own : 0);
    else
      job->recv = take(side_stream, job->received * job->size, POISON);
  }
  each_piece(job, job->place, 0, job->sent, job->send, true);
}

/* -- results of a call --------------------------------------------------------------------------------------------- */
/* The relative error that the codec may make, of the norms of a result's inputs; 0: none. */
static double codec_error(const char *codec) {
  static const struct {
    const char *name;
    double error;
  } errors[] = {{"q8", 0.01}, {"q4", 0.2}, {"q3", 0.3}, {"auto", 0.5}, {"q2", 0.5}, {"delta", 0.4}};
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (strcmp(codec, errors[i].name) == 0)
      return errors[i].error;
  return 0;
}

static bool rounds(const char *codec) { return strcmp(codec, "none") != 0 && strcmp(codec, "bf16") != 0; }

static double allowed(const struct job *job) {
  const struct call *c = job->call;
  const struct setting *s = orders->setting;
  const bool is_float = c->type == ncclFloat32 || c->type == ncclFloat16 || c->type == ncclBfloat16;
  const bool sums = c->op == SUM || c->op == AVERAGE || c->op == SCALED;
  const bool large = c->function == ALL_REDUCE && c->count >= 1 << 15;
  double error = 0;
  const bool reduces = c->function == REDUCE_SCATTER || c->function == ALL_REDUCE || c->function == REDUCE;
  if (reduces && c->op == AVERAGE && (job->comm->nranks & (job->comm->nranks - 1)))
    error = 0.01; /* thirds are exact in no type */
  const bool compresses = !orders->plain && is_float && job->comm->nranks > 1;
  if (compresses && c->function == ALL_GATHER)
    error += codec_error(s->gather);
  if (compresses && (c->function == REDUCE_SCATTER || large) && sums)
    error += codec_error(s->codec) * (s->residual ? 2 : 1);
  if (compresses && large && sums && rounds(s->codec))
    error += 0.01;
  /* A few elements may all be rounded badly. */
  return error * (1 + 4 / sqrt((double)job->received));
}

struct truth {
  double values[PERIOD]; /* from the buffers' first element on */
  double norm2;          /* of an element, of all that is summed */
};

static double combine(enum op op, double a, double b) {
  return op == MAX ? (a > b ? a : b) : op == MIN ? (a < b ? a : b) : a + b;
}

static void reduce_truth(const struct job *job, struct truth *t) {
  const int n = job->comm->nranks;
  t->norm2 = 0;
  for (int place = 0; place < n; place++) {
    const double *v = values[job->comm->ranks[place]];
    const double scalar = scalar_of(job, place) / (job->call->op == AVERAGE ? n : 1);
    size_t at = begins(job, place);
    for (size_t k = 0; k < PERIOD; k++) {
      const double x = (job->call->type == ncclUint8 ? fabs(v[at]) : v[at]) * scalar;
      t->values[k] = place ? combine(job->call->op, t->values[k], x) : x;
      t->norm2 += x * x / PERIOD;
      at = at + 1 == PERIOD ? 0 : at + 1;
    }
  }
}

static void check_near(const struct job *job, const struct truth *t, size_t first, size_t count, const char *got,
                       double error) {
  double error2 = 0;
  for (size_t i = 0; i < count; i++) {
    const double off = load_any(got, i, job->call->type) - t->values[(first + i) % PERIOD];
    error2 += off * off;
  }
  const double norm2 = t->norm2 * (double)count + 1;
  if (!(error2 <= error * error * norm2))
    fail_call(job, "the error is %.3g of what was given, %.3g is allowed; element 0 is %g, not %g",
              sqrt(error2 / norm2), error, load_any(got, 0, job->call->type), t->values[first % PERIOD]);
}

static void check_reduced(const struct job *job) {
  static _Thread_local struct truth truth;
  const size_t first = job->call->function == REDUCE_SCATTER ? (size_t)job->place * job->call->count : 0;
  const double error = allowed(job);
  _Alignas(8) char bytes[PERIOD * 8];
  reduce_truth(job, &truth);
  if (error > 0) {
    check_near(job, &truth, first, job->received, job->recv, error);
    return;
  }
  for (size_t k = 0; k < PERIOD; k++)
    store_any(bytes, k, truth.values[k], job->call->type);
  for (size_t i = 0; i < job->received; i++)
    if (memcmp(job->recv + i * job->size, bytes + (first + i) % PERIOD * job->size, job->size) != 0)
      fail_call(job, "element %zu of %zu is %g, not %g", i, job->received, load_any(job->recv, i, job->call->type),
                truth.values[(first + i) % PERIOD]);
}

/* Checks that `count` elements at `to` are those of a place, from `first` on. */
static void check_copied(const struct job *job, int place, size_t first, const char *to) {
  const double error = allowed(job);
  const size_t count = job->call->count;
  const size_t equal = each_piece(job, place, first, count, (char *)to, false);
  if (equal == count)
    return;
  if (error > 0) {
    static _Thread_local struct truth truth;
    truth.norm2 = 0;
    for (size_t k = 0; k < PERIOD; k++) {
      truth.values[k] = values[job->comm->ranks[place]][(begins(job, place) + k) % PERIOD];
      truth.norm2 += truth.values[k] * truth.values[k] / PERIOD;
    }
    check_near(job, &truth, first, count, to, error);
  } else {
    fail_call(job, "element %zu of %zu that come from its rank %d is %g", equal, count, place,
              load_any(to, equal, job->call->type));
  }
}

static void check_poison(const struct job *job) {
  for (size_t i = 0; i < job->received * job->size; i++)
    if ((unsigned char)job->recv[i] != POISON)
      fail_call(job, "a buffer was written that receives nothing");
}

static void check_received(const struct job *job) {
  const struct call *c = job->call;
  const int n = job->comm->nranks, place = job->place;
  const size_t own = (size_t)place * c->count, shard = c->count * job->size;
  switch (c->function) {
  case REDUCE_SCATTER:
  case ALL_REDUCE: check_reduced(job); break;
  case REDUCE: (place == c->root ? check_reduced : check_poison)(job); break;
  case BROADCAST: check_copied(job, c->root, 0, job->recv); break;
  case SCATTER: check_copied(job, c->root, own, job->recv); break;
  case SHIFT: check_copied(job, (place + n - 1) % n, 0, job->recv); break;
  case GATHER:
    if (place != c->root) {
      check_poison(job);
      break;
    } /* fall through */
  case ALL_GATHER:
  case ALL_TO_ALL:
    for (int i = 0; i < n; i++)
      check_copied(job, i, c->function == ALL_TO_ALL ? own : 0, job->recv + (size_t)i * shard);
    break;
  default: check_poison(job);
  }
}

static void check_sent(const struct job *job) {
  const size_t count = job->call->count;
  if (job->call->in_place && job->call->function != REDUCE_SCATTER)
    return;
  for (size_t first = 0; count && first < job->sent; first += count)
    if (!(job->call->in_place && first == (size_t)job->place * count) &&
        each_piece(job, job->place, first, count, job->send + first * job->size, false) != count)
      fail_call(job, "the send buffer was changed");
}

static void check_job(const struct job *job) {
  const bool gathers = job->call->in_place && job->call->function == ALL_GATHER;
  check_received(job);
  check_sent(job);
  check_guards(job, gathers ? job->recv : job->send, (gathers ? job->received : job->sent) * job->size, "send");
  if (!job->call->in_place)
    check_guards(job, job->recv, job->received * job->size, "receive");
}

/* -- calls --------------------------------------------------------------------------------------------------------- */
static ncclRedOp_t standard_op(const struct call *c) {
  static const ncclRedOp_t ops[] = {ncclSum, ncclAvg, ncclMax, ncclMin};
  return ops[c->op == SCALED ? 0 : c->op];
}

static void make_op(struct job *job) {
  char scalar[8];
  job->op = standard_op(job->call);
  if (job->call->op != SCALED || job->call->function == ALL_GATHER)
    return;
  store_any(scalar, 0, scalar_of(job, job->place), job->call->type);
  must(ncclRedOpCreatePreMulSum(&job->op, scalar, job->call->type, ncclScalarHostImmediate, job->handle),
       "ncclRedOpCreatePreMulSum", program.bundles[job->bundle].comm);
}

static void free_op(struct job *job) {
  if (job->op >= ncclNumOps)
    must(ncclRedOpDestroy(job->op, job->handle), "ncclRedOpDestroy", program.bundles[job->bundle].comm);
  job->op = ncclSum;
}

static ncclResult_t shift(const struct job *job) {
  const int n = job->comm->nranks;
  const size_t count = job->call->count;
  const ncclDataType_t type = job->call->type;
  const ncclResult_t status = ncclSend(job->send, count, type, (job->place + 1) % n, job->handle, NULL);
  const ncclResult_t received = ncclRecv(job->recv, count, type, (job->place + n - 1) % n, job->handle, NULL);
  return status != ncclSuccess && status != ncclInProgress ? status : received;
}

static ncclResult_t enqueue(const struct job *j) {
  const struct call *c = j->call;
  switch (c->function) {
  case REDUCE_SCATTER: return ncclReduceScatter(j->send, j->recv, c->count, c->type, j->op, j->handle, NULL);
  case ALL_GATHER: return ncclAllGather(j->send, j->recv, c->count, c->type, j->handle, NULL);
  case ALL_REDUCE: return ncclAllReduce(j->send, j->recv, c->count, c->type, j->op, j->handle, NULL);
  case REDUCE: return ncclReduce(j->send, j->recv, c->count, c->type, j->op, c->root, j->handle, NULL);
  case ALL_TO_ALL: return ncclAlltoAll(j->send, j->recv, c->count, c->type, j->handle, NULL);
  case GATHER: return ncclGather(j->send, j->recv, c->count, c->type, c->root, j->handle, NULL);
  case SCATTER: return ncclScatter(j->send, j->recv, c->count, c->type, c->root, j->handle, NULL);
  case SHIFT: return shift(j);
  default: return ncclBroadcast(j->send, j->recv, c->count, c->type, c->root, j->handle, NULL);
  }
}

/* A communicator has a number in reports from its first collective on. */
static void note_use(const struct job *job) {
  const int comm = program.bundles[job->bundle].comm;
  if (!is_used[comm] && job->call->function != SHIFT)
    __atomic_fetch_add(&comms_used, 1, __ATOMIC_RELAXED);
  is_used[comm] |= job->call->function != SHIFT;
}

static void call_job(struct job *job, bool in_group) {
  const bool refused = job->call->function == REFUSED;
  note_use(job);
  ncclResult_t status = enqueue(job);
  if (!in_group)
    status = settle(&job->handle, status);
  if (status != (refused ? ncclInvalidArgument : ncclSuccess) && !(in_group && status == ncclInProgress))
    fail_call(job, "error %d, %s", status, ncclGetErrorString(status));
}

/* -- planted faults, which the tests must find --------------------------------------------------------------------- */
static void spoil(struct side_stream *side_stream) {
  static atomic_bool is_spoilt;
  const struct job *job = &side_stream->jobs[0];
  const char *how = orders->spoils;
  const bool receives = job->call->count > 0 && job->call->function <= ALL_REDUCE;
  if (!how || rank != nranks - 1 || !receives || atomic_exchange(&is_spoilt, true))
    return;
  if (strcmp(how, "result") == 0)
    job->recv[job->received * job->size - 1] ^= 64;
  else if (strcmp(how, "guard") == 0)
    job->recv[job->received * job->size] ^= 1;
  else if (strcmp(how, "sent") == 0)
    job->send[0] ^= 1;
  else
    while (true)
      pause();
}

/* -- blocks -------------------------------------------------------------------------------------------------------- */
/* A random choice of this rank alone. */
static uint64_t whim(const struct job *job, int what) {
  const uint64_t own = program.shape <= SHAPE_ALIKE ? 0 : (uint64_t)rank + 1;
  return mix_bits(program.seed ^ mix_bits((uint64_t)job->bundle << 16 ^ (uint64_t)what << 8 ^ own));
}

/* Orders the jobs of several bundles; `order`: the order of the bundles. */
static void shuffle(const struct side_stream *side_stream, int *order, int nbundles) {
  for (int i = 0; i < nbundles; i++)
    order[i] = i;
  for (int i = nbundles - 1; i > 0 && (program.shape == SHAPE_ORDERS || program.shape == SHAPE_ANY); i--) {
    const int j = (int)(whim(&side_stream->jobs[0], i) % (uint64_t)(i + 1)), held = order[i];
    order[i] = order[j];
    order[j] = held;
  }
}

static void add_jobs(struct side_stream *side_stream, int bundle) {
  const struct bundle *b = &program.bundles[bundle];
  for (int k = 0; k < b->ncalls; k++) {
    if (side_stream->njobs == MOST_JOBS)
      fail("a block has too many calls");
    struct job *job = &side_stream->jobs[side_stream->njobs++];
    *job = (struct job){.call = &b->calls[k], .comm = &program.comms[b->comm], .bundle = bundle};
    job->handle = handles[b->comm];
    job->id = mix_bits(program.seed) ^ (uint64_t)(bundle * MOST_CALLS + k);
    job->size = type_bytes(job->call->type);
    job->place = place_in(job->comm, rank);
    lay_out(side_stream, job);
    make_op(job);
  }
}

static void call_bundle(struct side_stream *side_stream, int bundle) {
  for (int i = 0; i < side_stream->njobs; i++) {
    struct job *job = &side_stream->jobs[i];
    if (job->bundle != bundle)
      continue;
    const bool nested = whim(job, 200) % 8 == 0, early = whim(job, 201) % 2;
    if (nested)
      must(ncclGroupStart(), "ncclGroupStart", 0);
    call_job(job, true);
    if (nested)
      must(ncclGroupEnd(), "ncclGroupEnd", 0);
    if (early)
      free_op(job);
  }
}

static void call_group(struct side_stream *side_stream, const int *block, int n) {
  int order[MOST_JOBS];
  shuffle(side_stream, order, n);
  must(ncclGroupStart(), "ncclGroupStart", 0);
  for (int i = 0; i < n; i++)
    call_bundle(side_stream, block[order[i]]);
  const ncclResult_t ended = ncclGroupEnd();
  if (ended != ncclSuccess && ended != ncclInProgress)
    fail_call(&side_stream->jobs[0], "its group (%d calls) ends with error %d, %s", side_stream->njobs, ended,
              ncclGetErrorString(ended));
  for (int i = 0; i < side_stream->njobs; i++) {
    const ncclResult_t status = settle(&side_stream->jobs[i].handle, ended);
    if (status != ncclSuccess)
      fail_call(&side_stream->jobs[i], "error %d in a group, %s", status, ncclGetErrorString(status));
  }
}

static void run_block(struct side_stream *side_stream, const int *block, int n) {
  side_stream->used = 0;
  side_stream->njobs = 0;
  side_stream->at = block[0];
  for (int i = 0; i < n; i++)
    add_jobs(side_stream, block[i]);
  struct job *first = &side_stream->jobs[0];
  const bool must_group = side_stream->njobs > 1 || first->call->function == SHIFT;
  if (must_group || (first->call->function != REFUSED && whim(first, 202) % 4 == 0))
    call_group(side_stream, block, n);
  else
    call_job(first, false);
  spoil(side_stream);
  for (int i = 0; i < side_stream->njobs; i++) {
    free_op(&side_stream->jobs[i]);
    check_job(&side_stream->jobs[i]);
  }
  side_stream->blocks++;
}

static bool holds(const int *block, int n, int comm) {
  for (int i = 0; i < n; i++)
    if (program.bundles[block[i]].comm == comm)
      return true;
  return false;
}

static void *run_side_stream(void *argument) {
  struct side_stream *side_stream = argument;
  int block[MOST_JOBS], n = 0;
  for (int i = side_stream->run->first; i < side_stream->run->last; i++) {
    const struct bundle *b = &program.bundles[i];
    if (b->side_stream != side_stream->number || place_in(&program.comms[b->comm], rank) < 0)
      continue;
    if (n && (cuts_before(&program, i, block[n - 1], rank) || holds(block, n, b->comm))) {
      run_block(side_stream, block, n);
      n = 0;
    }
    block[n++] = i;
  }
  if (n)
    run_block(side_stream, block, n);
  side_stream->at = -1;
  return NULL;
}

/* -- events -------------------------------------------------------------------------------------------------------- */
static void run(const struct event *event) {
  pthread_t thread;
  for (int i = 0; i < LANES; i++)
    side_streams[i].run = event;
  if (program.threads && pthread_create(&thread, NULL, run_side_stream, &side_streams[1]) != 0)
    fail("no thread");
  run_side_stream(&side_streams[0]);
  if (program.threads)
    pthread_join(thread, NULL);
}

static ncclConfig_t config(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = !program.nonblocking;
  return config;
}

static void init_comm(int comm) {
  ncclUniqueId id;
  ncclConfig_t how = config();
  if (rank == 0)
    must(ncclGetUniqueId(&id), "ncclGetUniqueId", comm);
  must(ncclBroadcast(&id, &id, sizeof id, ncclUint8, 0, world, NULL), "ncclBroadcast of an id", comm);
  const ncclResult_t status = ncclCommInitRankConfig(&handles[comm], nranks, id, rank, &how);
  must(settle(&handles[comm], status), "ncclCommInitRankConfig", comm);
}

static void split_comm(const struct split *split) {
  ncclConfig_t how = config();
  ncclComm_t none = NULL, *child = split->child[rank] < 0 ? &none : &handles[split->child[rank]];
  if (place_in(&program.comms[split->parent], rank) < 0)
    return;
  ncclResult_t status = ncclCommSplit(handles[split->parent], split->color[rank], split->key[rank], child, &how);
  must(settle(&handles[split->parent], status), "ncclCommSplit", split->parent);
  if (child != &none)
    must(settle(child, status), "a child of ncclCommSplit", split->child[rank]);
  if (none)
    fail("ncclCommSplit gives a child to a rank without a color");
}

static void end_comm(int comm) {
  ncclComm_t *handle = &handles[comm];
  if (!*handle)
    return;
  if (program.nonblocking || mix_bits(program.seed + (uint64_t)comm) % 2)
    must(settle(handle, ncclCommFinalize(*handle)), "ncclCommFinalize", comm);
  const ncclResult_t status = ncclCommDestroy(*handle);
  must(status == ncclInProgress ? ncclSuccess : status, "ncclCommDestroy", comm);
  *handle = NULL;
}

static void run_program(void) {
  const int before = comms_used;
  memset(is_used, 0, sizeof is_used);
  for (int i = 0; i < program.nevents; i++) {
    const struct event *event = &program.events[i];
    switch (event->kind) {
    case EVENT_INIT: init_comm(event->which); break;
    case EVENT_SPLIT: split_comm(&program.splits[event->which]); break;
    case EVENT_RUN: run(event); break;
    case EVENT_END: end_comm(event->which); break;
    }
  }
  int32_t one = 1, all = 0;
  must(ncclAllReduce(&one, &all, 1, ncclInt32, ncclMin, world, NULL), "the end of the program", -1);
  dprintf(STDERR_FILENO, "done %s: %d %d\n", program.name, before + 1, comms_used);
}

/* -- a hang -------------------------------------------------------------------------------------------------------- */
static void tell_where(const struct side_stream *side_stream, char *text, size_t size) {
  char words[100];
  const int at = side_stream->at;
  if (at < 0)
    snprintf(text, size, "done");
  else
    snprintf(text, size, "step %d, bundle %d, communicator %d, %s", program.bundles[at].step, at,
             program.bundles[at].comm, call_words(&program.bundles[at].calls[0], words));
}

static void *watch(void *argument) {
  char where[LANES][200];
  uint64_t last = UINT64_MAX;
  (void)argument;
  for (int still = 0; still < orders->patience; still++) {
    const uint64_t blocks = side_streams[0].blocks + side_streams[1].blocks + program.seed;
    still = blocks == last ? still : 0;
    last = blocks;
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
  }
  for (int i = 0; i < LANES; i++)
    tell_where(&side_streams[i], where[i], sizeof where[i]);
  fail("no progress for %d s; in the block of: %s; second thread: %s", orders->patience, where[0], where[1]);
}

int run_programs(const struct orders *given) {
  pthread_t watcher;
  orders = given;
  for (int i = 0; i < LANES; i++) {
    side_streams[i].number = i;
    side_streams[i].at = -1;
    side_streams[i].arena =
      mmap(NULL, arena_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (side_streams[i].arena == MAP_FAILED)
      fail("no memory");
  }
  make_values();
  snprintf(program.name, sizeof program.name, "start");
  if (pthread_create(&watcher, NULL, watch, NULL) != 0)
    fail("no thread");
  meet();
  for (uint64_t seed = given->first; !given->named && seed <= given->last; seed++) {
    make_program(&program, seed, nranks, given->shapes);
    run_program();
  }
  if (given->named && make_named(&program, given->named))
    run_program();
  must(ncclCommDestroy(world), "ncclCommDestroy", -1);
  pthread_cancel(watcher); /* before the caller's orders end */
  pthread_join(watcher, NULL);
  return 0;
}
