/* SPDX-License-Identifier: BSD-3-Clause
 * The capture of streams into graphs, and their launch. A graph holds its nodes in capture order, and runs in that
 * order on one stream. Events between captured streams decide which streams take part, and whether all were joined at
 * the end. But branches do not run concurrently, and are not checked against each other.
 *
 * As in the driver, the legacy stream's state cannot be queried while a stream that synchronises with it is captured. A
 * call that is forbidden meanwhile invalidates the capture.
 */
#include "tests/standin/cuda/driver.h"

#include <stdlib.h>
#include <string.h>

struct CUgraph_st {
  struct task **nodes;
  size_t count;
};

struct CUgraphExec_st {
  struct CUgraph_st graph;
};

struct capture {
  struct CUgraph_st *graph;
  CUstream origin;
  CUstreamCaptureStatus status;
  CUstreamCaptureMode mode;
  pthread_t thread;
  uint64_t id;
  struct capture *next;
};

static struct capture *captures;
static uint64_t ids;
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

uint64_t standin_capture_id(const struct capture *capture) { return capture->id; }

static void empty(struct CUgraph_st *graph) {
  for (size_t i = 0; i < graph->count; i++)
    standin_task_drop(graph->nodes[i]);
  free(graph->nodes);
}

static void free_graph(struct CUgraph_st *graph) {
  empty(graph);
  free(graph);
}

static CUresult append(struct CUgraph_st *graph, struct task *task) {
  struct task **nodes = realloc(graph->nodes, (graph->count + 1) * sizeof(struct task *));
  if (!nodes)
    return CUDA_ERROR_OUT_OF_MEMORY;
  graph->nodes = nodes;
  nodes[graph->count++] = task;
  return CUDA_SUCCESS;
}

/* -- what happens while streams are captured ----------------------------------------------------------------------- */
CUresult standin_capture_task(CUstream stream, struct task *task) {
  struct capture *c = stream->capture;
  CUresult result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (c->status == CU_STREAM_CAPTURE_STATUS_ACTIVE)
    result = append(c->graph, task);
  if (result != CUDA_SUCCESS)
    standin_task_drop(task);
  else
    stream->captured.at[stream->slot]++;
  return result;
}

static void invalidate(struct capture *c) { c->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED; }

bool standin_blocking_is_captured(CUcontext context) {
  for (CUstream s = standin_streams; s; s = s->next)
    if (s->context == context && s->capture && s->flags != CU_STREAM_NON_BLOCKING)
      return true;
  return false;
}

void standin_invalidate_captures(CUcontext context) {
  for (CUstream s = standin_streams; s; s = s->next)
    if (s->context == context && s->capture && s->flags != CU_STREAM_NON_BLOCKING)
      invalidate(s->capture);
}

CUresult standin_capture_spoiled(CUstream stream) {
  if (stream->capture) {
    invalidate(stream->capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (stream == stream->context->legacy && standin_blocking_is_captured(stream->context)) {
    standin_invalidate_captures(stream->context);
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return CUDA_SUCCESS;
}

CUresult standin_unsafe_call(void) {
  CUresult result = CUDA_SUCCESS;
  for (struct capture *c = captures; c; c = c->next) {
    bool own = pthread_equal(c->thread, pthread_self()) && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    bool other = c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || (!own && !other))
      continue;
    invalidate(c);
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

/* A stream that waits for a captured event takes part from then on. */
CUresult standin_capture_wait(CUstream stream, CUevent event) {
  struct capture *c = captures;
  while (c && c->id != event->capture)
    c = c->next;
  if (!stream->capture) {
    if (!c)
      return CUDA_ERROR_CAPTURED_EVENT; /* that capture is over: there is nothing to wait for */
    stream->capture = c;
    stream->captured = event->captured;
    return CUDA_SUCCESS;
  }
  CUresult result =
    stream->capture->status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (result == CUDA_SUCCESS && c == stream->capture)
    standin_join(&stream->captured, &event->captured);
  else if (result == CUDA_SUCCESS) {
    result = c ? CUDA_ERROR_STREAM_CAPTURE_MERGE : CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    invalidate(stream->capture);
  }
  return result;
}

/* -- begin and end ------------------------------------------------------------------------------------------------- */
CUDA_API CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  CUstream stream;
  if (!handle || handle == CU_STREAM_LEGACY || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  standin_lock();
  CUresult result = standin_stream(handle, &stream);
  if (result == CUDA_SUCCESS && stream->capture)
    result = CUDA_ERROR_ILLEGAL_STATE;
  struct capture *c = result == CUDA_SUCCESS ? calloc(1, sizeof *c) : NULL;
  if (c)
    *c = (struct capture){
      calloc(1, sizeof *c->graph), stream, CU_STREAM_CAPTURE_STATUS_ACTIVE, mode, pthread_self(), ++ids, captures};
  if (result == CUDA_SUCCESS && (!c || !c->graph)) {
    free(c);
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result == CUDA_SUCCESS) {
    captures = stream->capture = c;
    memset(&stream->captured, 0, sizeof stream->captured);
  }
  standin_unlock();
  return result;
}

/* Ends every stream's part in the capture. */
static void finish(struct capture *c) {
  for (CUstream s = standin_streams; s; s = s->next)
    if (s->capture == c)
      s->capture = NULL;
  struct capture **at = &captures;
  while (*at != c)
    at = &(*at)->next;
  *at = c->next;
  free(c);
}

static bool is_joined(const struct capture *c) {
  for (CUstream s = standin_streams; s; s = s->next)
    if (s->capture == c && c->origin->captured.at[s->slot] < s->captured.at[s->slot])
      return false;
  return true;
}

CUDA_API CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
  CUstream stream;
  *graph = NULL;
  standin_lock();
  CUresult result = standin_stream(handle, &stream);
  struct capture *c = result == CUDA_SUCCESS ? stream->capture : NULL;
  if (result == CUDA_SUCCESS && !c)
    result = CUDA_ERROR_ILLEGAL_STATE;
  if (c && c->origin != stream) {
    invalidate(c);
    result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    c = NULL;
  }
  if (c && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(c->thread, pthread_self())) {
    result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    c = NULL;
  }
  if (c) {
    if (c->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
      result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!is_joined(c))
      result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (result == CUDA_SUCCESS)
      *graph = c->graph;
    else
      free_graph(c->graph);
    finish(c);
  }
  standin_unlock();
  return result;
}

void standin_capture_leave(CUstream stream) {
  struct capture *c = stream->capture;
  if (!c)
    return;
  invalidate(c);
  stream->capture = NULL;
  if (c->origin != stream)
    return;
  free_graph(c->graph);
  finish(c);
}

CUDA_API CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  CUstream stream;
  standin_lock();
  CUresult result = standin_stream(handle, &stream);
  if (result == CUDA_SUCCESS && stream == stream->context->legacy && standin_blocking_is_captured(stream->context))
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (result == CUDA_SUCCESS)
    *status = stream->capture ? stream->capture->status : CU_STREAM_CAPTURE_STATUS_NONE;
  standin_unlock();
  return result;
}

CUDA_API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  if (*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  CUstreamCaptureMode before = thread_mode;
  thread_mode = *mode;
  *mode = before;
  return CUDA_SUCCESS;
}

/* -- graphs -------------------------------------------------------------------------------------------------------- */
CUDA_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  if (flags)
    return CUDA_ERROR_INVALID_VALUE;
  standin_lock();
  *exec = calloc(1, sizeof **exec);
  CUresult result = *exec ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  for (size_t i = 0; result == CUDA_SUCCESS && i < graph->count; i++) {
    result = append(&(*exec)->graph, graph->nodes[i]);
    graph->nodes[i]->references += result == CUDA_SUCCESS;
  }
  standin_unlock();
  return result;
}

CUDA_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  CUstream stream;
  standin_lock();
  CUresult result = standin_stream(handle, &stream);
  if (result == CUDA_SUCCESS && stream->capture)
    result = CUDA_ERROR_NOT_SUPPORTED; /* a graph inside another one */
  if (result == CUDA_SUCCESS)
    result = standin_fault(CALL_LAUNCH);
  for (size_t i = 0; result == CUDA_SUCCESS && i < exec->graph.count; i++) {
    exec->graph.nodes[i]->references++;
    result = standin_enqueue(stream, exec->graph.nodes[i]);
  }
  standin_unlock();
  return result;
}

CUDA_API CUresult cuGraphExecDestroy(CUgraphExec exec) {
  standin_lock();
  empty(&exec->graph);
  free(exec);
  standin_unlock();
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuGraphDestroy(CUgraph graph) {
  if (!graph)
    return CUDA_ERROR_INVALID_VALUE;
  standin_lock();
  free_graph(graph);
  standin_unlock();
  return CUDA_SUCCESS;
}
