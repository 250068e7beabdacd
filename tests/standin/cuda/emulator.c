/* SPDX-License-Identifier: BSD-3-Clause
 * Runs kernels: the blocks of a launch one after the other (of a cooperative launch: all at once), the threads of a block
 * on fibres of the calling thread.
 *
 * A fibre runs thread after thread until one of them waits for others; only then is another fibre needed. So a kernel that
 * never synchronises is a plain loop, and nobody has to say which kernels those are. Threads that can go on do so before
 * new ones begin. When none can, and no thread is left to begin, that is a deadlock, which ends the process with a list of
 * who waits where. A barrier wants every thread of its block: one that has returned is missed, though newer GPUs forgive it.
 *
 * Shared memory holds a pattern when a block begins. Everything here belongs to the thread that calls emulate_run().
 */
#include "tests/standin/cuda/emulator.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "tests/standin/cuda/driver.h"
#include "tests/standin/cuda/fibre.h"

enum { MOST_ROUNDS = 100000, POISON = 0xcd, MOST_GROUPS = 8 };

enum state { BEGINS, RUNS, AT_BARRIER, AT_WARP, PAUSES, RETURNED };

/* A thread of the kernel, and what it waits for. */
struct strand {
  struct emulate_thread self;       /* first: emulate_self points here */
  enum state state;
  struct fibre *fibre;              /* that holds its stack while it waits */
  struct strand *next;
  const char *file;                 /* where it waits */
  int line;
  enum emulate_warp_kind kind;
  uint32_t mask;
  uint64_t value, result;
  unsigned argument, width;
};

struct emulate_block {
  struct emulate_index index;
  struct strand *strands;
  unsigned waiting;                 /* at the barrier that `first` came to first */
  const struct strand *first;
  enum emulate_barrier_kind kind;
  int gathered, result;
  void *dynamic, *image;            /* image: its static shared memory, while another block of the launch runs */
};

struct queue {
  struct strand *first, **last;
};

/* A launch on this thread. */
struct runner {
  const struct emulate_launch *launch;
  struct emulate_block *blocks, *current;   /* current: whose static shared memory is in place */
  unsigned alive, threads;          /* blocks, threads of each */
  uint64_t begun, left;             /* threads of these blocks that have begun, that have not returned */
  unsigned rounds;                  /* in which threads did nothing but pause */
  struct queue ready, paused;
  struct fibre home, *idle, *running;
  void *shared;                     /* this thread's static shared memory of the kernel's object */
  size_t shared_size;
};

EMULATE_API __thread struct emulate_thread *emulate_self;
static __thread struct runner runner;

static struct strand *own(void) { return (struct strand *)(void *)emulate_self; }

static void push(struct queue *queue, struct strand *strand)
{
  strand->next = NULL;
  if (!queue->first)
    queue->last = &queue->first;
  *queue->last = strand;
  queue->last = &strand->next;
}

static struct strand *pop(struct queue *queue)
{
  struct strand *strand = queue->first;
  if (strand)
    queue->first = strand->next;
  return strand;
}

static void release(struct strand *strand)
{
  runner.rounds = 0;
  strand->state = RUNS;
  push(&runner.ready, strand);
}

/* Puts the block's static shared memory in place, and lets the strand be the one that runs. */
static void enter(struct strand *strand)
{
  struct runner *r = &runner;
  struct emulate_block *block = strand->self.home;
  if (r->current != block && r->alive > 1) {
    if (r->current)
      memcpy(r->current->image, r->shared, r->shared_size);
    memcpy(r->shared, block->image, r->shared_size);
  }
  r->current = block;
  emulate_self = &strand->self;
}

/* With a seed, threads begin in another order: offset and stride are drawn, and the stride has no factor of the count. */
static unsigned in_order(unsigned i, unsigned count, uint64_t seed)
{
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

static struct strand *begin_next(void)
{
  struct runner *r = &runner;
  if (r->begun == (uint64_t)r->alive * r->threads)
    return NULL;
  struct emulate_block *block = &r->blocks[r->begun / r->threads];
  struct strand *strand = &block->strands[in_order((unsigned)(r->begun % r->threads), r->threads, r->launch->seed)];
  r->begun++;
  r->rounds = 0;
  return strand;
}

static void run_threads(void *data);

/* Goes on with whoever can; returns when `from` is wanted again: the thread's own fibre when nobody can. */
static void go_on(struct fibre *from)
{
  struct runner *r = &runner;
  struct fibre *to = &r->home;
  struct strand *strand = pop(&r->ready);
  if (strand) {
    enter(strand);
    to = strand->fibre;
  } else if (r->begun < (uint64_t)r->alive * r->threads) {
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

/* -- diagnoses --------------------------------------------------------------------------------------------------------- */
static bool same_place(const char *file, int line, const struct strand *strand)
{
  return line == strand->line && (file == strand->file || strcmp(file, strand->file) == 0);
}

static void describe(char *text, size_t size, const struct strand *s)
{
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

static bool alike(const struct strand *a, const struct strand *b)
{
  return a->state == b->state && (a->state == RETURNED || (same_place(a->file, a->line, b) && a->mask == b->mask));
}

/* One line for each group of neighbours that do the same, in blocks that have not returned. */
static size_t describe_block(char *text, size_t size, const struct emulate_block *block, int *groups)
{
  size_t length = 0;
  for (unsigned i = 0, end; i < runner.threads && *groups < MOST_GROUPS; i = end, ++*groups) {
    const struct strand *s = &block->strands[i];
    for (end = i + 1; end < runner.threads && alike(&block->strands[end], s); end++)
      ;
    char one[256];
    describe(one, sizeof one, s);
    length += (size_t)snprintf(text + length, size - length, "\n  %s", one);
    if (end > i + 1)
      length += (size_t)snprintf(text + length, size - length, ", and so do the next %u", end - i - 1);
  }
  return length;
}

static void deadlock(void)
{
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

EMULATE_API void emulate_trap(const char *file, int line)
{
  char text[256];
  describe(text, sizeof text, own());
  standin_die("kernel '%s': trap at %s:%d: %s", runner.launch->kernel->name, file, line, text);
}

/* -- barriers ---------------------------------------------------------------------------------------------------------- */
static void wait_here(struct strand *strand, enum state state, const char *file, int line)
{
  strand->state = state;
  strand->file = file;
  strand->line = line;
  strand->fibre = runner.running;
}

EMULATE_API int emulate_barrier(enum emulate_barrier_kind kind, int value, const char *file, int line)
{
  struct strand *strand = own();
  struct emulate_block *block = strand->self.home;
  wait_here(strand, AT_BARRIER, file, line);
  strand->mask = 0;
  if (block->waiting == 0) {
    block->first = strand;
    block->kind = kind;
    block->gathered = kind == EMULATE_AND;
  } else if (block->kind != kind || !same_place(file, line, block->first)) {
    char one[256], other[256];
    describe(one, sizeof one, block->first);
    describe(other, sizeof other, strand);
    standin_die("kernel '%s': the threads of a block are at different barriers\n  %s\n  %s",
                runner.launch->kernel->name, one, other);
  }
  if (kind == EMULATE_COUNT)
    block->gathered += value != 0;
  else if (kind == EMULATE_AND)
    block->gathered &= value != 0;
  else
    block->gathered |= value != 0;
  if (++block->waiting < runner.threads) {
    go_on(strand->fibre);
    return block->result;
  }
  block->waiting = 0;
  block->result = block->gathered;  /* stays until all have come back, as the next barrier needs them */
  for (unsigned i = 0; i < runner.threads; i++)
    if (&block->strands[i] != strand)
      release(&block->strands[i]);
  strand->state = RUNS;
  return block->result;
}

/* -- warps ------------------------------------------------------------------------------------------------------------- */
static bool is_there(const struct strand *lane, unsigned i, unsigned count)
{
  return i < count && lane->state != RETURNED;
}

/* Have all lanes come that the strand's operation names? Those that have returned are not waited for. The last is looked
 * at first: it comes last. */
static bool is_complete(const struct strand *lanes, unsigned count, const struct strand *strand)
{
  for (unsigned i = count; i-- > 0;)
    if ((strand->mask >> i & 1) && lanes[i].state != RETURNED &&
        (lanes[i].state != AT_WARP || lanes[i].mask != strand->mask || lanes[i].kind != strand->kind))
      return false;
  return true;
}

/* The lane that a shuffle reads from; its own where the segment ends. */
static unsigned source(const struct strand *strand, unsigned lane)
{
  unsigned width = strand->width, begin = lane & ~(width - 1), by = strand->argument;
  if (strand->kind == EMULATE_SHFL)
    return begin + (by & (width - 1));
  if (strand->kind == EMULATE_SHFL_UP)
    return by <= lane - begin ? lane - by : lane;
  if (strand->kind == EMULATE_SHFL_DOWN)
    return by < begin + width - lane ? lane + by : lane;
  return (lane ^ by) < begin + width ? lane ^ by : lane;
}

static uint32_t reduce(enum emulate_warp_kind kind, uint32_t a, uint32_t b)
{
  switch (kind) {
  case EMULATE_REDUCE_AND: return a & b;
  case EMULATE_REDUCE_OR: return a | b;
  case EMULATE_REDUCE_XOR: return a ^ b;
  case EMULATE_REDUCE_MIN_U: return a < b ? a : b;
  case EMULATE_REDUCE_MAX_U: return a > b ? a : b;
  case EMULATE_REDUCE_MIN_S: return (int32_t)a < (int32_t)b ? a : b;
  case EMULATE_REDUCE_MAX_S: return (int32_t)a > (int32_t)b ? a : b;
  default: return a + b;
  }
}

static uint64_t result_of(const struct strand *lanes, unsigned count, const struct strand *strand)
{
  unsigned lane = strand->self.linear % EMULATE_WARP;
  uint64_t result = 0;
  bool any = false;
  if (strand->kind >= EMULATE_SHFL && strand->kind <= EMULATE_SHFL_XOR) {
    unsigned from = source(strand, lane);
    bool takes_part = (strand->mask >> from & 1) && is_there(&lanes[from], from, count);
    return takes_part ? lanes[from].value : 0xcdcdcdcdcdcdcdcdu;    /* undefined */
  }
  for (unsigned i = 0; i < count; i++) {
    if (!(strand->mask >> i & 1) || !is_there(&lanes[i], i, count))
      continue;
    if (strand->kind == EMULATE_BALLOT)
      result |= (lanes[i].value & 1) << i;
    else if (strand->kind == EMULATE_MATCH_ANY)
      result |= (uint64_t)(lanes[i].value == strand->value) << i;
    else
      result = any ? reduce(strand->kind, (uint32_t)result, (uint32_t)lanes[i].value) : lanes[i].value;
    any = true;
  }
  return result;
}

static unsigned lanes_of(const struct strand *strand, struct strand **lanes)
{
  unsigned first = strand->self.linear / EMULATE_WARP * EMULATE_WARP, count = runner.threads - first;
  *lanes = &strand->self.home->strands[first];
  return count < EMULATE_WARP ? count : EMULATE_WARP;
}

/* All lanes of the operation get their results, and go on. */
static void finish(struct strand *lanes, unsigned count, const struct strand *strand)
{
  uint32_t mask = strand->mask;
  for (unsigned i = 0; i < count; i++)
    if ((mask >> i & 1) && lanes[i].state == AT_WARP)
      lanes[i].result = result_of(lanes, count, &lanes[i]);
  for (unsigned i = 0; i < count; i++)
    if ((mask >> i & 1) && lanes[i].state == AT_WARP)
      release(&lanes[i]);
}

EMULATE_API uint64_t emulate_warp(enum emulate_warp_kind kind, uint32_t mask, uint64_t value, unsigned argument,
                                  unsigned width, const char *file, int line)
{
  struct strand *strand = own(), *lanes;
  unsigned count = lanes_of(strand, &lanes);
  wait_here(strand, AT_WARP, file, line);
  strand->kind = kind;
  strand->mask = mask;
  strand->value = value;
  strand->argument = argument;
  strand->width = width;
  bool known_width = width && width <= EMULATE_WARP && (width & (width - 1)) == 0;
  if (!(mask >> strand->self.linear % EMULATE_WARP & 1) || !known_width) {
    char text[256];
    describe(text, sizeof text, strand);
    standin_die("kernel '%s': %s\n  %s", runner.launch->kernel->name,
                known_width ? "a lane is not in its own mask" : "the width of a shuffle is not a power of two", text);
  }
  if (is_complete(lanes, count, strand))
    finish(lanes, count, strand);   /* itself, too: it is the last of those that are ready */
  go_on(strand->fibre);
  return strand->result;
}

/* -- threads ----------------------------------------------------------------------------------------------------------- */
EMULATE_API void emulate_pause(const char *file, int line)
{
  struct strand *strand = own();
  wait_here(strand, PAUSES, file, line);
  strand->mask = 0;
  push(&runner.paused, strand);
  go_on(strand->fibre);
  strand->state = RUNS;
}

EMULATE_API void *emulate_dynamic_shared(void) { return emulate_self->home->dynamic; }

/* Operations of its warp may have waited for it alone. */
static void returned(struct strand *strand)
{
  struct strand *lanes;
  unsigned count = lanes_of(strand, &lanes);
  strand->state = RETURNED;
  emulate_self = NULL;
  runner.left--;
  runner.rounds = 0;
  for (unsigned i = 0; i < count; i++)
    if (lanes[i].state == AT_WARP && is_complete(lanes, count, &lanes[i]))
      finish(lanes, count, &lanes[i]);
}

/* What a fibre does. */
static void run_threads(void *data)
{
  struct runner *r = &runner;
  (void)data;
  for (;;) {
    struct strand *strand;
    while ((strand = begin_next())) {
      enter(strand);
      strand->state = RUNS;
      r->launch->kernel->call(r->launch->parameters);
      returned(own());
    }
    struct fibre *self = r->running;
    self->next = r->idle;
    r->idle = self;
    go_on(self);
  }
}

static struct emulate_index index_of(uint64_t linear, struct emulate_index size)
{
  return (struct emulate_index){(unsigned)(linear % size.x), (unsigned)(linear / size.x % size.y),
                                (unsigned)(linear / size.x / size.y)};
}

static void prepare_block(struct emulate_block *block, uint64_t linear)
{
  struct runner *r = &runner;
  block->index = index_of(linear, r->launch->grid);
  block->waiting = 0;
  for (unsigned i = 0; i < r->threads; i++)
    block->strands[i] = (struct strand){
      .self = {index_of(i, r->launch->block), &block->index, &r->launch->block, &r->launch->grid, i, block}};
  memset(block->dynamic, POISON, r->launch->shared);
  memset(r->alive > 1 ? block->image : r->shared, POISON, r->shared_size);
}

/* Runs the blocks that are prepared until all their threads have returned. */
static void run_blocks(void)
{
  struct runner *r = &runner;
  r->begun = 0;
  r->left = (uint64_t)r->alive * r->threads;
  r->rounds = 0;
  r->current = NULL;
  for (;;) {
    r->running = &r->home;
    go_on(&r->home);
    if (r->left == 0)
      return;
    if (!r->paused.first || ++r->rounds > MOST_ROUNDS)
      deadlock();
    r->ready = r->paused;
    r->paused.first = NULL;
  }
}

struct area {
  const char *inside;
  char *begin;
  size_t size;
  bool program;
};

static int find_area(struct dl_phdr_info *info, size_t size, void *data)
{
  struct area *area = data;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    char *begin = info->dlpi_tls_data;
    size_t length = info->dlpi_phdr[i].p_memsz;
    if (info->dlpi_phdr[i].p_type != PT_TLS || !begin || area->inside < begin || area->inside >= begin + length)
      continue;
    area->begin = begin;
    area->size = length;
    area->program = info->dlpi_name[0] == '\0';
    return 1;
  }
  return 0;
}

/* Static shared memory: all thread-local storage of the kernel's object. It must hold nothing else. */
static void find_shared(void)
{
  struct area area = {.inside = runner.launch->kernel->shared()};
  dl_iterate_phdr(find_area, &area);
  if (!area.begin || area.program)
    standin_die("kernel '%s' is not in a shared object", runner.launch->kernel->name);
  runner.shared = area.begin;
  runner.shared_size = area.size;
}

static void *take_memory(size_t size)
{
  void *memory;
  if (posix_memalign(&memory, 128, size ? size : 1) != 0)
    standin_die("no memory for a kernel");
  return memory;
}

void emulate_run(const struct emulate_launch *launch)
{
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
    r->blocks[i] = (struct emulate_block){.strands = take_memory(r->threads * sizeof(struct strand)),
                                          .dynamic = take_memory(launch->shared), .image = take_memory(r->shared_size)};
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

void emulate_end_thread(void)
{
  while (runner.idle) {
    struct fibre *next = runner.idle->next;
    fibre_free(runner.idle);
    runner.idle = next;
  }
}

const char *emulate_where(char *text, size_t size)
{
  if (!emulate_self)
    return NULL;
  int length = snprintf(text, size, "kernel '%s': ", runner.launch->kernel->name);
  describe(text + length, size - (size_t)length, own());
  return text;
}
