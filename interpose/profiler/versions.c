/* SPDX-License-Identifier: BSD-3-Clause
 * The tables that NCCL looks for, of all six versions of its profiler interface.
 *
 *   version    NCCL of                  of use here
 *   1          2.23                     operations, transfers; functions are numbers
 *   2          2.24, 2.25               functions are texts
 *   3          2.26                     kernels, as the proxy thread sees them
 *   4          2.27                     kernels with the GPU's times; bytes with steps, no longer with transfers
 *   5, 6       2.28; from 2.29 on       more kinds of events, in front of and beside ours
 *
 * NCCL takes the highest version that it knows. The offsets below are those of ext-profiler's headers in NCCL 2.23.4,
 * 2.24.3, 2.26.2, 2.27.3, 2.28.9 and 2.30.7; the parts of a descriptor that are not read here are left out.
 */
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "interpose/nccl/nccl_newer.h"
#include "interpose/profiler/events.h"
#include "interpose/profiler/versions.h"

/* Kinds of events: bits of the activation mask, and the type of an event. */
enum {
  EVENT_GROUP = 1 << 0,
  EVENT_COLL = 1 << 1,
  EVENT_P2P = 1 << 2,
  EVENT_PROXY_OP = 1 << 3,
  EVENT_PROXY_STEP = 1 << 4,
  EVENT_KERNEL_CH = 1 << 6
};

/* States of transfers and steps. */
enum {
  STATE_SEND_DONE = 3, /* of a transfer, as are all smaller ones */
  STATE_RECV_DONE = 7,
  STATE_SEND_GPU_WAIT = 8,
  STATE_SEND_WAIT = 9,
  STATE_RECV_WAIT = 10,
  STATE_RECV_FLUSH_WAIT = 11,
  STATE_RECV_GPU_WAIT = 12,
  STATE_SEND_PEER_WAIT = 20,
  STATE_KERNEL_STOP = 22
};

/* Where the fields of a descriptor are, in bytes from its begin; 0: it has none. */
struct descriptor_layout {
  uint8_t type_size;
  bool function_is_text;
  uint8_t coll_function, coll_send, coll_recv, coll_channels;
  uint8_t p2p_function, p2p_buffer, p2p_channels;
  uint8_t kernel_time;
};

static const struct descriptor_layout layout_1 = {1, false, 48, 56, 64, 104, 40, 48, 0, 0};
static const struct descriptor_layout layout_2 = {1, true, 48, 56, 64, 104, 40, 48, 0, 0};
static const struct descriptor_layout layout_3 = {1, true, 48, 56, 64, 96, 40, 48, 0, 0};
static const struct descriptor_layout layout_4 = {1, true, 32, 40, 48, 80, 24, 32, 60, 32};
static const struct descriptor_layout layout_5 = {8, true, 32, 40, 48, 80, 24, 32, 60, 32};
enum { AT_PARENT = 8, AT_PROXY_PID = 24, AT_PROXY_IS_SEND = 44 }; /* in all of them */

static uint64_t read_field(const void *descriptor, size_t offset, size_t size) {
  const uint8_t *at = (const uint8_t *)descriptor + offset;
  uint8_t byte;
  uint64_t eight;
  memcpy(&byte, at, sizeof byte);
  if (size == sizeof byte)
    return byte;
  memcpy(&eight, at, sizeof eight);
  return eight;
}

static void *read_pointer(const void *descriptor, size_t offset) {
  void *pointer;
  memcpy(&pointer, (const uint8_t *)descriptor + offset, sizeof pointer);
  return pointer;
}

static int read_int(const void *descriptor, size_t offset) {
  int number;
  memcpy(&number, (const uint8_t *)descriptor + offset, sizeof number);
  return number;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static const char *function_of(const void *descriptor, size_t offset, const struct descriptor_layout *layout) {
  static const char *const numbered[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                         "AllReduce", NULL,     "Send",      "Recv"};
  if (layout->function_is_text)
    return read_pointer(descriptor, offset);
  const uint64_t number = read_field(descriptor, offset, 1);
  return number < sizeof numbered / sizeof *numbered ? numbered[number] : NULL;
}

static void *start_coll(void *context, const void *descriptor, const struct descriptor_layout *layout) {
  return tagc_profiler_launch(context, &(struct tagc_profiler_operation){
                                         .function = function_of(descriptor, layout->coll_function, layout),
                                         .send = read_pointer(descriptor, layout->coll_send),
                                         .recv = read_pointer(descriptor, layout->coll_recv),
                                         .channels = (unsigned)read_field(descriptor, layout->coll_channels, 1),
                                       });
}

static void *start_p2p(void *context, const void *descriptor, const struct descriptor_layout *layout) {
  const char *function = function_of(descriptor, layout->p2p_function, layout);
  const void *buffer = read_pointer(descriptor, layout->p2p_buffer);
  const bool sends = function && strcmp(function, "Send") == 0;
  return tagc_profiler_launch(
    context, &(struct tagc_profiler_operation){
               .function = function,
               .send = sends ? buffer : NULL,
               .recv = sends ? NULL : buffer,
               .channels = layout->p2p_channels ? (unsigned)read_field(descriptor, layout->p2p_channels, 1) : 0,
             });
}

/* With PXN a proxy sends for a rank of another process, whose handles mean nothing here. */
static void *start_proxy_op(const void *descriptor) {
  if (read_int(descriptor, AT_PROXY_PID) != (int)getpid())
    return NULL;
  return tagc_profiler_transfer(read_pointer(descriptor, AT_PARENT), read_int(descriptor, AT_PROXY_IS_SEND) != 0);
}

static ncclResult_t start_event(void *context, void **handle, const void *descriptor,
                                const struct descriptor_layout *layout) {
  if (!handle || !descriptor)
    return ncclSuccess;
  void *const parent = read_pointer(descriptor, AT_PARENT);
  switch (read_field(descriptor, 0, layout->type_size)) {
  case EVENT_COLL: *handle = start_coll(context, descriptor, layout); break;
  case EVENT_P2P: *handle = start_p2p(context, descriptor, layout); break;
  case EVENT_PROXY_OP: *handle = start_proxy_op(descriptor); break;
  case EVENT_PROXY_STEP: *handle = tagc_profiler_step(parent); break;
  case EVENT_KERNEL_CH:
    *handle = tagc_profiler_kernel(parent, layout->kernel_time ? read_field(descriptor, layout->kernel_time, 8) : 0);
    break;
  default: *handle = tagc_profiler_other(); /* NCCL shows no operations of groups without a handle */
  }
  return ncclSuccess;
}

static ncclResult_t start_event_1(void *context, void **handle, const void *descriptor) {
  return start_event(context, handle, descriptor, &layout_1);
}
static ncclResult_t start_event_2(void *context, void **handle, const void *descriptor) {
  return start_event(context, handle, descriptor, &layout_2);
}
static ncclResult_t start_event_3(void *context, void **handle, const void *descriptor) {
  return start_event(context, handle, descriptor, &layout_3);
}
static ncclResult_t start_event_4(void *context, void **handle, const void *descriptor) {
  return start_event(context, handle, descriptor, &layout_4);
}
static ncclResult_t start_event_5(void *context, void **handle, const void *descriptor) {
  return start_event(context, handle, descriptor, &layout_5);
}

static ncclResult_t stop_event(void *handle) {
  tagc_profiler_stop(handle);
  return ncclSuccess;
}

/* A send has its bytes when it is under way, a receive when it has arrived: before, NCCL passes those of another step.
 */
static bool state_has_bytes(int state) { return state == STATE_SEND_WAIT || state == STATE_RECV_FLUSH_WAIT; }

static void record_wait(void *handle, int state) {
  switch (state) {
  case STATE_SEND_GPU_WAIT:
  case STATE_RECV_FLUSH_WAIT: /* the data go on to the GPU */
  case STATE_RECV_GPU_WAIT: tagc_profiler_step_waits(handle, TAGC_PROFILER_GPU); break;
  case STATE_SEND_PEER_WAIT: tagc_profiler_step_waits(handle, TAGC_PROFILER_PEER); break;
  case STATE_SEND_WAIT:
  case STATE_RECV_WAIT: tagc_profiler_step_waits(handle, TAGC_PROFILER_NETWORK); break;
  default: break;
  }
}

/* `arguments` begin with a number of 64 bits in every version: bytes of a transfer or of a step, or the GPU's time. */
static ncclResult_t record_state_1(void *handle, int state, const void *arguments) {
  if (state >= 0 && state <= STATE_RECV_DONE && arguments)
    tagc_profiler_moves(handle, read_field(arguments, 0, 8)); /* of the transfer, so far */
  record_wait(handle, state);
  return ncclSuccess;
}

static ncclResult_t record_state_4(void *handle, int state, const void *arguments) {
  if (state == STATE_KERNEL_STOP && arguments)
    tagc_profiler_kernel_ends(handle, read_field(arguments, 0, 8));
  if (state_has_bytes(state) && arguments)
    tagc_profiler_moves(handle, read_field(arguments, 0, 8));
  record_wait(handle, state);
  return ncclSuccess;
}

/* ---- communicators ----------------------------------------------------------------------------------------------- */

/* NCCL releases up to 2.26 crash after an `init` that fails. So one that does not want events succeeds, too. */
static ncclResult_t begin_context(void **context, int *mask, int events) {
  void *made = context && mask && tagc_profiler_on() ? tagc_profiler_begin() : NULL;
  if (context)
    *context = made;
  if (mask && tagc_profiler_on())
    *mask = EVENT_COLL | EVENT_P2P | EVENT_PROXY_OP | EVENT_PROXY_STEP | events;
  return ncclSuccess;
}

static ncclResult_t init_1(void **context, int *mask) { return begin_context(context, mask, 0); }
static ncclResult_t init_3(void **context, int *mask) { return begin_context(context, mask, EVENT_KERNEL_CH); }

static ncclResult_t init_4(void **context, int *mask, const char *name, uint64_t id, int nodes, int nranks, int rank,
                           void *log) {
  (void)name, (void)id, (void)nodes, (void)nranks, (void)rank, (void)log;
  return begin_context(context, mask, EVENT_KERNEL_CH);
}

static ncclResult_t init_5(void **context, uint64_t id, int *mask, const char *name, int nodes, int nranks, int rank,
                           void *log) {
  (void)id, (void)name, (void)nodes, (void)nranks, (void)rank, (void)log;
  return begin_context(context, mask, EVENT_KERNEL_CH);
}

static ncclResult_t finalize(void *context) {
  tagc_profiler_end(context);
  return ncclSuccess;
}

#define TABLE(version, begin, start, record) \
  __attribute__((visibility("default"))) const struct tagc_profiler_table ncclProfiler_v##version = { \
    "tagc", (void (*)(void))(begin), start, stop_event, record, finalize}
TABLE(1, init_1, start_event_1, record_state_1);
TABLE(2, init_1, start_event_2, record_state_1);
TABLE(3, init_3, start_event_3, record_state_1);
TABLE(4, init_4, start_event_4, record_state_4);
TABLE(5, init_5, start_event_5, record_state_4);
TABLE(6, init_5, start_event_5, record_state_4);
