/* SPDX-License-Identifier: BSD-3-Clause
 * User-defined reductions. NCCL has one kind: a sum in which every rank multiplies its own part by a scalar of its own.
 * Handles are per communicator and are recycled, so an entry lives from its creation to its destruction.
 */
#include <stdlib.h>
#include <string.h>

#include "interpose/comm/comm.h"
#include "kernels/codec/bits.h"

#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(element) ((element)->unhashed = true)
#include <uthash.h>

struct user_op {
  struct key {
    ncclComm_t handle;
    int64_t op;
  } key;
  ncclDataType_t type;
  const void *device_scalar; /* read when the call is made; NULL: `scalar` holds it */
  float scalar;
  bool unhashed;
  UT_hash_handle hh;
};

static struct user_op *table;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static float scalar_value(const void *scalar, ncclDataType_t type) {
  switch (type) {
  case ncclFloat32: return tagc_load(scalar, 0, TAGC_FLOAT32);
  case ncclFloat16: return tagc_load(scalar, 0, TAGC_FLOAT16);
  case ncclBfloat16: return tagc_load(scalar, 0, TAGC_BFLOAT16);
  default: return 1; /* other types are never compressed */
  }
}

static struct user_op *find_op(ncclRedOp_t op, ncclComm_t handle) {
  struct key key;
  struct user_op *entry;
  memset(&key, 0, sizeof key);
  key.handle = handle;
  key.op = (int64_t)op;
  HASH_FIND(hh, table, &key, sizeof key, entry);
  return entry;
}

void tagc_op_destroyed(ncclRedOp_t op, ncclComm_t handle) {
  pthread_rwlock_wrlock(&lock);
  struct user_op *entry = find_op(op, handle);
  if (entry) {
    HASH_DEL(table, entry);
    free(entry);
  }
  pthread_rwlock_unlock(&lock);
}

void tagc_op_forget(ncclComm_t handle) {
  struct user_op *entry, *next;
  pthread_rwlock_wrlock(&lock);
  HASH_ITER (hh, table, entry, next)
    if (entry->key.handle == handle) {
      HASH_DEL(table, entry);
      free(entry);
    }
  pthread_rwlock_unlock(&lock);
}

bool tagc_op_created(ncclRedOp_t op, ncclComm_t handle, ncclDataType_t type, const void *scalar,
                     ncclScalarResidence_t where) {
  tagc_op_destroyed(op, handle);
  struct user_op *entry = calloc(1, sizeof *entry);
  if (!entry)
    return false;
  entry->key.handle = handle;
  entry->key.op = (int64_t)op;
  entry->type = type;
  if (where == ncclScalarDevice)
    entry->device_scalar = scalar;
  else
    entry->scalar = scalar_value(scalar, type);
  pthread_rwlock_wrlock(&lock);
  HASH_ADD(hh, table, key, sizeof entry->key, entry);
  pthread_rwlock_unlock(&lock);
  if (!entry->unhashed)
    return true;
  free(entry);
  return false;
}

enum tagc_op tagc_op_kind(ncclRedOp_t op, ncclComm_t handle, ncclDataType_t type, bool host_reads, float *scale,
                          bool *hidden) {
  *scale = 1;
  *hidden = false;
  if (op == ncclSum)
    return TAGC_OP_SUM;
  if (op == ncclAvg)
    return TAGC_OP_AVG;
  if ((int)op < (int)ncclNumOps)
    return TAGC_OP_OTHER;
  enum tagc_op kind = TAGC_OP_OTHER;
  pthread_rwlock_rdlock(&lock);
  const struct user_op *entry = find_op(op, handle);
  if (entry && entry->type == type) {
    if (!entry->device_scalar)
      *scale = entry->scalar;
    else if (host_reads)
      *scale = scalar_value(entry->device_scalar, type);
    else
      *hidden = true;
    kind = TAGC_OP_PREMULSUM;
  }
  pthread_rwlock_unlock(&lock);
  return kind;
}
