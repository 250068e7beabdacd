/* SPDX-License-Identifier: BSD-3-Clause
 * Runs kernels: blocks one after the other (cooperative: all at once), their threads on fibres of the calling thread.
 *
 * A fibre runs one thread after the other until one of them waits; only then is another fibre needed. So a kernel that
 * never synchronises is a plain loop, without any annotation. Threads that can continue do so before new ones begin. If
 * none can continue or begin, that is a deadlock: it ends the process with a list of the waiting threads. A barrier
 * requires every thread of its block, even one that has returned, although newer GPUs accept that.
 *
 * Shared memory holds a pattern when a block begins. Everything here belongs to the thread that calls emulate_run().
 */
#include "tests/standin/cuda/emulator.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "tests/standin/cuda/strand.h"

enum { MOST_ROUNDS = 100000, POISON = 0xcd, MOST_GROUPS = 8 };

EMULATE_API __thread struct emulate_thread *emulate_self;
__thread struct runner runner;

static void push(struct queue *queue, struct strand *strand) {
  strand->next = NULL;
  if (!queue->first)
    queue->last = &queue->first;
  *queue->last = strand;
  queue->last = &strand->next;
}

static struct strand *pop(struct queue *queue) {
  struct strand *strand = queue->first;
  if (strand)
    queue->first = strand->next;
  return strand;
}

/* Puts the block's static shared memory in place, and makes the strand the running one. */
static void enter(struct strand *strand) {
  struct runner *r = &runner;
  struct emulate_block *block = strand->self.home;
  if (r->current != block && r->alive > 1 && r->shared_size) {
    if (r->current)
      memcpy(r->current->image, r->shared, r->shared_size);
    memcpy(r->shared, block->image, r->shared_size);
  }
  r->current = block;
  emulate_self = &strand->self;
}

/* With a seed, threads begin in another order: offset and stride are random, and the stride is coprime to the count. */
static unsigned in_order(unsigned i, unsigned count, uint64_t seed) {
  if (!seed)
    return i;
  uint64_t drawn = standin_mix(seed), stride = 1 + drawn % count, offset = (drawn >> 32) % count;
  for (;; stride++) {
    uint64_t a = stride, b = count;
    while (b) {
      uint64_t rest = a % b;
      a = b;
      b = rest;
    }
    if (a == 1)
      return (unsigned)((offset + i * (stride % count)) % count);
  }
}

static struct strand *begin_next(void) {
  struct runner *r = &runner;
  if (r->next_block == r->alive)
    return NULL;
  unsigned thread = in_order(r->next_thread, r->threads, r->launch->seed);
  struct strand *strand = &r->blocks[r->next_block].strands[thread];
  if (++r->next_thread == r->threads) {
    r->next_thread = 0;
    r->next_block++;
  }
  r->rounds = 0;
  return strand;
}

static void run_threads(void *data);

void strand_go_on_otherwise(struct fibre *from) {
  struct runner *r = &runner;
  struct fibre *to = &r->home;
  struct strand *strand = pop(&r->ready);
  if (strand) {
    enter(strand);
    to = strand->fibre;
  } else if (r->next_block < r->alive) {
    to = r->idle;
    if (to)
      r->idle = to->next;
    else if (!(to = fibre_create(run_threads, NULL)))
      standin_die("no memory for one more thread of a kernel");
  }
  r->running = to;
  if (to != from)
    fibre_switch(from, to);
}

/* -- diagnoses ----------------------------------------------------------------------------------------------------- */
static bool same_place(const char *file, int line, const struct strand *strand) {
  return line == strand->line && (file == strand->file || strcmp(file, strand->file) == 0);
}

void strand_describe(char *text, size_t size, const struct strand *s) {
  const struct emulate_index *b = s->self.block, *t = &s->self.thread;
  int length = snprintf(text, size, "block (%u,%u,%u) thread (%u,%u,%u) ", b->x, b->y, b->z, t->x, t->y, t->z);
  text += length;
  size -= (size_t)length;
  if (s->state == AT_BARRIER)
    snprintf(text, size, "waits at the barrier of %s:%d", s->file, s->line);
  else if (s->state == AT_WARP)
    snprintf(text, size, "waits for lanes %08x at %s:%d", s->mask, s->file, s->line);
  else if (s->state == PAUSES)
    snprintf(text, size, "spins at %s:%d", s->file, s->line);
  else
    snprintf(text, size, "%s", s->state == RETURNED ? "has returned" : "runs");
}

static bool alike(const struct strand *a, const struct strand *b) {
  return a->state == b->state && (a->state == RETURNED || (same_place(a->file, a->line, b) && a->mask == b->mask));
}

/* Writes one line for each group of neighbours in the same state, in blocks that have not returned. */
static size_t describe_block(char *text, size_t size, const struct emulate_block *block, int *groups) {
  size_t length = 0;
  for (unsigned i = 0, end; i < runner.threads && *groups < MOST_GROUPS; i = end, ++*groups) {
    const struct strand *s = &block->strands[i];
    for (end = i + 1; end < runner.threads && alike(&block->strands[end], s); end++)
      ;
    char one[256];
    strand_describe(one, sizeof one, s);
    length += (size_t)snprintf(text + length, size - length, "\n  %s", one);
    if (end > i + 1)
      length += (size_t)snprintf(text + length, size - length, ", and so do the next %u", end - i - 1);
  }
  return length;
}

static void deadlock(void) {
  struct runner *r = &runner;
  char text[MOST_GROUPS * 320] = "";
  size_t length = 0;
  int groups = 0;
  for (unsigned i = 0; i < r->alive; i++)
    for (unsigned t = 0; t < r->threads; t++)
      if (r->blocks[i].strands[t].state != RETURNED) {
        length += describe_block(text + length, sizeof text - length, &r->blocks[i], &groups);
        break;
      }
  uint64_t blocks = (uint64_t)r->launch->grid.x * r->launch->grid.y * r->launch->grid.z;
  standin_die("kernel '%s': deadlock: none of its threads can go on%s%s", r->launch->kernel->name, text,
              r->alive < blocks ? "\n  (not a cooperative launch: blocks run one after the other)" : "");
}

EMULATE_API void emulate_trap(const char *file, int line) {
  char text[256];
  strand_describe(text, sizeof text, strand_self());
  standin_die("kernel '%s': trap at %s:%d: %s", runner.launch->kernel->name, file, line, text);
}

/* -- barriers ------------------------------------------------------------------------------------------------------ */
static void __attribute__((noinline, cold))
different_barriers(const struct strand *first, const struct strand *strand) {
  char one[256], other[256];
  strand_describe(one, sizeof one, first);
  strand_describe(other, sizeof other, strand);
  standin_die("kernel '%s': the threads of a block are at different barriers\n  %s\n  %s", runner.launch->kernel->name,
              one, other);
}

EMULATE_API int emulate_barrier(enum emulate_barrier_kind kind, int value, const char *file, int line) {
  struct strand *strand = strand_self();
  struct emulate_block *block = strand->self.home;
  strand_wait(strand, AT_BARRIER, file, line);
  strand->mask = 0;
  if (block->waiting == 0) {
    block->first = strand;
    block->kind = kind;
    block->gathered = kind == EMULATE_AND;
  } else if (block->kind != kind || !same_place(file, line, block->first))
    different_barriers(block->first, strand);
  if (kind == EMULATE_COUNT)
    block->gathered += value != 0;
  else if (kind == EMULATE_AND)
    block->gathered &= value != 0;
  else
    block->gathered |= value != 0;
  if (++block->waiting < runner.threads) {
    strand_go_on(strand->fibre);
    return block->result;
  }
  block->waiting = 0;
  block->result = block->gathered; /* kept until all are back: the next barrier needs them */
  for (unsigned i = 0; i < runner.threads; i++)
    if (&block->strands[i] != strand)
      strand_release(&block->strands[i]);
  strand->state = RUNS;
  return block->result;
}

/* -- threads ------------------------------------------------------------------------------------------------------- */
EMULATE_API void emulate_pause(const char *file, int line) {
  struct strand *strand = strand_self();
  strand_wait(strand, PAUSES, file, line);
  strand->mask = 0;
  push(&runner.paused, strand);
  strand_go_on(strand->fibre);
  strand->state = RUNS;
}

/* Not a fence of the language: the thread sanitizer does not support those. */
EMULATE_API void emulate_fence(void) {
  static unsigned everybody;
  __atomic_fetch_add(&everybody, 0, __ATOMIC_SEQ_CST);
}

EMULATE_API void *emulate_dynamic_shared(void) { return emulate_self->home->dynamic; }

static void returned(struct strand *strand) {
  strand->state = RETURNED;
  emulate_self = NULL;
  runner.left--;
  runner.rounds = 0;
  warp_returned(strand);
}

/* The body of a fibre. */
static void run_threads(void *data) {
  struct runner *r = &runner;
  (void)data;
  for (;;) {
    struct strand *strand;
    while ((strand = begin_next())) {
      enter(strand);
      strand->state = RUNS;
      r->launch->kernel->call(r->launch->parameters);
      returned(strand_self());
    }
    struct fibre *self = r->running;
    self->next = r->idle;
    r->idle = self;
    strand_go_on(self);
  }
}

static struct emulate_index index_of(uint64_t linear, struct emulate_index size) {
  return (struct emulate_index){(unsigned)(linear % size.x), (unsigned)(linear / size.x % size.y),
                                (unsigned)(linear / size.x / size.y)};
}

static void prepare_block(struct emulate_block *block, uint64_t linear) {
  struct runner *r = &runner;
  block->index = index_of(linear, r->launch->grid);
  for (unsigned i = 0; i < r->threads; i++)
    block->strands[i].state = BEGINS;
  memset(block->dynamic, POISON, r->launch->shared);
  if (r->shared_size)
    memset(r->alive > 1 ? block->image : r->shared, POISON, r->shared_size);
}

/* Runs the prepared blocks until all their threads have returned. */
static void run_blocks(void) {
  struct runner *r = &runner;
  r->next_block = r->next_thread = 0;
  r->left = (uint64_t)r->alive * r->threads;
  r->rounds = 0;
  r->current = NULL;
  for (;;) {
    r->running = &r->home;
    strand_go_on(&r->home);
    if (r->left == 0)
      return;
    if (!r->paused.first || ++r->rounds > MOST_ROUNDS)
      deadlock();
    r->ready = r->paused;
    r->paused.first = NULL;
  }
}

/* The object that holds an address, and its thread-local storage. */
struct object {
  uintptr_t inside;
  size_t module, size; /* module: the dynamic linker's number; 0: no such storage */
  bool found, program;
};

static int find_object(struct dl_phdr_info *info, size_t size, void *data) {
  struct object *object = data;
  (void)size;
  object->module = object->size = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    object->found |=
      segment->p_type == PT_LOAD && object->inside - info->dlpi_addr - segment->p_vaddr < segment->p_memsz;
    if (segment->p_type != PT_TLS)
      continue;
    object->module = info->dlpi_tls_modid;
    object->size = segment->p_memsz;
  }
  object->program = info->dlpi_name[0] == '\0';
  return object->found;
}

/* The dynamic linker's function: the address of an offset of a module's storage for this thread. */
void *__tls_get_addr(size_t module_and_offset[2]);

/* Finds static shared memory: all thread-local storage of the kernel's object, which must hold nothing else. */
static void find_shared(void) {
  struct object object = {.inside = (uintptr_t)runner.launch->kernel};
  dl_iterate_phdr(find_object, &object);
  if (!object.found || object.program)
    standin_die("kernel '%s' is not in a shared object", runner.launch->kernel->name);
  runner.shared = object.module ? __tls_get_addr((size_t[]){object.module, 0}) : NULL;
  runner.shared_size = object.size;
}

static void *take_memory(size_t size) {
  void *memory;
  if (posix_memalign(&memory, 128, size ? size : 1) != 0)
    standin_die("no memory for a kernel");
  return memory;
}

/* The block's threads keep their places from block to block. */
static void make_block(struct emulate_block *block) {
  const struct emulate_launch *l = runner.launch;
  *block = (struct emulate_block){.strands = take_memory(runner.threads * sizeof(struct strand)),
                                  .dynamic = take_memory(l->shared),
                                  .image = take_memory(runner.shared_size)};
  for (unsigned i = 0; i < runner.threads; i++)
    block->strands[i] = (struct strand){.self = {index_of(i, l->block), &block->index, &l->block, &l->grid, i, block}};
}

void emulate_run(const struct emulate_launch *launch) {
  struct runner *r = &runner;
  uint64_t blocks = (uint64_t)launch->grid.x * launch->grid.y * launch->grid.z;
  r->launch = launch;
  r->threads = launch->block.x * launch->block.y * launch->block.z;
  r->alive = launch->cooperative ? (unsigned)blocks : 1;
  if (!r->home.stack)
    fibre_adopt(&r->home);
  find_shared();
  r->blocks = take_memory(r->alive * sizeof *r->blocks);
  for (unsigned i = 0; i < r->alive; i++)
    make_block(&r->blocks[i]);
  for (uint64_t done = 0; done < blocks; done += r->alive) {
    for (unsigned i = 0; i < r->alive; i++) {
      uint64_t which = launch->cooperative ? i : in_order((unsigned)done, (unsigned)blocks, launch->seed);
      prepare_block(&r->blocks[i], which);
    }
    run_blocks();
  }
  for (unsigned i = 0; i < r->alive; i++) {
    free(r->blocks[i].strands);
    free(r->blocks[i].dynamic);
    free(r->blocks[i].image);
  }
  free(r->blocks);
}

void emulate_end_thread(void) {
  while (runner.idle) {
    struct fibre *next = runner.idle->next;
    fibre_free(runner.idle);
    runner.idle = next;
  }
}

const char *emulate_where(char *text, size_t size) {
  if (!emulate_self)
    return NULL;
  int length = snprintf(text, size, "kernel '%s': ", runner.launch->kernel->name);
  strand_describe(text + length, size - (size_t)length, strand_self());
  return text;
}
