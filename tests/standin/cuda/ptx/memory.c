/* SPDX-License-Identifier: BSD-3-Clause
 * Accesses to memory, and to the parameters of the kernel. Usually all lanes access one buffer, or shared memory: one
 * look at the least and the greatest address is enough. Otherwise each lane's address is looked at. An access outside
 * of the kernel's memory, or at an address that its size does not divide, is a finding, and does not happen.
 */
#include "tests/standin/cuda/ptx/ptx.h"

#include <string.h>

const struct ptx_range *ptx_find_range(struct ptx_machine *m, uint64_t address, uint64_t bytes) {
  for (unsigned tries = 0; tries <= m->count && m->count; tries++) {
    const struct ptx_range *r = &m->ranges[tries ? tries - 1 : m->last];
    if (address - r->begin < r->size && bytes <= r->size - (address - r->begin)) {
      m->last = (unsigned)(r - m->ranges);
      return r;
    }
  }
  return NULL;
}

/* With constant sizes, as most of the interpreter's time goes here. */
static inline uint64_t read_bytes(const void *from, unsigned bytes, bool is_signed) {
  uint64_t value = 0;
  switch (bytes) {
  case 1: memcpy(&value, from, 1); break;
  case 2: memcpy(&value, from, 2); break;
  case 4: memcpy(&value, from, 4); break;
  default: memcpy(&value, from, 8);
  }
  unsigned above = 64 - 8 * bytes;
  return is_signed ? (uint64_t)((int64_t)(value << above) >> above) : value;
}

static inline void write_bytes(void *to, uint64_t value, unsigned bytes) {
  switch (bytes) {
  case 1: memcpy(to, &value, 1); break;
  case 2: memcpy(to, &value, 2); break;
  case 4: memcpy(to, &value, 4); break;
  default: memcpy(to, &value, 8);
  }
}

static double double_of(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static float float_of(uint64_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint64_t added(const struct ptx_ins *i, uint64_t old, uint64_t by) {
  if (!i->is_float)
    return old + by;
  uint64_t bits = 0;
  if (i->bytes == 8) {
    double sum = double_of(old) + double_of(by);
    memcpy(&bits, &sum, sizeof sum);
    return sum != sum ? UINT64_C(0x7ff8000000000000) : bits;
  }
  float sum = float_of(old) + float_of(by);
  memcpy(&bits, &sum, sizeof sum);
  return sum != sum ? 0x7fffffff : bits;
}

static uint64_t changed(const struct ptx_ins *i, uint64_t old, uint64_t by, uint64_t other) {
  switch (i->how) {
  case PTX_ADD: return added(i, old, by);
  case PTX_AND: return old & by;
  case PTX_OR: return old | by;
  case PTX_XOR: return old ^ by;
  case PTX_MIN: return (i->is_signed ? (int64_t)by < (int64_t)old : by < old) ? by : old;
  case PTX_MAX: return (i->is_signed ? (int64_t)by > (int64_t)old : by > old) ? by : old;
  case PTX_EXCHANGE: return by;
  default: return old == by ? other : old;
  }
}

/* Where an instruction's lanes go. */
struct places {
  uint64_t addresses[LANES]; /* as the kernel has them: those in shared memory from 0 on */
  char *at[LANES];
  uint32_t shared, global; /* lanes whose access happens */
};

static void take_addresses(const struct ptx_warp *w, const struct ptx_ins *i, struct places *p) {
  const void *row = ptx_row(w, i->from[0]);
  if (i->space == PTX_SHARED)
    for (unsigned lane = 0; lane < LANES; lane++)
      p->addresses[lane] = (uint32_t)(ptx_get(w, i->from[0], lane) + (uint64_t)i->offset);
  else if (i->from[0].bits == 64)
    for (unsigned lane = 0; lane < LANES; lane++)
      p->addresses[lane] = ((const row64 *)row)[lane] + (uint64_t)i->offset;
  else
    for (unsigned lane = 0; lane < LANES; lane++)
      p->addresses[lane] = ((const row32 *)row)[lane] + (uint64_t)i->offset;
}

static void place_shared(const struct ptx_warp *w, struct places *p, unsigned lane) {
  p->at[lane] = (char *)w->block->shared + p->addresses[lane];
  p->shared |= 1u << lane;
}

static void place_global(struct places *p, unsigned lane) {
  p->at[lane] = (char *)(uintptr_t)p->addresses[lane];
  p->global |= 1u << lane;
}

/* True if all lanes may access one memory, at good addresses. */
static bool place_all(struct ptx_warp *w, const struct ptx_ins *i, struct places *p) {
  const struct ptx_machine *m = w->block->machine;
  uint64_t least = UINT64_MAX, most = 0, any = 0, bytes = (unsigned)i->bytes * i->vector;
  PTX_EACH(lane, w->mask) {
    uint64_t address = p->addresses[lane];
    least = address < least ? address : least;
    most = address > most ? address : most;
    any |= address;
  }
  if (any % bytes) /* a power of two */
    return false;
  if (i->space == PTX_SHARED) {
    if (most >= m->shared || bytes > m->shared - most)
      return false;
    PTX_EACH(lane, w->mask) place_shared(w, p, lane);
    return true;
  }
  if ((i->space == PTX_GENERIC && most >= PTX_SHARED_BASE) ||
      !ptx_find_range(w->block->machine, least, most - least + bytes))
    return false;
  PTX_EACH(lane, w->mask) place_global(p, lane);
  return true;
}

/* One lane's access, or a finding. */
static void place(struct ptx_warp *w, const struct ptx_ins *i, struct places *p, unsigned lane) {
  struct ptx_machine *m = w->block->machine;
  uint64_t *address = &p->addresses[lane];
  unsigned bytes = (unsigned)i->bytes * i->vector;
  bool shared = i->space == PTX_SHARED || (i->space == PTX_GENERIC && *address >= PTX_SHARED_BASE);
  if (shared && i->space != PTX_SHARED)
    *address -= PTX_SHARED_BASE;
  if (*address % bytes)
    ptx_finding(w, i, lane, "an access of %u bytes at the misaligned address %#llx", bytes,
                (unsigned long long)*address);
  else if (shared && (*address >= m->shared || bytes > m->shared - *address))
    ptx_finding(w, i, lane, "an access beyond the %u bytes of shared memory: at %llu", m->shared,
                (unsigned long long)*address);
  else if (shared)
    place_shared(w, p, lane);
  else if (ptx_find_range(m, *address, bytes))
    place_global(p, lane);
  else
    ptx_finding(w, i, lane, "an access of %u bytes outside of the kernel's memory: at %#llx", bytes,
                (unsigned long long)*address);
}

/* -- moving data: with constant sizes, as much of the interpreter's time goes here --------------------------------- */
static inline __attribute__((always_inline)) void load_row(struct ptx_warp *w, struct ptx_operand to, char *const *at,
                                                           uint32_t lanes, unsigned bytes, bool is_signed) {
  void *row = ptx_row(w, to);
  uint32_t kept = to.bits == 16 ? UINT16_MAX : UINT32_MAX;
  if (to.bits == 64)
    PTX_EACH(lane, lanes)((row64 *)row)[lane] = read_bytes(at[lane], bytes, is_signed);
  else
    PTX_EACH(lane, lanes)((row32 *)row)[lane] = (uint32_t)read_bytes(at[lane], bytes, is_signed) & kept;
}

static void load(struct ptx_warp *w, const struct ptx_ins *i, char *const *at, uint32_t lanes) {
  char *next[LANES];
  for (unsigned k = 0; k < i->vector; k++) {
    PTX_EACH(lane, lanes) next[lane] = at[lane] + k * i->bytes;
    switch (i->bytes) {
    case 1: load_row(w, i->to[k], next, lanes, 1, i->is_signed); break;
    case 2: load_row(w, i->to[k], next, lanes, 2, i->is_signed); break;
    case 4: load_row(w, i->to[k], next, lanes, 4, i->is_signed); break;
    default: load_row(w, i->to[k], next, lanes, 8, i->is_signed);
    }
  }
}

static inline __attribute__((always_inline)) void store_row(const struct ptx_warp *w, struct ptx_operand from,
                                                            char *const *at, uint32_t lanes, unsigned bytes) {
  const void *row = ptx_row(w, from);
  if (from.bits == 64)
    PTX_EACH(lane, lanes) write_bytes(at[lane], ((const row64 *)row)[lane], bytes);
  else
    PTX_EACH(lane, lanes) write_bytes(at[lane], ((const row32 *)row)[lane], bytes);
}

static void store(struct ptx_warp *w, const struct ptx_ins *i, char *const *at, uint32_t lanes) {
  char *next[LANES];
  for (unsigned k = 0; k < i->vector; k++) {
    PTX_EACH(lane, lanes) next[lane] = at[lane] + k * i->bytes;
    switch (i->bytes) {
    case 1: store_row(w, i->from[1 + k], next, lanes, 1); break;
    case 2: store_row(w, i->from[1 + k], next, lanes, 2); break;
    case 4: store_row(w, i->from[1 + k], next, lanes, 4); break;
    default: store_row(w, i->from[1 + k], next, lanes, 8);
    }
  }
  w->block->machine->idle = 0;
}

static void change(struct ptx_warp *w, const struct ptx_ins *i, unsigned lane, void *at) {
  uint64_t old = read_bytes(at, i->bytes, i->is_signed), other = 0, by = ptx_get(w, i->from[1], lane);
  by = read_bytes(&by, i->bytes, i->is_signed);
  if (i->sources > 2)
    other = ptx_get(w, i->from[2], lane);
  uint64_t value = changed(i, old, by, other);
  write_bytes(at, value, i->bytes);
  if (memcmp(&value, &old, i->bytes) != 0)
    w->block->machine->idle = 0;
  if (i->targets)
    ptx_put(w, i->to[0], lane, old);
}

/* Undefined values may be kept in shared memory; in global memory others would see them. */
static void check_stored(struct ptx_warp *w, const struct ptx_ins *i, const struct places *p) {
  for (unsigned k = 1; k < i->sources; k++) {
    uint32_t undefined = ~ptx_defined(w, i->from[k]);
    PTX_EACH(lane, undefined & p->shared) ptx_races_undefined(w, i, p->at[lane]);
    PTX_EACH(lane, undefined & p->global)
    ptx_finding(w, i, lane, "an undefined value is written to global memory");
  }
}

void ptx_access(struct ptx_warp *w, const struct ptx_ins *i) {
  struct places p;
  p.shared = p.global = 0;
  ptx_check_defined(w, i, i->from[0], "the address");
  take_addresses(w, i, &p);
  if (!place_all(w, i, &p))
    PTX_EACH(lane, w->mask) place(w, i, &p, lane);
  uint32_t lanes = p.shared | p.global, undefined = 0;
  if (p.shared)
    undefined = ptx_races_access(w, i, p.at, p.shared, true);
  if (p.global)
    ptx_races_access(w, i, p.at, p.global, false);
  if (i->op == PTX_LOAD)
    load(w, i, p.at, lanes);
  else if (i->op == PTX_STORE)
    store(w, i, p.at, lanes);
  else
    PTX_EACH(lane, lanes) change(w, i, lane, p.at[lane]);
  if (i->op != PTX_LOAD)
    check_stored(w, i, &p);
  for (unsigned k = 0; k < i->targets; k++)
    ptx_define(w, i->to[k], ~undefined);
  ptx_count_access(w, i, p.at, p.shared, p.global);
}

void ptx_read_parameter(struct ptx_warp *w, const struct ptx_ins *i) {
  const struct ptx_machine *m = w->block->machine;
  uint32_t lanes = 0;
  char *at[LANES];
  PTX_EACH(lane, w->mask) {
    uint64_t from = (i->sources ? ptx_get(w, i->from[0], lane) : 0) + (uint64_t)i->offset;
    unsigned bytes = (unsigned)i->bytes * i->vector;
    if (from > m->function->parameter_bytes || bytes > m->function->parameter_bytes - from) {
      ptx_finding(w, i, lane, "an access beyond the parameters: at %llu", (unsigned long long)from);
      continue;
    }
    at[lane] = (char *)m->parameters + from;
    lanes |= 1u << lane;
  }
  load(w, i, at, lanes);
  for (unsigned k = 0; k < i->targets; k++)
    ptx_define(w, i->to[k], UINT32_MAX);
}
