/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/comm.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "env/log.h"
#include "interpose/background.h"
#include "interpose/ballot.h"
#include "interpose/capture.h"
#include "interpose/levels.h"
#include "interpose/library.h"

#define HASH_NONFATAL_OOM 1        /* uthash must not end the host program */
#define uthash_nonfatal_oom(element) ((element)->unhashed = true)
#include <uthash.h>

/* The table. A handle is listed from its birth. */
struct listed {
  ncclComm_t handle;
  bool nonblocking, unhashed;
  uint64_t birth;                   /* tells handles at one address apart, from 1 */
  struct tagc_agreement agreement;
  struct tagc_comm *comm;           /* NULL until the first use */
  UT_hash_handle hh;
};

static struct listed *table;
static uint64_t births;
static bool births_lost;            /* there was no memory to list a communicator */
static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;

/* Children whose handles NCCL has yet to store: in a group, or on a non-blocking parent. Under the table's lock. */
struct expected {
  struct expected *next;
  ncclComm_t parent, *where;
  pthread_t by;
  bool nonblocking;
  struct tagc_agreement agreement;
};
static struct expected *expected;
static atomic_size_t expected_count;

ncclResult_t tagc_no_memory(const char *what)
{
  static atomic_flag told;
  if (!atomic_flag_test_and_set(&told))
    tagc_log(TAGC_LOG_ERROR, "interpose", "no memory for %s: the call fails with ncclSystemError, as this rank cannot go its "
             "own way", what);
  return ncclSystemError;
}

double tagc_clock_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void comm_free(struct tagc_comm *comm)
{
  tagc_background_release(comm->background);
  tagc_levels_end(comm, true);      /* those that were made while the communicator was aborted */
  tagc_topology_free(&comm->topology);
  for (size_t i = 0; i < comm->slot_count; i++)
    while (comm->slots[i].tally && tagc_comm_read_tally(comm, comm->slots[i].tally, (int)i))
      ;
  struct tagc_ballot_estate estate = tagc_ballot_detach(comm);
  tagc_ballot_release(comm, &estate);
  tagc_levels_keep_order(comm, false);
  if (comm->fence)
    comm->device->fence_free(comm->device, comm->fence);
  if (comm->order.plain_fence)
    comm->device->fence_free(comm->device, comm->order.plain_fence);
  tagc_cycle_destroy(comm->cycle);
  pthread_mutex_destroy(&comm->lock);
  free(comm);
}

void tagc_comm_retain(struct tagc_comm *comm) { atomic_fetch_add(&comm->references, 1); }

bool tagc_comm_is_aborted(const struct tagc_comm *comm) { return atomic_load(&comm->phase) == TAGC_PHASE_ABORTED; }

void tagc_comm_release(struct tagc_comm *comm)
{
  if (comm && atomic_fetch_sub(&comm->references, 1) == 1)
    comm_free(comm);
}

/* Asks the real library who this is. It answers when the communicator is ready, and then all of its ranks have begun. */
static ncclResult_t introduce(ncclComm_t handle, const struct tagc_nccl *nccl, int *rank, int *nranks)
{
  __typeof__(&ncclCommCount) count = TAGC_REAL(ncclCommCount, nccl);
  __typeof__(&ncclCommUserRank) user_rank = TAGC_REAL(ncclCommUserRank, nccl);
  if (!count || !user_rank) {
    static atomic_flag told;        /* the ranks of a job have one NCCL: all of them come here */
    if (!atomic_flag_test_and_set(&told))
      tagc_log(TAGC_LOG_WARN, "interpose", "an NCCL that does not say which rank of how many this is: every call passes");
    return ncclInvalidUsage;
  }
  tagc_real_depth++;
  ncclResult_t status = count(handle, nranks);
  if (status == ncclSuccess)
    status = user_rank(handle, rank);
  tagc_real_depth--;
  return status;
}

/* Where the communicator's buffers are; NULL: where no codec runs. Whether there is one at all is equal on all ranks: they have the same
 * NCCL, and have told one another of their drivers (agree.c). What goes wrong here alone is therefore an error. */
static ncclResult_t find_device(ncclComm_t handle, const struct tagc_nccl *nccl, const struct tagc_device **device)
{
  __typeof__(&ncclCommCuDevice) which = TAGC_REAL(ncclCommCuDevice, nccl);
  const char *why;
  int ordinal = -1;
  *device = nccl->on_host ? &tagc_device_host : NULL;
  if (nccl->on_host || !which || !tagc_device_cuda_is_there(&why))
    return ncclSuccess;
  tagc_real_depth++;
  ncclResult_t status = which(handle, &ordinal);
  tagc_real_depth--;
  if (status != ncclSuccess)
    return status;
  *device = tagc_device_cuda(ordinal);
  if (*device)
    return ncclSuccess;
  tagc_log(TAGC_LOG_ERROR, "interpose", "GPU %d is beyond what this library counts: the call fails, as other ranks would wait for it "
           "(TAGC_MODE=off on all of them does without)", ordinal);
  return ncclInternalError;
}

/* NULL without memory. */
static struct tagc_comm *comm_create(ncclComm_t handle, const struct tagc_nccl *nccl, const struct tagc_device *device, int rank,
                                     int nranks)
{
  struct tagc_comm *comm = calloc(1, sizeof *comm);
  struct tagc_cycle_options options = {(uint32_t)tagc_library_options()->warmup, 256};
  struct tagc_cycle *cycle = comm ? tagc_cycle_create(&options) : NULL;
  struct tagc_ledger *ledger = cycle ? tagc_ledger_create(rank, nranks) : NULL;
  if (!ledger) {
    tagc_cycle_destroy(cycle);
    free(comm);
    return NULL;
  }
  comm->handle = handle;
  comm->nccl = nccl;
  atomic_init(&comm->references, 1);
  comm->rank = rank;
  comm->nranks = nranks;
  comm->cycle = cycle;
  comm->ledger = ledger;
  tagc_capture_find_driver();
  comm->device = device;
  pthread_mutex_init(&comm->lock, NULL);
  if (ledger->number == 0)
    tagc_log_set_rank(rank);
  return comm;
}

struct tagc_leave tagc_comm_take_leave(ncclComm_t handle)
{
  struct tagc_leave leave = {.handle = NULL};
  struct listed *entry;
  pthread_rwlock_wrlock(&table_lock);
  HASH_FIND_PTR(table, &handle, entry);
  if (entry) {
    HASH_DEL(table, entry);
    leave = (struct tagc_leave){handle, entry->nonblocking, entry->agreement, entry->comm};
    free(entry);
  }
  pthread_rwlock_unlock(&table_lock);
  return leave;
}

/* Takes the handle, and what is known of its reductions, off the tables; its reference to the communicator becomes the caller's. */
static struct tagc_comm *unlist(ncclComm_t handle)
{
  tagc_op_forget(handle);
  return tagc_comm_take_leave(handle).comm;
}

/* Lists a handle, or gives the entry that stands there already. The table must be locked for writing. */
static struct listed *list(ncclComm_t handle)
{
  struct listed *entry;
  HASH_FIND_PTR(table, &handle, entry);
  if (entry)
    return entry;
  entry = calloc(1, sizeof *entry);
  if (!entry)
    return NULL;
  entry->handle = handle;
  entry->birth = ++births;
  HASH_ADD_PTR(table, handle, entry);
  if (entry->unhashed) {
    free(entry);
    return NULL;
  }
  return entry;
}

bool tagc_comm_stay(const struct tagc_leave *leave)
{
  if (!leave->handle)
    return true;
  struct tagc_comm *other = leave->comm;
  pthread_rwlock_wrlock(&table_lock);
  struct listed *entry = list(leave->handle);
  if (entry) {
    other = entry->comm;            /* another thread has used the handle meanwhile */
    entry->nonblocking = leave->nonblocking;
    entry->agreement = leave->agreement;
    entry->comm = leave->comm;
  }
  births_lost |= !entry;
  pthread_rwlock_unlock(&table_lock);
  tagc_comm_release(other);
  return entry != NULL;
}

struct tagc_comm *tagc_comm_find(ncclComm_t handle)
{
  struct listed *entry;
  struct tagc_comm *comm = NULL;
  pthread_rwlock_rdlock(&table_lock);
  HASH_FIND_PTR(table, &handle, entry);
  if (entry && entry->comm) {
    comm = entry->comm;
    tagc_comm_retain(comm);
  }
  pthread_rwlock_unlock(&table_lock);
  return comm;
}

/* What is listed of a handle; *birth: 0 where it is not. */
static struct tagc_agreement read_agreement(ncclComm_t handle, uint64_t *birth)
{
  struct tagc_agreement agreement = {.state = TAGC_AGREED_NO};
  struct listed *entry;
  pthread_rwlock_rdlock(&table_lock);
  HASH_FIND_PTR(table, &handle, entry);
  *birth = entry ? entry->birth : 0;
  if (entry)
    agreement = entry->agreement;
  else if (births_lost)
    agreement.state = TAGC_AGREED_LOST;            /* it may be the one: the others may compress */
  pthread_rwlock_unlock(&table_lock);
  return agreement;
}

/* The same, with the verdict; the communicator must be ready. While it is asked for, another thread may abort this
 * communicator, and a new one may get its address: that one is not touched. */
static struct tagc_agreement settle(ncclComm_t handle, uint64_t *birth)
{
  const struct tagc_options *options = tagc_library_options();
  struct tagc_agreement agreement = read_agreement(handle, birth);
  /* A process that passes everything through needs no verdict; its report has told the others. */
  if (agreement.state != TAGC_AGREED_UNKNOWN || options->mode == TAGC_MODE_OBSERVE || options->bad)
    return agreement;
  tagc_agree_settle(&agreement);
  struct listed *entry;
  pthread_rwlock_wrlock(&table_lock);
  HASH_FIND_PTR(table, &handle, entry);
  if (entry && entry->birth == *birth) {
    if (entry->agreement.state == TAGC_AGREED_UNKNOWN)
      entry->agreement = agreement;
    agreement = entry->agreement;   /* another thread that asked was first */
  }
  pthread_rwlock_unlock(&table_lock);
  return agreement;
}

struct tagc_agreement tagc_comm_agreement(ncclComm_t handle)
{
  uint64_t birth;
  return read_agreement(handle, &birth);
}

struct tagc_agreement tagc_comm_settle(ncclComm_t handle, const struct tagc_nccl *nccl)
{
  int rank, nranks;
  uint64_t birth;
  struct tagc_agreement agreement = read_agreement(handle, &birth);
  bool ask = agreement.state == TAGC_AGREED_UNKNOWN && introduce(handle, nccl, &rank, &nranks) == ncclSuccess;
  return ask ? settle(handle, &birth) : agreement;
}

/* Lists a communicator under the handle that was born as number `birth` (0: it was not listed), or takes the one that
 * another thread has listed; with a reference. NULL, and *status, where the handle is gone, or without memory. */
static struct tagc_comm *enter_table(ncclComm_t handle, uint64_t birth, struct tagc_comm **fresh, ncclResult_t *status)
{
  struct tagc_comm *comm = NULL;
  struct listed *entry;
  pthread_rwlock_wrlock(&table_lock);
  HASH_FIND_PTR(table, &handle, entry);
  bool gone = birth ? !entry || entry->birth != birth : entry != NULL && !entry->comm;
  if (!gone)
    entry = list(handle);
  if (!gone && entry) {
    if (!entry->comm) {
      (*fresh)->nonblocking = entry->nonblocking;
      entry->comm = *fresh;
      *fresh = NULL;
    }
    comm = entry->comm;
    tagc_comm_retain(comm);
  }
  pthread_rwlock_unlock(&table_lock);
  *status = comm ? ncclSuccess : gone ? ncclInternalError : tagc_no_memory("a communicator");
  return comm;
}

struct tagc_comm *tagc_comm_acquire(ncclComm_t handle, const struct tagc_nccl *nccl, ncclResult_t *status)
{
  struct tagc_comm *comm = tagc_comm_find(handle);
  const struct tagc_device *device;
  int rank, nranks;
  uint64_t birth;
  *status = ncclSuccess;
  if (comm)
    return comm;
  if (!tagc_comm_collect(NULL, false)) {
    *status = tagc_no_memory("a communicator");
    return NULL;
  }
  *status = introduce(handle, nccl, &rank, &nranks);
  if (*status == ncclSuccess)
    *status = find_device(handle, nccl, &device);
  if (*status != ncclSuccess)
    return NULL;
  struct tagc_agreement agreement = settle(handle, &birth);
  *status = ncclRemoteError;
  if (agreement.state == TAGC_AGREED_LOST)
    return NULL;
  struct tagc_comm *fresh = comm_create(handle, nccl, device, rank, nranks);
  *status = fresh ? ncclSuccess : tagc_no_memory("a communicator");
  if (!fresh)
    return NULL;
  fresh->agreed = agreement.state == TAGC_AGREED_YES;
  fresh->host = agreement.host;
  comm = enter_table(handle, birth, &fresh, status);
  if (fresh)
    comm_free(fresh);               /* another thread was first, the handle is gone, or there is no memory */
  return comm;
}

bool tagc_comm_born(ncclComm_t handle, bool nonblocking, const struct tagc_agreement *agreement)
{
  if (!handle)
    return true;
  tagc_comm_release(unlist(handle));
  pthread_rwlock_wrlock(&table_lock);
  struct listed *entry = list(handle);
  if (entry) {
    entry->nonblocking = nonblocking;
    entry->agreement = *agreement;
  }
  births_lost |= !entry;
  pthread_rwlock_unlock(&table_lock);
  return entry != NULL;
}

bool tagc_comm_expect(ncclComm_t parent, ncclComm_t *where, bool nonblocking, const struct tagc_agreement *agreement)
{
  struct expected *child = malloc(sizeof *child);
  pthread_rwlock_wrlock(&table_lock);
  if (child) {
    *child = (struct expected){expected, parent, where, pthread_self(), nonblocking, *agreement};
    expected = child;
    atomic_fetch_add(&expected_count, 1);
  }
  births_lost |= !child;
  pthread_rwlock_unlock(&table_lock);
  return child != NULL;
}

/* Takes a child off the list that is stored by now, or, with `failed`, never will be. */
static struct expected *take_expected(ncclComm_t parent, bool failed, ncclComm_t *handle)
{
  pthread_rwlock_wrlock(&table_lock);
  struct expected **at = &expected, *found;
  for (; (found = *at); at = &found->next) {
    bool hopeless = failed && (parent ? found->parent == parent : pthread_equal(found->by, pthread_self()));
    *handle = __atomic_load_n(found->where, __ATOMIC_ACQUIRE);
    if (*handle || hopeless)
      break;
  }
  if (found) {
    *at = found->next;
    atomic_fetch_sub(&expected_count, 1);
  }
  pthread_rwlock_unlock(&table_lock);
  return found;
}

bool tagc_comm_collect(ncclComm_t parent, bool failed)
{
  struct expected *child;
  ncclComm_t handle;
  bool good = true;
  if (atomic_load_explicit(&expected_count, memory_order_relaxed) == 0)
    return true;
  while ((child = take_expected(parent, failed, &handle))) {
    good &= tagc_comm_born(handle, child->nonblocking, &child->agreement);
    free(child);
  }
  return good;
}

bool tagc_comm_is_nonblocking(ncclComm_t handle)
{
  struct listed *entry;
  pthread_rwlock_rdlock(&table_lock);
  HASH_FIND_PTR(table, &handle, entry);
  bool nonblocking = entry && entry->nonblocking;
  pthread_rwlock_unlock(&table_lock);
  return nonblocking;
}

struct tagc_comm *tagc_comm_forget(ncclComm_t handle) { return unlist(handle); }

struct tagc_comm *tagc_comm_abort(ncclComm_t handle)
{
  struct tagc_comm *comm = unlist(handle);
  while (comm) {
    int phase = atomic_load(&comm->phase);
    if (phase == TAGC_PHASE_ABORTED)
      break;
    if (phase != TAGC_PHASE_OURS && atomic_compare_exchange_weak(&comm->phase, &phase, TAGC_PHASE_ABORTED))
      break;
    sched_yield();
  }
  return comm;
}

static bool enter(struct tagc_comm *comm, enum tagc_phase from, enum tagc_phase to)
{
  for (;;) {
    int phase = (int)from;
    if (atomic_compare_exchange_strong(&comm->phase, &phase, (int)to))
      return true;
    if (phase == TAGC_PHASE_ABORTED)
      return false;
    sched_yield();
  }
}

bool tagc_comms_enter(struct tagc_comm *const *comms, size_t count, enum tagc_phase from, enum tagc_phase to)
{
  for (size_t i = 0; i < count; i++)
    if (!enter(comms[i], from, to)) {
      if (from == TAGC_PHASE_IDLE)
        tagc_comms_leave(comms, i);
      return false;
    }
  return true;
}

void tagc_comms_leave(struct tagc_comm *const *comms, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    int phase = atomic_load(&comms[i]->phase);
    while (phase != TAGC_PHASE_ABORTED && !atomic_compare_exchange_weak(&comms[i]->phase, &phase, TAGC_PHASE_IDLE))
      ;
  }
}

bool tagc_comms_enter_driver(struct tagc_comm *const *comms, size_t count)
{
  bool all = true;
  for (size_t i = 0; i < count; i++)
    if (!comms[i]->device->host_reads) {
      atomic_store(&comms[i]->in_driver, true);
      all &= enter(comms[i], TAGC_PHASE_OURS, TAGC_PHASE_NCCL);
    }
  return all;
}

bool tagc_comms_leave_driver(struct tagc_comm *const *comms, size_t count)
{
  bool all = true;
  for (size_t i = 0; i < count; i++)
    if (!comms[i]->device->host_reads) {
      all &= enter(comms[i], TAGC_PHASE_NCCL, TAGC_PHASE_OURS);
      atomic_store(&comms[i]->in_driver, false);
    }
  return all;
}

bool tagc_comm_has_streams(const struct tagc_comm *comm)
{
  return comm->device->host_reads || !tagc_comm_is_aborted(comm) || !atomic_load(&comm->abort_over);
}

void tagc_comm_abort_is_over(struct tagc_comm *comm)
{
  if (comm && tagc_comm_is_aborted(comm))
    atomic_store(&comm->abort_over, true);
  for (const double began = tagc_clock_ms(); comm && atomic_load(&comm->in_driver) && tagc_clock_ms() - began < 1000;)
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

/* Element types in the codecs' terms. */
static bool compressible(ncclDataType_t type, enum tagc_dtype *out)
{
  switch (type) {
  case ncclFloat32: *out = TAGC_FLOAT32; return true;
  case ncclFloat16: *out = TAGC_FLOAT16; return true;
  case ncclBfloat16: *out = TAGC_BFLOAT16; return true;
  default: return false;
  }
}

/* Bytes of an element of any type. */
static size_t type_size(ncclDataType_t type)
{
  switch (type) {
  case ncclFloat64: case ncclInt64: case ncclUint64: return 8;
  case ncclFloat32: case ncclInt32: case ncclUint32: return 4;
  case ncclFloat16: case ncclBfloat16: return 2;
  default: return 1;
  }
}

static enum tagc_collective collective(enum tagc_entry entry)
{
  switch (entry) {
  case TAGC_ENTRY_ncclReduceScatter: return TAGC_REDUCE_SCATTER;
  case TAGC_ENTRY_ncclAllGather: return TAGC_ALL_GATHER;
  case TAGC_ENTRY_ncclAllReduce: return TAGC_ALL_REDUCE;
  case TAGC_ENTRY_ncclReduce: return TAGC_REDUCE;
  case TAGC_ENTRY_ncclAlltoAll: return TAGC_ALL_TO_ALL;
  case TAGC_ENTRY_ncclGather: return TAGC_GATHER;
  case TAGC_ENTRY_ncclScatter: return TAGC_SCATTER;
  default: return TAGC_BROADCAST;
  }
}

/* What slot i has not sent yet is given up, and counted. */
static void drop_residual(struct tagc_comm *comm, size_t i)
{
  if (i >= comm->slot_count || !comm->slots[i].residual || comm->slots[i].residual_empty)
    return;
  comm->slots[i].residual_empty = true;
  tagc_ledger_row(comm->ledger, (int)i)->residuals_dropped++;
}

/* A new lock, or none any more: everything that was kept by slot is void, and *old is to be given back. */
static ncclResult_t start_over(struct tagc_comm *comm, struct tagc_ballot_estate *old)
{
  size_t count;
  const struct tagc_slot_info *infos = tagc_cycle_slots(comm->cycle, &count);
  for (size_t i = 0; i < comm->slot_count; i++)
    drop_residual(comm, i);
  *old = tagc_ballot_detach(comm);
  comm->vote_cycle = TAGC_VOTE_CYCLE;
  comm->lock_number++;              /* calls that are held back find their slots gone */
  comm->cycle_began_ms = 0;
  if (!tagc_ledger_set_slots(comm->ledger, infos, count))
    return tagc_no_memory("the slots of a cycle");
  comm->slots = calloc(count ? count : 1, sizeof *comm->slots);
  if (!comm->slots)
    return tagc_no_memory("the slots of a cycle");
  comm->slot_count = count;
  for (size_t i = 0; i < count; i++) {
    struct tagc_slot *slot = &comm->slots[i];
    const struct tagc_signature *s = &infos[i].signature;
    bool known = compressible((ncclDataType_t)s->dtype, &slot->shape.dtype);
    slot->shape.n = known ? s->count : 0;
    slot->shape.nranks = comm->nranks;
    slot->shape.keep_ppm = 1000000 - tagc_library_options()->sparsity;
    slot->codec = tagc_library_codec();
    slot->op = (enum tagc_op)s->op;
    slot->verdict = TAGC_REASON_warm_up;
  }
  if (count)
    tagc_log(TAGC_LOG_INFO, "layermap", "communicator %llu: a cycle of %zu calls with %zu reduce-scatters%s",
             (unsigned long long)comm->ledger->number, tagc_cycle_length(comm->cycle), count,
             tagc_cycle_is_gradients(comm->cycle) ? ", gradients with the gathers of their parameters" : "");
  return ncclSuccess;
}

/* The anchor: closes the accounts of the cycle before it. */
static void start_cycle(struct tagc_comm *comm, uint64_t number)
{
  const struct tagc_options *options = tagc_library_options();
  uint64_t ended = comm->cycle_number;
  double now = tagc_clock_ms();
  if (comm->nonfinite)
    for (size_t i = 0; i < comm->slot_count; i++)
      if (comm->slots[i].residual_cycle == ended)
        drop_residual(comm, i);
  comm->nonfinite = false;
  if (comm->voted && ended >= tagc_plan_first_cycle(options, comm->vote_cycle) && comm->cycle_began_ms != 0) {
    bool compressed = options->mode != TAGC_MODE_AB || tagc_plan_ab_compressed(options, comm->vote_cycle, ended);
    struct tagc_ledger_side *side = &comm->ledger->sides[compressed];
    tagc_series_add(&side->step_ms, now - comm->cycle_began_ms);
    side->sent.inside += comm->ledger->sent.inside - comm->cycle_began.inside;
    side->sent.between += comm->ledger->sent.between - comm->cycle_began.between;
    *(compressed ? &comm->ledger->cycles_compressed : &comm->ledger->cycles_plain) += 1;
    if (compressed)
      tagc_log(TAGC_LOG_DEBUG, "interpose", "communicator %llu: cycle %llu left a residual of norm %.6g",
               (unsigned long long)comm->ledger->number, (unsigned long long)ended, tagc_ledger_residual_norm(comm->ledger));
  }
  comm->cycle_number = number;
  comm->cycle_began_ms = now;
  comm->cycle_began = comm->ledger->sent;
}

static ncclResult_t observe(struct tagc_comm *comm, struct tagc_call *call, struct tagc_ballot_estate *old)
{
  enum tagc_dtype dtype;
  bool is_float = compressible(call->type, &dtype);
  struct tagc_signature signature = {call->count, (uint8_t)collective(call->entry), (uint8_t)call->type,
                                     (uint8_t)call->op_kind, is_float};
  struct tagc_sighting seen;
  tagc_cycle_observe(comm->cycle, &signature, &seen);
  if (seen.lost) {
    size_t count;
    const uint32_t *suspects = tagc_cycle_suspects(comm->cycle, &count);
    for (size_t i = 0; i < count; i++)
      drop_residual(comm, suspects[i]);
    comm->cycle_began_ms = 0;       /* a disturbed cycle is no measurement of a step */
  }
  if (seen.locked || (seen.state == TAGC_CYCLE_LEARNING && comm->slot_count)) {
    ncclResult_t status = start_over(comm, old);
    if (status != ncclSuccess)
      return status;
    comm->cycle_number = seen.cycle;
  }
  if (seen.starts)
    start_cycle(comm, seen.cycle);
  call->state = seen.state;
  call->slot = seen.slot < (int)comm->slot_count ? seen.slot : -1;
  call->lock_number = comm->lock_number;
  call->cycle = comm->cycle_number;
  return ncclSuccess;
}

ncclResult_t tagc_comm_observe(struct tagc_comm *comm, struct tagc_call *call)
{
  struct tagc_ballot_estate old = {0};
  pthread_mutex_lock(&comm->lock);
  ncclResult_t status = observe(comm, call, &old);
  pthread_mutex_unlock(&comm->lock);
  tagc_ballot_release(comm, &old);
  return status;
}

bool tagc_comm_awaits_vote(const struct tagc_comm *comm, const struct tagc_call *call)
{
  return tagc_library_options()->mode != TAGC_MODE_OBSERVE && !comm->voted && comm->agreed && comm->device &&
         comm->nranks >= 2 && call->slot >= 0 && call->lock_number == comm->lock_number;
}

void tagc_comm_decide(struct tagc_comm *comm, struct tagc_call *call)
{
  enum tagc_dtype dtype;
  bool is_float = compressible(call->type, &dtype);
  if (call->lock_number != comm->lock_number) {
    call->state = TAGC_CYCLE_OFF_TRACK;            /* a later call of its group changed the lock */
    call->slot = -1;
  }
  const struct tagc_slot *slot = call->slot < 0 ? NULL : &comm->slots[call->slot];
  struct tagc_call_facts facts = {
    .options = tagc_library_options(),
    .collective = collective(call->entry),
    .compressible_type = is_float,
    .op = call->op_kind,
    .nranks = comm->nranks,
    .bytes = call->count * (uint64_t)comm->nranks * type_size(call->type),
    .agreed = comm->agreed,
    .device = comm->device != NULL,
    .state = call->state,
    .slot = call->slot,
    .cycle = call->cycle,
    .vote_cycle = comm->vote_cycle,
    .voted = comm->voted,
    .verdict = slot ? slot->verdict : TAGC_REASON_off_track,
    .dirty = slot && slot->dirty,
  };
  call->decision = tagc_plan_call(&facts);
}

bool tagc_comm_read_tally(struct tagc_comm *comm, void *tally, int slot)
{
  struct tagc_ledger *ledger = comm->ledger;
  double ms[TAGC_MARKS - 1];
  if (!comm->device->tally_read(comm->device, tally, ms, &tagc_ledger_row(ledger, slot)->stats))
    return false;
  ledger->timed_calls++;
  ledger->encode_ms += ms[TAGC_MARK_SUMMED];       /* what follows on each mark */
  ledger->exchange_ms += ms[TAGC_MARK_BEGUN] + ms[TAGC_MARK_ENCODED];
  ledger->decode_ms += ms[TAGC_MARK_EXCHANGED];
  return true;
}

void tagc_comm_account(struct tagc_comm *comm, const struct tagc_call *call)
{
  if (call->entry != TAGC_ENTRY_ncclReduceScatter) {
    comm->ledger->other_calls++;
    return;
  }
  struct tagc_ledger_row *row = tagc_ledger_row(comm->ledger, call->slot);
  row->calls++;
  row->reasons[call->decision.reason]++;
  if (call->decision.action == TAGC_PASS) {
    const struct tagc_hosts hosts = tagc_levels_hosts(comm);
    const struct tagc_traffic plain = tagc_plain_traffic(call->count * type_size(call->type), &hosts);
    tagc_traffic_add(&comm->ledger->sent, &plain);
  }
}

void tagc_comm_bar(struct tagc_comm *comm, const struct tagc_call *call, enum tagc_reason reason)
{
  if (call->slot >= 0 && call->lock_number == comm->lock_number && comm->slots[call->slot].barred == TAGC_REASON_compressed)
    comm->slots[call->slot].barred = reason;
}

void tagc_comm_pass_mixed(struct tagc_comm *comm, struct tagc_call *call)
{
  pthread_mutex_lock(&comm->lock);
  tagc_comm_decide(comm, call);
  tagc_comm_bar(comm, call, TAGC_REASON_mixed_group);
  if (call->slot >= 0) {
    call->decision = (struct tagc_decision){TAGC_PASS, TAGC_REASON_mixed_group};
  }
  call->decision.action = TAGC_PASS;
  tagc_comm_account(comm, call);
  pthread_mutex_unlock(&comm->lock);
}
