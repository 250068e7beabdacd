/* SPDX-License-Identifier: BSD-3-Clause
 * Accesses to memory, lane by lane, and to the parameters of the kernel. An access outside of the kernel's memory, or
 * at an address that its size does not divide, is a finding, and does not happen.
 */
#include "tests/standin/cuda/ptx/ptx.h"

#include <string.h>

static void *find_memory(struct ptx_machine *m, uint64_t address, unsigned bytes) {
  for (unsigned tries = 0; tries <= m->count; tries++) {
    const struct ptx_range *r = &m->ranges[tries ? tries - 1 : m->last];
    if (m->count && address - r->begin < r->size && bytes <= r->size - (address - r->begin)) {
      m->last = (unsigned)(r - m->ranges);
      return (void *)(uintptr_t)address;
    }
  }
  return NULL;
}

/* With constant sizes, as most of the interpreter's time goes here. */
static uint64_t read_bytes(const void *from, unsigned bytes, bool is_signed) {
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

static void write_bytes(void *to, uint64_t value, unsigned bytes) {
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

/* Where the lane's access goes; NULL: nowhere. */
static void *place(struct ptx_warp *w, const struct ptx_ins *i, unsigned lane) {
  struct ptx_machine *m = w->block->machine;
  uint64_t address = ptx_get(w, i->from[0], lane) + (uint64_t)i->offset;
  unsigned bytes = (unsigned)i->bytes * i->vector;
  bool shared = i->space == PTX_SHARED || (i->space == PTX_GENERIC && address >= PTX_SHARED_BASE);
  if (i->space == PTX_SHARED)
    address = (uint32_t)address;
  else if (shared)
    address -= PTX_SHARED_BASE;
  if (address % bytes) {
    ptx_finding(w, i, lane, "an access of %u bytes at the misaligned address %#llx", bytes,
                (unsigned long long)address);
    return NULL;
  }
  if (shared) {
    if (address >= m->shared || bytes > m->shared - address) {
      ptx_finding(w, i, lane, "an access beyond the %u bytes of shared memory: at %llu", m->shared,
                  (unsigned long long)address);
      return NULL;
    }
    return w->block->shared + address;
  }
  void *memory = find_memory(m, address, bytes);
  if (!memory)
    ptx_finding(w, i, lane, "an access of %u bytes outside of the kernel's memory: at %#llx", bytes,
                (unsigned long long)address);
  return memory;
}

static void load(struct ptx_warp *w, const struct ptx_ins *i, unsigned lane, const char *at) {
  for (unsigned k = 0; k < i->vector; k++)
    ptx_put(w, i->to[k], lane, read_bytes(at + k * i->bytes, i->bytes, i->is_signed));
}

static void store(struct ptx_warp *w, const struct ptx_ins *i, unsigned lane, char *at) {
  for (unsigned k = 0; k < i->vector; k++)
    write_bytes(at + k * i->bytes, ptx_get(w, i->from[1 + k], lane), i->bytes);
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
static void check_stored(struct ptx_warp *w, const struct ptx_ins *i, unsigned lane, const void *at) {
  const struct ptx_block *b = w->block;
  for (unsigned k = 1; k < i->sources; k++)
    if (!(ptx_defined(w, i->from[k]) >> lane & 1)) {
      if ((uintptr_t)at - (uintptr_t)b->shared < b->machine->shared)
        ptx_races_undefined(w, i, at);
      else
        ptx_finding(w, i, lane, "an undefined value is written to global memory");
    }
}

void ptx_access(struct ptx_warp *w, const struct ptx_ins *i) {
  uint32_t defined = UINT32_MAX, shared = 0, global = 0;
  uint64_t addresses[LANES];
  const struct ptx_block *b = w->block;
  ptx_check_defined(w, i, i->from[0], "the address");
  PTX_EACH(lane, w->mask) {
    void *at = place(w, i, lane);
    if (!at)
      continue;
    bool is_shared = (uintptr_t)at - (uintptr_t)b->shared < b->machine->shared;
    addresses[lane] = (uintptr_t)at - (is_shared ? (uintptr_t)b->shared : 0);
    *(is_shared ? &shared : &global) |= 1u << lane;
    if (!ptx_races_access(w, i, lane, at))
      defined &= ~(1u << lane);
    if (i->op == PTX_LOAD)
      load(w, i, lane, at);
    else if (i->op == PTX_STORE)
      store(w, i, lane, at);
    else
      change(w, i, lane, at);
    if (i->op != PTX_LOAD)
      check_stored(w, i, lane, at);
  }
  for (unsigned k = 0; k < i->targets; k++)
    ptx_define(w, i->to[k], defined);
  ptx_count_access(w, i, addresses, shared, global);
}

void ptx_read_parameter(struct ptx_warp *w, const struct ptx_ins *i) {
  const struct ptx_machine *m = w->block->machine;
  PTX_EACH(lane, w->mask) {
    uint64_t at = (i->sources ? ptx_get(w, i->from[0], lane) : 0) + (uint64_t)i->offset;
    unsigned bytes = (unsigned)i->bytes * i->vector;
    if (at > m->function->parameter_bytes || bytes > m->function->parameter_bytes - at)
      ptx_finding(w, i, lane, "an access beyond the parameters: at %llu", (unsigned long long)at);
    else
      load(w, i, lane, (const char *)m->parameters + at);
  }
  for (unsigned k = 0; k < i->targets; k++)
    ptx_define(w, i->to[k], UINT32_MAX);
}
