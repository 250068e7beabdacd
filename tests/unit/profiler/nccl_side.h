/* SPDX-License-Identifier: BSD-3-Clause
 * NCCL's side of its profiler interface: events as NCCL shows them to a plugin, in any of the six versions.
 *
 * Descriptors are bytes at the offsets that a compiler gives for the structs of ext-profiler's headers, written down
 * here once more: the plugin's own table is what they test.
 */
#ifndef TESTS_UNIT_PROFILER_NCCL_SIDE_H
#define TESTS_UNIT_PROFILER_NCCL_SIDE_H

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "interpose/profiler/versions.h"

enum { VERSIONS = 6 };
enum {
  GROUP = 1,
  COLL = 2,
  P2P = 4,
  PROXY_OP = 8,
  PROXY_STEP = 16,
  PROXY_CTRL = 32,
  KERNEL_CH = 64,
  NET_PLUGIN = 128,
  GROUP_API = 256,
  COLL_API = 512
};
enum {
  SEND_TRANSMITTED = 2,
  SEND_DONE = 3,
  RECV_DONE = 7,
  SEND_GPU_WAIT = 8,
  SEND_WAIT = 9,
  RECV_WAIT = 10,
  RECV_FLUSH_WAIT = 11,
  RECV_GPU_WAIT = 12,
  SEND_PEER_WAIT = 20,
  KERNEL_STOP = 22
};

static int version = VERSIONS; /* of the interface */

static const struct tagc_profiler_table *plugin(void) {
  const struct tagc_profiler_table *const tables[] = {&ncclProfiler_v1, &ncclProfiler_v2, &ncclProfiler_v3,
                                                      &ncclProfiler_v4, &ncclProfiler_v5, &ncclProfiler_v6};
  return tables[version - 1];
}

typedef ncclResult_t init_of_1(void **, int *);
typedef ncclResult_t init_of_4(void **, int *, const char *, uint64_t, int, int, int, void *);
typedef ncclResult_t init_of_5(void **, uint64_t, int *, const char *, int, int, int, void *);

static ncclResult_t init(void **context, int *mask) {
  void (*const function)(void) = plugin()->init;
  if (version <= 3)
    return ((init_of_1 *)function)(context, mask);
  if (version == 4)
    return ((init_of_4 *)function)(context, mask, "name", 0x1234, 2, 4, 1, NULL);
  return ((init_of_5 *)function)(context, 0x1234, mask, "name", 2, 4, 1, NULL);
}

struct descriptor {
  unsigned char bytes[128];
};

static void put_bytes(struct descriptor *d, size_t offset, const void *value, size_t size) {
  memcpy(d->bytes + offset, value, size);
}

/* The bytes that an event does not have are garbage. */
static struct descriptor describe(uint64_t type, const void *parent) {
  struct descriptor d;
  memset(&d, 0xa5, sizeof d);
  put_bytes(&d, 0, &type, version <= 4 ? 1 : 8);
  put_bytes(&d, 8, &parent, sizeof parent);
  return d;
}

static void *start(void *context, struct descriptor *d) {
  void *handle = NULL;
  plugin()->start_event(context, &handle, d);
  return handle;
}

static void *start_other(void *context, uint64_t type) {
  struct descriptor d = describe(type, NULL);
  return start(context, &d);
}

static void put_function(struct descriptor *d, size_t offset, const char *text, uint8_t number) {
  if (version == 1)
    put_bytes(d, offset, &number, 1);
  else
    put_bytes(d, offset, &text, sizeof text);
}

static void *start_all_reduce(void *context, void *group, const void *send, const void *recv, uint8_t channels) {
  struct descriptor d = describe(COLL, group);
  put_function(&d, version <= 3 ? 48 : 32, "AllReduce", 4);
  put_bytes(&d, version <= 3 ? 56 : 40, &send, sizeof send);
  put_bytes(&d, version <= 3 ? 64 : 48, &recv, sizeof recv);
  put_bytes(&d, version <= 2 ? 104 : version == 3 ? 96 : 80, &channels, 1);
  return start(context, &d);
}

static void *start_message(void *context, void *group, const void *buffer, int sends, uint8_t channels) {
  struct descriptor d = describe(P2P, group);
  put_function(&d, version <= 3 ? 40 : 24, sends ? "Send" : "Recv", sends ? 6 : 7);
  put_bytes(&d, version <= 3 ? 48 : 32, &buffer, sizeof buffer);
  if (version >= 4)
    put_bytes(&d, 60, &channels, 1);
  return start(context, &d);
}

static void *start_kernel(void *context, void *operation, uint64_t gpu_ns) {
  struct descriptor d = describe(KERNEL_CH, operation);
  if (version >= 4)
    put_bytes(&d, 32, &gpu_ns, 8);
  return start(context, &d);
}

static void *start_op(void *context, void *operation, int pid, int is_send) {
  struct descriptor d = describe(PROXY_OP, operation);
  put_bytes(&d, 24, &pid, sizeof pid);
  put_bytes(&d, 44, &is_send, sizeof is_send);
  return start(context, &d);
}

static void *start_step(void *context, void *op) {
  struct descriptor d = describe(PROXY_STEP, op);
  return start(context, &d);
}

static void stop(void *handle) { plugin()->stop_event(handle); }

static void record_number(void *handle, int state, uint64_t number) {
  uint64_t arguments[2] = {number, 7};
  plugin()->record_state(handle, state, arguments);
}

static void stop_kernel_at(void *kernel, uint64_t gpu_ns) {
  if (version >= 4)
    record_number(kernel, KERNEL_STOP, gpu_ns);
  stop(kernel);
}

#endif
