/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/exec/dump.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "env/files.h"
#include "env/log.h"
#include "env/signals.h"
#include "interpose/comm/comm.h"
#include "interpose/nccl/process.h"

enum { PIECE = 4 << 20 };

/* Warns once in a process: a full disk is full for all later files, too. */
static void warn(const char *path, const char *why) {
  static atomic_bool warned;
  if (!atomic_exchange(&warned, true))
    tagc_log(TAGC_LOG_WARN, "interpose", "TAGC_DUMP: %s: %s; left out, and so are later files that fail", path, why);
}

/* Writes memory that the host cannot read, in pieces, and waits for each. */
static int write_from_device(int file, struct tagc_comm *comm, const char *data, size_t size, void *stream) {
  const size_t most = size < PIECE ? size : PIECE;
  char *piece = malloc(most);
  int error = piece ? 0 : ENOMEM;
  for (size_t at = 0; at < size && !error; at += most) {
    const size_t bytes = size - at < most ? size - at : most;
    bool good = tagc_comms_enter_driver(&comm, 1) && comm->device->get(comm->device, piece, data + at, bytes, stream);
    good = tagc_comms_leave_driver(&comm, 1) && good;
    error = good ? tagc_write_all(file, piece, bytes) : EIO;
  }
  free(piece);
  return error;
}

/* Writes a new file with the gradient, or leaves none. */
static void write_file(const char *path, const struct tagc_call *call, size_t size) {
  struct tagc_comm *comm = call->comm;
  struct tagc_held_signals held;
  int file = tagc_file_create(path);
  if (file < 0) {
    warn(path, strerror(errno));
    return;
  }
  tagc_signals_hold(&held);
  int error = comm->device->host_reads ? tagc_write_all(file, call->send, size)
                                       : write_from_device(file, comm, call->send, size, call->stream);
  if (close(file) != 0 && error == 0 && errno != EINTR)
    error = errno; /* some file systems detect a full disk only here */
  tagc_signals_release(&held, error);
  if (error == 0)
    return;
  unlink(path);
  warn(path, strerror(error));
}

static const char *type_name(enum tagc_dtype type) {
  return type == TAGC_FLOAT32 ? "fp32" : type == TAGC_FLOAT16 ? "fp16" : "bf16";
}

/* Should the call be dumped? Then sets `path`, and *bytes to the size. */
static bool is_dumped(const struct tagc_call *call, char *path, size_t size, size_t *bytes) {
  const struct tagc_options *o = tagc_library_options();
  const struct tagc_comm *comm = call->comm;
  const uint64_t cycle = o->dump_cycle ? o->dump_cycle : tagc_plan_first_cycle(o, tagc_comm_first_vote(comm));
  size_t count;
  const struct tagc_slot_info *slots = tagc_cycle_slots(comm->observed.cycle, &count);
  if (call->slot < 0 || (size_t)call->slot >= count || call->cycle != cycle ||
      call->lock_number != comm->observed.lock_number)
    return false;
  const struct tagc_slot_info *slot = &slots[call->slot];
  const struct tagc_shape *shape = &comm->slots[call->slot].packed;
  *bytes = call->count * (size_t)comm->nranks * tagc_dtype_size(shape->dtype);
  if (shape->n == 0 || comm->slots[call->slot].all_reduce || *bytes < o->min_bytes ||
      !tagc_plan_is_selected(o, slot, comm->slots[call->slot].selected.layer_known,
                             comm->slots[call->slot].selected.selection))
    return false;
  char lock[32] = "", pass[24] = "";
  if (comm->observed.lock_number > 1)
    snprintf(lock, sizeof lock, "-lock%llu", (unsigned long long)comm->observed.lock_number);
  if (slot->pass)
    snprintf(pass, sizeof pass, "-pass%u", slot->pass + 1);
  if (!tagc_file_name(path, size, o->dump, "-comm%llu%s%s-rank%d-%s-%s-W%d-n%llu.raw",
                      (unsigned long long)comm->ledger->number, lock, pass, comm->rank, slot->name,
                      type_name(shape->dtype), comm->nranks, (unsigned long long)call->count)) {
    warn(o->dump, strerror(errno));
    return false;
  }
  return true;
}

static bool find_path(const struct tagc_call *call, char *path, size_t size, size_t *bytes) {
  struct tagc_comm *comm = call->comm;
  pthread_mutex_lock(&comm->lock);
  const bool wanted = is_dumped(call, path, size, bytes);
  pthread_mutex_unlock(&comm->lock);
  if (wanted && !comm->device)
    warn(path, "the memory of this GPU cannot be read");
  return wanted && comm->device;
}

static void write_call(const struct tagc_call *call) {
  struct tagc_comm *comm = call->comm;
  char path[PATH_MAX];
  size_t bytes;
  if (!find_path(call, path, sizeof path, &bytes) || !tagc_comms_enter(&comm, 1))
    return; /* after an abort the program may free its buffers */
  write_file(path, call, bytes);
  tagc_comms_leave(&comm, 1);
}

bool tagc_dump_waits(const struct tagc_call *call) {
  char path[PATH_MAX];
  size_t bytes;
  return *tagc_library_options()->dump && find_path(call, path, sizeof path, &bytes) && !call->comm->device->host_reads;
}

void tagc_dump_call(const struct tagc_call *call) {
  if (!*tagc_library_options()->dump)
    return;
  const int saved = errno;
  write_call(call);
  errno = saved;
}
