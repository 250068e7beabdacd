/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/profiler/events.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "env/clock.h"
#include "interpose/nccl/real.h"
#include "interpose/profiler/expect.h"
#include "interpose/trace/trace.h"

#define CLOCK_WINDOW_NS UINT64_C(1000000000)
#define KERNEL_MOST_NS (UINT64_C(24) * 3600 * 1000000000) /* a longer kernel is a clock gone wrong */
enum { FLUSH_TRIES = 100 };

struct operation {
  uint32_t generation;
  bool live;     /* it may still get children */
  bool launched; /* NCCL has ended the event */
  bool fresh;    /* it has something that is not in the trace */
  bool by_gpu;   /* its kernel has the GPU's times */
  uint16_t function;
  uint32_t comm;
  uint64_t call, posted_ns;
  unsigned channels, kernels_begun, kernels_ended;
  uint64_t kernel_began, kernel_end; /* by the clock that has timed them; kernel_end 0: unknown */
  unsigned open;                     /* transfers and steps */
  unsigned sending;                  /* steps that the network sends now */
  uint64_t sending_since;
  uint64_t network_began_ns, network_ended_ns;
  /* Since the last record: */
  uint64_t bytes[2], waited_ns[2][TAGC_PROFILER_WAITS], sending_ns; /* [1]: of sends */
  uint32_t pieces[2];
};

struct transfer {
  uint32_t generation;
  uint16_t operation; /* its slot */
  bool used, sends, is_step;
  uint8_t wait;
  int next_free;
  uint32_t operation_generation;
  uint64_t since_ns, bytes;
};

struct context {
  pthread_mutex_t lock;
  bool used;
  int index;
  uint32_t comm;     /* of the trace; 0: not known yet */
  uint64_t launches; /* so far, of all communicators that had this place: generations never repeat soon */
  int first_free, transfers_made;
  /* The GPU's clock: our time less its time, at least. */
  int64_t offset, offset_before;
  uint64_t offset_since;
  struct operation operations[TAGC_PROFILER_OPERATIONS];
  struct transfer transfers[TAGC_PROFILER_TRANSFERS];
};

static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct context *_Atomic contexts[TAGC_PROFILER_CONTEXTS]; /* allocated once, and used again */
static atomic_int contexts_owner;                                /* the process that has them; 0: none */

/* ---- handles ----------------------------------------------------------------------------------------------------- */

enum handle_kind { NO_HANDLE, AN_OPERATION, A_KERNEL, A_TRANSFER, ANOTHER_EVENT };
_Static_assert(sizeof(void *) == 8, "a handle has four parts");
_Static_assert(TAGC_PROFILER_OPERATIONS <= 1 << 16 && TAGC_PROFILER_TRANSFERS <= 1 << 16 &&
                 TAGC_PROFILER_CONTEXTS <= 1 << 12,
               "which fit into it");

static void *make_handle(enum handle_kind kind, const struct context *context, size_t slot, uint32_t generation) {
  return (void *)((uintptr_t)kind << 60 | (uintptr_t)context->index << 48 | (uintptr_t)slot << 32 | generation);
}

static enum handle_kind kind_of_handle(const void *handle) { return (enum handle_kind)((uintptr_t)handle >> 60); }
static size_t slot_of_handle(const void *handle) { return (uintptr_t)handle >> 32 & 0xffff; }
static uint32_t generation_of_handle(const void *handle) { return (uint32_t)(uintptr_t)handle; }

/* The locked context of a handle; NULL: none. */
static struct context *lock_of_handle(const void *handle, enum handle_kind kind) {
  const size_t index = (uintptr_t)handle >> 48 & 0xfff;
  if (kind_of_handle(handle) != kind || index >= TAGC_PROFILER_CONTEXTS)
    return NULL;
  struct context *context = atomic_load(&contexts[index]);
  if (context)
    pthread_mutex_lock(&context->lock);
  return context;
}

/* The living operation of a handle of it, or of its kernel. */
static struct operation *find_operation(struct context *context, size_t slot, uint32_t generation) {
  struct operation *o = slot < TAGC_PROFILER_OPERATIONS ? &context->operations[slot] : NULL;
  return o && o->live && o->generation == generation ? o : NULL;
}

static struct transfer *find_transfer(struct context *context, const void *handle) {
  const size_t slot = slot_of_handle(handle);
  struct transfer *t = slot < TAGC_PROFILER_TRANSFERS ? &context->transfers[slot] : NULL;
  return t && t->used && t->generation == generation_of_handle(handle) ? t : NULL;
}

static struct operation *operation_of_transfer(struct context *context, const struct transfer *t) {
  return find_operation(context, t->operation, t->operation_generation);
}

/* ---- the GPU's clock --------------------------------------------------------------------------------------------- */

static int64_t least_offset(int64_t a, int64_t b) { return a < b ? a : b; }

static void see_gpu_clock(struct context *context, uint64_t gpu_ns, uint64_t now) {
  const int64_t offset = (int64_t)(now - gpu_ns);
  if (!context->offset_since) {
    context->offset = context->offset_before = offset;
    context->offset_since = now;
  } else if (now - context->offset_since > CLOCK_WINDOW_NS) {
    context->offset_before = context->offset;
    context->offset = offset;
    context->offset_since = now;
  }
  context->offset = least_offset(context->offset, offset);
}

static uint64_t time_on_host(const struct context *context, uint64_t gpu_ns) {
  return gpu_ns + (uint64_t)least_offset(context->offset, context->offset_before);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

static void write_operation(struct context *context, struct operation *o) {
  const int saved = errno;
  if (o->sending) {
    const uint64_t now = tagc_clock_ns();
    o->sending_ns += now - o->sending_since;
    o->sending_since = now;
  }
  const bool timed = o->kernel_end > o->kernel_began && o->kernel_end - o->kernel_began < KERNEL_MOST_NS;
  const struct tagc_trace_profile record = {
    {TAGC_TRACE_PROFILE, sizeof record, o->comm ? o->comm : context->comm},
    .call = o->call,
    .posted_ns = o->posted_ns,
    .kernel_began_ns = !timed      ? 0
                       : o->by_gpu ? time_on_host(context, o->kernel_began)
                                   : o->kernel_began,
    .kernel_ns = timed ? o->kernel_end - o->kernel_began : 0,
    .network_began_ns = o->network_began_ns,
    .network_ns = o->network_ended_ns > o->network_began_ns ? o->network_ended_ns - o->network_began_ns : 0,
    .sent_bytes = o->bytes[1],
    .received_bytes = o->bytes[0],
    .sending_ns = o->sending_ns,
    .send_gpu_ns = o->waited_ns[1][TAGC_PROFILER_GPU],
    .send_peer_ns = o->waited_ns[1][TAGC_PROFILER_PEER],
    .send_network_ns = o->waited_ns[1][TAGC_PROFILER_NETWORK],
    .receive_network_ns = o->waited_ns[0][TAGC_PROFILER_NETWORK],
    .receive_gpu_ns = o->waited_ns[0][TAGC_PROFILER_GPU],
    .sends = o->pieces[1],
    .receives = o->pieces[0],
    .function = o->function,
    .channels = (uint16_t)o->kernels_ended,
    .by_device = o->by_gpu,
  };
  tagc_trace_add(&record.record);
  memset(o->bytes, 0, sizeof o->bytes);
  memset(o->waited_ns, 0, sizeof o->waited_ns);
  memset(o->pieces, 0, sizeof o->pieces);
  o->sending_ns = 0;
  o->fresh = false;
  errno = saved;
}

/* Something of the operation has ended: writes it, if that was likely the last. */
static void settle_operation(struct context *context, struct operation *o) {
  const bool idle = o->launched && !o->open && o->kernels_begun == o->kernels_ended;
  const bool whole = o->kernels_ended && o->channels && o->kernels_ended >= o->channels;
  const bool old = (uint32_t)context->launches - o->generation >= TAGC_PROFILER_LAG;
  if (o->fresh && idle && (whole || old))
    write_operation(context, o);
}

static void retire_operation(struct context *context, struct operation *o) {
  if (o->live && o->fresh)
    write_operation(context, o);
  o->live = false;
}

static void write_context(struct context *context) {
  for (size_t i = 0; context->used && i < TAGC_PROFILER_OPERATIONS; i++)
    if (context->operations[i].live && context->operations[i].fresh)
      write_operation(context, &context->operations[i]);
}

/* Runs before the trace ends: it was registered later. NCCL's threads may still run. */
static void write_contexts_at_exit(void *unused) {
  (void)unused;
  if (contexts_owner != getpid() || tagc_trace_is_adding())
    return;
  for (size_t i = 0; i < TAGC_PROFILER_CONTEXTS; i++) {
    struct context *context = atomic_load(&contexts[i]);
    int tries = 0;
    while (context && pthread_mutex_trylock(&context->lock) != 0) /* the holder may be this thread, in a signal */
      if (++tries > FLUSH_TRIES)
        return;
      else
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    if (!context)
      continue;
    write_context(context);
    pthread_mutex_unlock(&context->lock);
  }
}

/* ---- communicators ----------------------------------------------------------------------------------------------- */

int __cxa_atexit(void (*function)(void *), void *argument, void *object);

/* Only in a child: no other thread is there, and a lost one may have held the locks. */
void tagc_profiler_forget(void) {
  pthread_mutex_init(&contexts_lock, NULL);
  for (size_t i = 0; i < TAGC_PROFILER_CONTEXTS; i++) {
    struct context *context = atomic_load(&contexts[i]);
    if (!context)
      continue;
    pthread_mutex_init(&context->lock, NULL);
    context->used = false;
    for (size_t o = 0; o < TAGC_PROFILER_OPERATIONS; o++)
      context->operations[o].live = false;
    for (size_t t = 0; t < TAGC_PROFILER_TRANSFERS; t++)
      context->transfers[t].used = false;
  }
  contexts_owner = getpid();
  tagc_profiler_expect_nothing();
}

static bool contexts_are_ours(void) { return contexts_owner == getpid(); }

static struct context *make_context(int index) {
  struct context *context = calloc(1, sizeof *context);
  if (!context)
    return NULL;
  pthread_mutex_init(&context->lock, NULL);
  context->index = index;
  atomic_store(&contexts[index], context);
  return context;
}

static void open_context(struct context *context) {
  pthread_mutex_lock(&context->lock);
  context->used = true;
  context->comm = 0;
  context->offset_since = 0;
  context->first_free = -1;
  context->transfers_made = 0;
  pthread_mutex_unlock(&context->lock);
}

static void *pointer_of_context(const struct context *context) { return (void *)((uintptr_t)context->index + 1); }

/* The context of a pointer that NCCL has from us; NULL: none. */
static struct context *context_of_pointer(const void *pointer) {
  const uintptr_t index = (uintptr_t)pointer - 1;
  return index < TAGC_PROFILER_CONTEXTS ? atomic_load(&contexts[index]) : NULL;
}

void *tagc_profiler_begin(void) {
  static bool flushes;
  struct context *found = NULL;
  if (contexts_owner && !contexts_are_ours())
    tagc_profiler_forget();
  pthread_mutex_lock(&contexts_lock);
  contexts_owner = getpid();
  if (!flushes)
    __cxa_atexit(write_contexts_at_exit, NULL, NULL);
  flushes = true;
  for (int i = 0; i < TAGC_PROFILER_CONTEXTS && !found; i++) {
    struct context *context = atomic_load(&contexts[i]);
    if (!context)
      context = make_context(i);
    if (!context)
      break;
    if (!context->used)
      found = context;
  }
  if (found)
    open_context(found);
  pthread_mutex_unlock(&contexts_lock);
  return found ? pointer_of_context(found) : NULL;
}

void tagc_profiler_end(void *pointer) {
  struct context *context = context_of_pointer(pointer);
  if (!context || !contexts_are_ours())
    return;
  pthread_mutex_lock(&contexts_lock);
  pthread_mutex_lock(&context->lock);
  for (size_t i = 0; i < TAGC_PROFILER_OPERATIONS; i++)
    retire_operation(context, &context->operations[i]);
  for (size_t i = 0; i < TAGC_PROFILER_TRANSFERS; i++)
    context->transfers[i].used = false;
  context->used = false;
  pthread_mutex_unlock(&context->lock);
  pthread_mutex_unlock(&contexts_lock);
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static uint16_t code_of_function(const char *function) {
  char name[64];
  if (!function || snprintf(name, sizeof name, "nccl%s", function) >= (int)sizeof name)
    return UINT16_MAX;
  const enum tagc_entry entry = tagc_real_find_entry(name);
  return entry < TAGC_ENTRY_COUNT ? (uint16_t)entry : UINT16_MAX;
}

void *tagc_profiler_launch(void *pointer, const struct tagc_profiler_operation *operation) {
  struct context *context = context_of_pointer(pointer);
  void *handle = NULL;
  if (!context || !contexts_are_ours())
    return NULL;
  const struct tagc_expected_call call = tagc_profiler_expected(operation->send, operation->recv);
  const uint16_t function = code_of_function(operation->function);
  const uint64_t now = tagc_clock_ns();
  pthread_mutex_lock(&context->lock);
  if (context->used) {
    const size_t slot = context->launches % TAGC_PROFILER_OPERATIONS;
    struct operation *o = &context->operations[slot];
    retire_operation(context, o);
    *o = (struct operation){.generation = (uint32_t)context->launches,
                            .live = true,
                            .function = function,
                            .comm = call.comm,
                            .call = call.number,
                            .posted_ns = now,
                            .channels = operation->channels};
    context->comm = call.comm ? call.comm : context->comm;
    context->launches++;
    settle_operation(context, &context->operations[(slot - TAGC_PROFILER_LAG) % TAGC_PROFILER_OPERATIONS]);
    handle = make_handle(AN_OPERATION, context, slot, o->generation);
  }
  pthread_mutex_unlock(&context->lock);
  return handle;
}

void *tagc_profiler_other(void) { return (void *)((uintptr_t)ANOTHER_EVENT << 60); }

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* Times of two clocks have no order: the first event of the kernel says whose times count. */
void *tagc_profiler_kernel(void *operation, uint64_t gpu_ns) {
  const uint64_t now = tagc_clock_ns(), began = gpu_ns ? gpu_ns : now;
  struct context *context = lock_of_handle(operation, AN_OPERATION);
  void *handle = NULL;
  if (!context)
    return NULL;
  struct operation *o = find_operation(context, slot_of_handle(operation), generation_of_handle(operation));
  if (o) {
    if (gpu_ns)
      see_gpu_clock(context, gpu_ns, now);
    if (!o->kernels_begun)
      o->by_gpu = gpu_ns != 0;
    if (o->by_gpu == (gpu_ns != 0) && (!o->kernel_began || began < o->kernel_began))
      o->kernel_began = began;
    o->kernels_begun++;
    handle = make_handle(A_KERNEL, context, slot_of_handle(operation), o->generation);
  }
  pthread_mutex_unlock(&context->lock);
  return handle;
}

static void end_kernel(struct operation *o, uint64_t ended) {
  if (ended > o->kernel_end)
    o->kernel_end = ended;
}

void tagc_profiler_kernel_ends(void *kernel, uint64_t gpu_ns) {
  const uint64_t now = tagc_clock_ns();
  struct context *context = lock_of_handle(kernel, A_KERNEL);
  if (!context)
    return;
  struct operation *o = find_operation(context, slot_of_handle(kernel), generation_of_handle(kernel));
  if (o && o->by_gpu && gpu_ns) {
    see_gpu_clock(context, gpu_ns, now);
    end_kernel(o, gpu_ns);
  }
  pthread_mutex_unlock(&context->lock);
}

static void stop_kernel(void *kernel) {
  const uint64_t now = tagc_clock_ns();
  struct context *context = lock_of_handle(kernel, A_KERNEL);
  if (!context)
    return;
  struct operation *o = find_operation(context, slot_of_handle(kernel), generation_of_handle(kernel));
  if (o && o->kernels_ended < o->kernels_begun) {
    o->kernels_ended++;
    o->fresh = true;
    if (!o->by_gpu)
      end_kernel(o, now);
    settle_operation(context, o);
  }
  pthread_mutex_unlock(&context->lock);
}

static void stop_operation(void *operation) {
  struct context *context = lock_of_handle(operation, AN_OPERATION);
  if (!context)
    return;
  struct operation *o = find_operation(context, slot_of_handle(operation), generation_of_handle(operation));
  if (o) {
    o->launched = true;
    settle_operation(context, o);
  }
  pthread_mutex_unlock(&context->lock);
}

/* ---- transfers --------------------------------------------------------------------------------------------------- */

static void give_transfer(struct context *context, struct transfer *t) {
  t->used = false;
  t->next_free = context->first_free;
  context->first_free = (int)(t - context->transfers);
}

/* Some releases of NCCL do not stop every step (2.26: github.com/NVIDIA/nccl/issues/1658). */
static void collect_transfers(struct context *context) {
  for (int i = 0; i < context->transfers_made; i++)
    if (context->transfers[i].used && !operation_of_transfer(context, &context->transfers[i]))
      give_transfer(context, &context->transfers[i]);
}

static struct transfer *take_transfer(struct context *context) {
  if (context->first_free < 0 && context->transfers_made == TAGC_PROFILER_TRANSFERS)
    collect_transfers(context);
  int slot = context->first_free;
  if (slot >= 0)
    context->first_free = context->transfers[slot].next_free;
  else if (context->transfers_made < TAGC_PROFILER_TRANSFERS)
    slot = context->transfers_made++;
  else
    return NULL;
  struct transfer *t = &context->transfers[slot];
  *t = (struct transfer){.generation = t->generation + 1, .used = true};
  return t;
}

static void *add_transfer(struct context *context, size_t slot, uint32_t generation, bool sends, bool is_step) {
  struct operation *o = find_operation(context, slot, generation);
  struct transfer *t = o ? take_transfer(context) : NULL;
  if (!t)
    return NULL;
  t->operation = (uint16_t)slot;
  t->operation_generation = generation;
  t->sends = sends;
  t->is_step = is_step;
  t->since_ns = tagc_clock_ns();
  o->open++;
  o->fresh = true;
  o->pieces[sends] += is_step;
  if (!o->network_began_ns)
    o->network_began_ns = t->since_ns;
  return make_handle(A_TRANSFER, context, (size_t)(t - context->transfers), t->generation);
}

void *tagc_profiler_transfer(void *operation, bool sends) {
  struct context *context = lock_of_handle(operation, AN_OPERATION);
  if (!context)
    return NULL;
  void *handle = add_transfer(context, slot_of_handle(operation), generation_of_handle(operation), sends, false);
  pthread_mutex_unlock(&context->lock);
  return handle;
}

void *tagc_profiler_step(void *transfer) {
  struct context *context = lock_of_handle(transfer, A_TRANSFER);
  if (!context)
    return NULL;
  const struct transfer *of = find_transfer(context, transfer);
  void *handle = of ? add_transfer(context, of->operation, of->operation_generation, of->sends, true) : NULL;
  pthread_mutex_unlock(&context->lock);
  return handle;
}

/* Accounts for the time since the last change, and begins to wait for something else. */
static void change_wait(struct operation *o, struct transfer *t, enum tagc_profiler_wait wait, uint64_t now) {
  const bool was = t->sends && t->wait == TAGC_PROFILER_NETWORK, will = t->sends && wait == TAGC_PROFILER_NETWORK;
  if (o) {
    o->waited_ns[t->sends][t->wait] += now - t->since_ns;
    o->fresh = true;
    if (will && !was && o->sending++ == 0)
      o->sending_since = now;
    if (was && !will && --o->sending == 0)
      o->sending_ns += now - o->sending_since;
  }
  t->wait = (uint8_t)wait;
  t->since_ns = now;
}

void tagc_profiler_step_waits(void *step, enum tagc_profiler_wait wait) {
  struct context *context = lock_of_handle(step, A_TRANSFER);
  if (!context)
    return;
  struct transfer *t = find_transfer(context, step);
  if (t && t->is_step)
    change_wait(operation_of_transfer(context, t), t, wait, tagc_clock_ns());
  pthread_mutex_unlock(&context->lock);
}

void tagc_profiler_moves(void *handle, uint64_t bytes) {
  struct context *context = lock_of_handle(handle, A_TRANSFER);
  if (!context)
    return;
  struct transfer *t = find_transfer(context, handle);
  struct operation *o = t ? operation_of_transfer(context, t) : NULL;
  if (o && bytes > t->bytes) {
    o->bytes[t->sends] += bytes - t->bytes;
    o->fresh = true;
    t->bytes = bytes;
  }
  pthread_mutex_unlock(&context->lock);
}

static void stop_transfer(void *handle) {
  struct context *context = lock_of_handle(handle, A_TRANSFER);
  if (!context)
    return;
  struct transfer *t = find_transfer(context, handle);
  if (t) {
    const uint64_t now = tagc_clock_ns();
    struct operation *o = operation_of_transfer(context, t);
    change_wait(o, t, TAGC_PROFILER_NOTHING, now);
    give_transfer(context, t);
    if (o) {
      o->open--;
      o->network_ended_ns = now;
      settle_operation(context, o);
    }
  }
  pthread_mutex_unlock(&context->lock);
}

void tagc_profiler_stop(void *any) {
  switch (kind_of_handle(any)) {
  case AN_OPERATION: stop_operation(any); break;
  case A_KERNEL: stop_kernel(any); break;
  case A_TRANSFER: stop_transfer(any); break;
  default: break;
  }
}
