/* SPDX-License-Identifier: BSD-3-Clause
 * Operators: the built-in ones, and those that a program creates from a scalar (PreMulSum).
 *
 * A handle is ncclNumOps + (communicator << 16) + slot: every other communicator refuses it. The slot of a destroyed
 * operator is reused first, as in NCCL. Each communicator's slots have their own lock.
 */
#include "tests/standin/standin.h"

#include <stdlib.h>
#include <string.h>

#define SLOT_BITS 16
#define COMM_MASK 0x3fff

static int handle_base(const struct ncclComm *comm) {
  return (int)ncclNumOps + (int)((comm->id & COMM_MASK) << SLOT_BITS);
}

/* The lock is held. NULL: not an operator of this communicator. */
static struct user_op *find(struct ncclComm *comm, int op) {
  int slot = op - handle_base(comm);
  return slot >= 0 && (size_t)slot < comm->ops_capacity && comm->ops[slot].used ? &comm->ops[slot] : NULL;
}

/* The lock is held. */
static struct user_op *unused_slot(struct ncclComm *comm) {
  for (size_t i = 0; i < comm->ops_capacity; i++)
    if (!comm->ops[i].used)
      return &comm->ops[i];
  size_t larger = comm->ops_capacity ? 2 * comm->ops_capacity : 4;
  struct user_op *moved = larger <= (size_t)1 << SLOT_BITS ? realloc(comm->ops, larger * sizeof *moved) : NULL;
  if (!moved)
    return NULL;
  struct user_op *first = moved + comm->ops_capacity;
  memset(first, 0, (larger - comm->ops_capacity) * sizeof *moved);
  comm->ops = moved;
  comm->ops_capacity = larger;
  return first;
}

STANDIN_API ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
                                                  ncclScalarResidence_t residence, ncclComm_t comm) {
  if (!op || !scalar)
    return standin_fail(ncclInvalidArgument, "RedOpCreatePreMulSum: op or scalar is NULL");
  size_t size = standin_type_size(datatype);
  if (!size || datatype > ncclBfloat16)
    return standin_fail(ncclInvalidArgument, "RedOpCreatePreMulSum: type %d", (int)datatype);
  if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
    return standin_fail(ncclInvalidArgument, "RedOpCreatePreMulSum: residence %d", (int)residence);
  if (!standin_comm_acquire(comm))
    return standin_fail(ncclInvalidArgument, "RedOpCreatePreMulSum: no such communicator");
  if (atomic_load(&comm->async_error) == ncclInProgress) {
    standin_comm_release(comm);
    return standin_fail(ncclInvalidArgument, "RedOpCreatePreMulSum: a call on it has not succeeded yet");
  }
  standin_stats_begin("ncclRedOpCreatePreMulSum", (int64_t)comm->id, 1, (int)datatype);
  struct reduction reduction = {.kind = REDUCE_SUM, .type = datatype, .scaled = true};
  if (residence == ncclScalarDevice)
    reduction.device_scalar = scalar;
  else
    memcpy(reduction.scalar.bytes, scalar, size);
  pthread_mutex_lock(&comm->ops_lock);
  struct user_op *slot = unused_slot(comm);
  if (slot) {
    *slot = (struct user_op){.used = true, .reduction = reduction};
    *op = (ncclRedOp_t)(handle_base(comm) + (int)(slot - comm->ops));
  }
  pthread_mutex_unlock(&comm->ops_lock);
  standin_comm_release(comm);
  return slot ? ncclSuccess : standin_fail(ncclSystemError, "RedOpCreatePreMulSum: no room for another operator");
}

STANDIN_API ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  if ((int)op >= 0 && (int)op < (int)ncclNumOps)
    return standin_fail(ncclInvalidArgument, "RedOpDestroy: operator %d is built in", (int)op);
  if (!standin_comm_acquire(comm))
    return standin_fail(ncclInvalidArgument, "RedOpDestroy: no such communicator");
  standin_stats_begin("ncclRedOpDestroy", (int64_t)comm->id, 1, -1);
  pthread_mutex_lock(&comm->ops_lock);
  struct user_op *slot = find(comm, (int)op);
  if (slot)
    slot->used = false;
  pthread_mutex_unlock(&comm->ops_lock);
  standin_comm_release(comm);
  return slot ? ncclSuccess
              : standin_fail(ncclInvalidArgument, "RedOpDestroy: operator %d unknown to this communicator", (int)op);
}

/* Floats: every rank multiplies by 1/n, rounded to the type, before the sum. Integers: the sum is divided. */
static void resolve_average(struct ncclComm *comm, struct reduction *reduction) {
  float share = (float)(1.0 / comm->nranks);
  reduction->scaled = true;
  switch (reduction->type) {
  case ncclFloat16: reduction->scalar.half = standin_half_from_float(share); break;
  case ncclBfloat16: reduction->scalar.half = standin_bf16_from_float(share); break;
  case ncclFloat32: reduction->scalar.f32 = share; break;
  case ncclFloat64: reduction->scalar.f64 = 1.0 / comm->nranks; break;
  default: reduction->scaled = false; reduction->divisor = comm->nranks;
  }
}

ncclResult_t standin_op_resolve(struct ncclComm *comm, ncclRedOp_t op, ncclDataType_t type,
                                struct reduction *reduction) {
  *reduction = (struct reduction){.type = type};
  switch ((int)op) {
  case ncclSum: reduction->kind = REDUCE_SUM; return ncclSuccess;
  case ncclProd: reduction->kind = REDUCE_PROD; return ncclSuccess;
  case ncclMax: reduction->kind = REDUCE_MAX; return ncclSuccess;
  case ncclMin: reduction->kind = REDUCE_MIN; return ncclSuccess;
  case ncclAvg: resolve_average(comm, reduction); return ncclSuccess;
  }
  pthread_mutex_lock(&comm->ops_lock);
  struct user_op *slot = find(comm, (int)op);
  if (slot)
    *reduction = slot->reduction;
  pthread_mutex_unlock(&comm->ops_lock);
  if (!slot)
    return standin_fail(ncclInvalidArgument, "reduction operation %d unknown to this communicator", (int)op);
  if (reduction->type != type)
    return standin_fail(ncclInvalidArgument, "the operator was made for type %d, not %d", (int)reduction->type,
                        (int)type);
  return ncclSuccess;
}
