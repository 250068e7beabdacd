/* SPDX-License-Identifier: BSD-3-Clause
 * The table of handles: the agreement of each from its init on, its communicator from its first use on, and children
 * whose handles NCCL has yet to store.
 */
#include "interpose/comm/table.h"

#include <stdlib.h>
#include <time.h>

#include "env/hash.h"
#include "env/log.h"
#include "interpose/nccl/process.h"

#define HASH_NONFATAL_OOM 1 /* uthash must not end the host program */
#define uthash_nonfatal_oom(element) ((element)->unhashed = true)
#include <uthash.h>

/* An entry of the table. A handle is listed from its init. */
struct listed {
  struct tagc_listed_comm is;
  bool unhashed;
  bool asking;                   /* a thread asks for its agreement */
  bool init_called;              /* its init was passed on: when it succeeds, all ranks have reported (agree.h) */
  const struct tagc_nccl *group; /* its init waits until `by` ends its group in this NCCL; NULL: no */
  pthread_t by;
  uint64_t generation; /* distinguishes handles at one address, from 1 */
  UT_hash_handle hh;
};

static struct listed *table;
static atomic_size_t grouped_count; /* entries whose init waits for the end of a group */
static uint64_t generations;
static bool entries_lost; /* memory was lacking to list a communicator */
static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;

/* Children whose handles NCCL has yet to store: in a group, or on a non-blocking parent. `where` is the program's
 * memory, which may be gone once NCCL has no use for it. Under the table's lock. */
struct expected {
  struct expected *next;
  ncclComm_t parent, *where;
  pthread_t by;
  bool grouped; /* `by` has not ended the group yet */
  bool nonblocking;
  struct tagc_agreement agreement;
};
static struct expected *expected;
static atomic_size_t expected_count;

/* NULL: not listed. The table must be locked. */
static struct listed *find_listed(ncclComm_t handle) {
  struct listed *entry;
  HASH_FIND_PTR(table, &handle, entry);
  return entry;
}

/* Asks the real library for rank and nranks. It answers once the communicator is ready: then all ranks have begun. */
static ncclResult_t ask_rank(ncclComm_t handle, const struct tagc_nccl *nccl, int *rank, int *nranks) {
  __typeof__(&ncclCommCount) count = TAGC_REAL(ncclCommCount, nccl);
  __typeof__(&ncclCommUserRank) user_rank = TAGC_REAL(ncclCommUserRank, nccl);
  if (!count || !user_rank) {
    static atomic_flag told; /* all ranks of a job have the same NCCL, so all come here */
    if (!atomic_flag_test_and_set(&told))
      tagc_log(TAGC_LOG_WARN, "interpose",
               "this NCCL does not tell the rank and the number of ranks: every call passes");
    return ncclInvalidUsage;
  }
  const ncclResult_t status = TAGC_IN_REAL(count(handle, nranks));
  return status == ncclSuccess ? TAGC_IN_REAL(user_rank(handle, rank)) : status;
}

struct tagc_listed_comm tagc_comm_remove(ncclComm_t handle) {
  struct tagc_listed_comm removed = {.handle = NULL};
  pthread_rwlock_wrlock(&table_lock);
  struct listed *entry = find_listed(handle);
  if (entry) {
    HASH_DEL(table, entry);
    removed = entry->is;
    atomic_fetch_sub(&grouped_count, entry->group != NULL);
    free(entry);
  }
  pthread_rwlock_unlock(&table_lock);
  return removed;
}

struct tagc_listed_comm tagc_comm_listed(ncclComm_t handle) {
  struct tagc_listed_comm found = {.handle = NULL};
  pthread_rwlock_rdlock(&table_lock);
  struct listed *entry = find_listed(handle);
  if (entry)
    found = entry->is;
  found.comm = NULL;
  pthread_rwlock_unlock(&table_lock);
  return found;
}

struct tagc_comm *tagc_comm_drop(ncclComm_t handle) {
  tagc_op_forget(handle);
  return tagc_comm_remove(handle).comm;
}

/* Lists a handle, or returns its existing entry. The caller holds the table's lock for writing. */
static struct listed *list_handle(ncclComm_t handle) {
  struct listed *entry = find_listed(handle);
  if (entry)
    return entry;
  entry = calloc(1, sizeof *entry);
  if (!entry)
    return NULL;
  entry->is.handle = handle;
  entry->generation = ++generations;
  HASH_ADD_PTR(table, is.handle, entry);
  if (entry->unhashed) {
    free(entry);
    return NULL;
  }
  return entry;
}

bool tagc_comm_restore(const struct tagc_listed_comm *removed) {
  if (!removed->handle)
    return true;
  struct tagc_comm *other = removed->comm;
  pthread_rwlock_wrlock(&table_lock);
  struct listed *entry = list_handle(removed->handle);
  if (entry) {
    other = entry->is.comm; /* another thread has used the handle meanwhile */
    entry->is = *removed;
  }
  entries_lost |= !entry;
  pthread_rwlock_unlock(&table_lock);
  tagc_comm_release(other);
  return entry != NULL;
}

struct tagc_comm *tagc_comm_find(ncclComm_t handle) {
  struct tagc_comm *comm = NULL;
  pthread_rwlock_rdlock(&table_lock);
  struct listed *entry = find_listed(handle);
  if (entry && entry->is.comm) {
    comm = entry->is.comm;
    tagc_comm_retain(comm);
  }
  pthread_rwlock_unlock(&table_lock);
  return comm;
}

/* The listed agreement of a handle; *generation is 0 if it is not listed. */
static struct tagc_agreement read_agreement(ncclComm_t handle, uint64_t *generation) {
  struct tagc_agreement agreement = {.state = TAGC_AGREED_NO};
  pthread_rwlock_rdlock(&table_lock);
  struct listed *entry = find_listed(handle);
  *generation = entry ? entry->generation : 0;
  if (entry)
    agreement = entry->is.agreement;
  else if (entries_lost)
    agreement.state = TAGC_AGREED_LOST; /* the lost entry may be this handle's, and the other ranks may compress */
  pthread_rwlock_unlock(&table_lock);
  return agreement;
}

/* The entry of a handle; NULL: that communicator is gone. The table must be locked. */
static struct listed *find_generation(ncclComm_t handle, uint64_t generation) {
  struct listed *entry = find_listed(handle);
  return entry && entry->generation == generation ? entry : NULL;
}

/* Waits while another thread asks. True: this one must ask. */
static bool begin_asking(ncclComm_t handle, uint64_t generation) {
  for (bool must, waits;; nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL)) {
    pthread_rwlock_wrlock(&table_lock);
    struct listed *entry = find_generation(handle, generation);
    must = entry && entry->is.agreement.state == TAGC_AGREED_UNKNOWN;
    waits = must && entry->asking;
    if (must && !waits)
      entry->asking = true;
    pthread_rwlock_unlock(&table_lock);
    if (!waits)
      return must;
  }
}

static void end_asking(ncclComm_t handle, uint64_t generation, const struct tagc_agreement *agreement) {
  pthread_rwlock_wrlock(&table_lock);
  struct listed *entry = find_generation(handle, generation);
  if (entry) {
    entry->is.agreement = *agreement;
    entry->asking = false;
  }
  pthread_rwlock_unlock(&table_lock);
}

/* The same, but settles an unknown agreement; the communicator must be ready. One thread asks: the decider forgets a
 * communicator when each of its ranks has had an answer. Meanwhile another thread may abort this communicator, and a
 * new one may get its address: `generation` protects the new one. */
static struct tagc_agreement ask_ranks(ncclComm_t handle, uint64_t *generation) {
  const struct tagc_options *options = tagc_library_options();
  struct tagc_agreement agreement = read_agreement(handle, generation);
  /* A process that passes everything needs no agreement; its report has informed the others. */
  if (agreement.state != TAGC_AGREED_UNKNOWN || options->mode == TAGC_MODE_OBSERVE || options->bad)
    return agreement;
  if (!begin_asking(handle, *generation))
    return read_agreement(handle, &(uint64_t){0});
  tagc_agree_settle(&agreement);
  end_asking(handle, *generation, &agreement);
  return agreement;
}

struct tagc_agreement tagc_comm_agreement(ncclComm_t handle) {
  return read_agreement(handle, &(uint64_t){0});
}

struct tagc_agreement tagc_comm_ask_agreement(ncclComm_t handle, const struct tagc_nccl *nccl) {
  int rank, nranks;
  uint64_t generation;
  struct tagc_agreement agreement = read_agreement(handle, &generation);
  bool ask = agreement.state == TAGC_AGREED_UNKNOWN && ask_rank(handle, nccl, &rank, &nranks) == ncclSuccess;
  return ask ? ask_ranks(handle, &generation) : agreement;
}

/* An init has been launched. If it has succeeded, settles the agreement before the program learns that. */
static void init_launched(ncclComm_t handle, ncclResult_t status) {
  pthread_rwlock_wrlock(&table_lock);
  struct listed *entry = find_listed(handle);
  if (entry)
    entry->init_called = tagc_real_accepts(status);
  pthread_rwlock_unlock(&table_lock);
  if (status == ncclSuccess)
    ask_ranks(handle, &(uint64_t){0});
}

void tagc_comm_init_is_called(ncclComm_t handle, const struct tagc_nccl *group, ncclResult_t status) {
  if (!group) {
    init_launched(handle, status);
    return;
  }
  pthread_rwlock_wrlock(&table_lock);
  struct listed *entry = find_listed(handle);
  if (entry) {
    entry->group = group;
    entry->by = pthread_self();
    atomic_fetch_add(&grouped_count, 1);
  }
  pthread_rwlock_unlock(&table_lock);
}

/* Takes one handle off this thread's open group; NULL: none is left. */
static ncclComm_t take_grouped(const struct tagc_nccl *nccl) {
  ncclComm_t handle = NULL;
  pthread_rwlock_wrlock(&table_lock);
  for (struct listed *entry = table; entry && !handle; entry = entry->hh.next)
    if (entry->group == nccl && pthread_equal(entry->by, pthread_self())) {
      entry->group = NULL;
      handle = entry->is.handle;
      atomic_fetch_sub(&grouped_count, 1);
    }
  pthread_rwlock_unlock(&table_lock);
  return handle;
}

void tagc_comm_group_is_over(const struct tagc_nccl *nccl, ncclResult_t status) {
  ncclComm_t handle;
  if (atomic_load_explicit(&grouped_count, memory_order_relaxed) == 0)
    return;
  while ((handle = take_grouped(nccl)))
    init_launched(handle, status);
}

void tagc_comm_has_succeeded(ncclComm_t handle) {
  pthread_rwlock_rdlock(&table_lock);
  struct listed *entry = find_listed(handle);
  const bool ask = entry && entry->init_called && entry->is.agreement.state == TAGC_AGREED_UNKNOWN;
  pthread_rwlock_unlock(&table_lock);
  if (ask)
    ask_ranks(handle, &(uint64_t){0});
}

/* Lists *fresh under the handle with this `generation` (0: it was not listed), or takes the communicator that another
 * thread has listed. Returns it with a reference; NULL and *status if the handle is gone or memory is lacking. */
static struct tagc_comm *enter_table(ncclComm_t handle, uint64_t generation, struct tagc_comm **fresh,
                                     ncclResult_t *status) {
  struct tagc_comm *comm = NULL;
  pthread_rwlock_wrlock(&table_lock);
  struct listed *entry = find_listed(handle);
  bool gone = generation ? !entry || entry->generation != generation : entry != NULL && !entry->is.comm;
  if (!gone)
    entry = list_handle(handle);
  if (!gone && entry) {
    if (!entry->is.comm) {
      (*fresh)->nonblocking = entry->is.nonblocking;
      (*fresh)->ledger->device_comm = entry->is.device_comm;
      entry->is.comm = *fresh;
      *fresh = NULL;
    }
    comm = entry->is.comm;
    tagc_comm_retain(comm);
  }
  pthread_rwlock_unlock(&table_lock);
  *status = comm ? ncclSuccess : gone ? ncclInternalError : tagc_no_memory("a communicator");
  return comm;
}

struct tagc_comm *tagc_comm_acquire(ncclComm_t handle, const struct tagc_nccl *nccl, ncclResult_t *status) {
  struct tagc_comm *comm = tagc_comm_find(handle);
  const struct tagc_device *device;
  int rank, nranks;
  uint64_t generation;
  *status = ncclSuccess;
  if (comm)
    return comm;
  if (!tagc_comm_add_expected(handle)) {
    *status = tagc_no_memory("a communicator");
    return NULL;
  }
  *status = ask_rank(handle, nccl, &rank, &nranks);
  if (*status == ncclSuccess)
    *status = tagc_comm_find_device(handle, nccl, &device);
  if (*status != ncclSuccess)
    return NULL;
  struct tagc_agreement agreement = ask_ranks(handle, &generation);
  *status = ncclRemoteError;
  if (agreement.state == TAGC_AGREED_LOST)
    return NULL;
  struct tagc_comm *fresh = tagc_comm_create(handle, nccl, device, rank, nranks);
  *status = fresh ? ncclSuccess : tagc_no_memory("a communicator");
  if (!fresh)
    return NULL;
  fresh->agreement = agreement;
  comm = enter_table(handle, generation, &fresh, status);
  if (comm)
    tagc_trace_introduce(comm);
  if (comm && !fresh && (agreement.shares || agreement.ordered))
    tagc_log(TAGC_LOG_INFO, "interpose",
             "communicator %llu %s: in a group its calls and those of others run one after the other",
             (unsigned long long)comm->ledger->number,
             agreement.shares ? "shares the connections of its parent"
                              : "is launched in one order with all others (NCCL_LAUNCH_ORDER_IMPLICIT)");
  tagc_comm_release(fresh); /* another thread was first, the handle is gone, or there is no memory */
  return comm;
}

bool tagc_comm_add(ncclComm_t handle, bool nonblocking, const struct tagc_agreement *agreement) {
  if (!handle)
    return true;
  tagc_comm_release(tagc_comm_drop(handle));
  pthread_rwlock_wrlock(&table_lock);
  struct listed *entry = list_handle(handle);
  if (entry) {
    entry->is.nonblocking = nonblocking;
    entry->is.agreement = *agreement;
  }
  entries_lost |= !entry;
  pthread_rwlock_unlock(&table_lock);
  tagc_trace_comm_begins(handle, nonblocking, &agreement->origin);
  return entry != NULL;
}

bool tagc_comm_expect(ncclComm_t parent, ncclComm_t *where, bool grouped, bool nonblocking,
                      const struct tagc_agreement *agreement) {
  struct expected *child = malloc(sizeof *child);
  pthread_rwlock_wrlock(&table_lock);
  if (child) {
    *child = (struct expected){expected, parent, where, pthread_self(), grouped, nonblocking, *agreement};
    expected = child;
    atomic_fetch_add(&expected_count, 1);
  }
  entries_lost |= !child;
  pthread_rwlock_unlock(&table_lock);
  return child != NULL;
}

/* Takes a child off the list. The caller holds the table's lock for writing. */
static struct expected *take_child(struct expected **at) {
  struct expected *child = *at;
  *at = child->next;
  atomic_fetch_sub(&expected_count, 1);
  return child;
}

/* Is the child's time over? That of a parent, or with NULL of this thread's group, has ended. */
static bool has_ended(const struct expected *child, ncclComm_t parent) {
  return parent ? child->parent == parent && !child->grouped
                : child->grouped && pthread_equal(child->by, pthread_self());
}

/* Takes a child whose time is over; *handle is what NCCL has stored for it, or NULL. */
static struct expected *take_over(ncclComm_t parent, ncclResult_t status, ncclComm_t *handle) {
  struct expected *child = NULL;
  pthread_rwlock_wrlock(&table_lock);
  for (struct expected **at = &expected; *at && !child;)
    if (!has_ended(*at, parent)) {
      at = &(*at)->next;
    } else if (status == ncclInProgress) { /* the group is over, and the parent is at work */
      (*at)->grouped = false;
      at = &(*at)->next;
    } else {
      child = take_child(at);
    }
  *handle = child && status == ncclSuccess ? __atomic_load_n(child->where, __ATOMIC_ACQUIRE) : NULL;
  pthread_rwlock_unlock(&table_lock);
  return child;
}

static bool add_child(struct expected *child, ncclComm_t handle) {
  const bool good = tagc_comm_add(handle, child->nonblocking, &child->agreement);
  free(child);
  return good;
}

bool tagc_comm_children_done(ncclComm_t parent, ncclResult_t status) {
  struct expected *child;
  ncclComm_t handle;
  bool good = true;
  if (atomic_load_explicit(&expected_count, memory_order_relaxed) == 0 || (parent && status == ncclInProgress))
    return true;
  while ((child = take_over(parent, status, &handle)))
    good &= add_child(child, handle);
  return good;
}

bool tagc_comm_expects(ncclComm_t parent) {
  bool any = false;
  if (atomic_load_explicit(&expected_count, memory_order_relaxed) == 0)
    return false;
  pthread_rwlock_rdlock(&table_lock);
  for (const struct expected *child = expected; child; child = child->next)
    any |= child->parent == parent;
  pthread_rwlock_unlock(&table_lock);
  return any;
}

bool tagc_comm_add_expected(ncclComm_t handle) {
  struct expected *child = NULL;
  if (!handle || atomic_load_explicit(&expected_count, memory_order_relaxed) == 0)
    return true;
  pthread_rwlock_wrlock(&table_lock);
  const bool listed = find_listed(handle) != NULL;
  for (struct expected **at = &expected; *at && !child && !listed;)
    if (__atomic_load_n((*at)->where, __ATOMIC_ACQUIRE) == handle)
      child = take_child(at);
    else
      at = &(*at)->next;
  pthread_rwlock_unlock(&table_lock);
  return !child || add_child(child, handle);
}

uint64_t tagc_comm_child_identity(ncclComm_t parent, enum tagc_entry function, const void *said, size_t size) {
  uint64_t identity = 0;
  pthread_rwlock_wrlock(&table_lock);
  struct listed *entry = find_listed(parent);
  if (entry) {
    const uint64_t of[] = {entry->is.agreement.origin.identity, function, entry->is.children++};
    const bool joined = function == TAGC_ENTRY_ncclCommGrow; /* ranks that join know no parent */
    if (entry->is.agreement.origin.identity && !entry->is.uneven && !joined)
      identity = tagc_hash_add(tagc_hash_add(TAGC_HASH_START, of, sizeof of), said, size);
    entry->is.uneven |= function == TAGC_ENTRY_ncclCommShrink; /* excluded ranks have not counted this one */
  }
  pthread_rwlock_unlock(&table_lock);
  return identity;
}

int tagc_comm_ranks(ncclComm_t handle, const struct tagc_nccl *nccl) {
  int rank, nranks = 0;
  uint64_t generation;
  (void)read_agreement(handle, &generation);
  return generation && ask_rank(handle, nccl, &rank, &nranks) == ncclSuccess ? nranks : 0;
}

void tagc_comm_has_device_comm(ncclComm_t handle) {
  pthread_rwlock_wrlock(&table_lock);
  struct listed *entry = find_listed(handle);
  if (entry)
    entry->is.device_comm = true;
  if (entry && entry->is.comm)
    entry->is.comm->ledger->device_comm = true;
  pthread_rwlock_unlock(&table_lock);
}

bool tagc_comm_is_nonblocking(ncclComm_t handle) { return tagc_comm_listed(handle).nonblocking; }
