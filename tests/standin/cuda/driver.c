/* SPDX-License-Identifier: BSD-3-Clause
 * A stand-in for libcuda.so.1, as far as streams and the capture of graphs go: there is no device. Work on a stream is a
 * host function, which runs when it is enqueued, or, while the stream is captured, becomes a node of the graph and runs
 * whenever the graph is launched.
 *
 * As in the driver, the legacy stream cannot be asked for its state while a stream that synchronises with it is captured,
 * and synchronising with a captured stream invalidates the capture. Handles belong to the caller. Streams are used by one
 * thread at a time; the count of captures is anybody's.
 */
#include "tests/standin/cuda/cuda.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CUDA_API __attribute__((visibility("default")))

struct node {
  CUhostFn *function;
  void *data;
};

struct CUgraph_st {
  struct node *nodes;
  size_t count;
};

struct CUgraphExec_st {
  struct CUgraph_st graph;
};

struct CUstream_st {
  unsigned flags;
  CUstreamCaptureStatus capture;
  struct CUgraph_st *graph;         /* under capture */
};

/* Captures of streams that synchronise with the legacy stream. */
static atomic_int legacy_captures;

static void free_graph(struct CUgraph_st *graph)
{
  if (graph)
    free(graph->nodes);
  free(graph);
}

CUDA_API CUresult cuInit(unsigned int flags) { return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }

CUDA_API CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
  *stream = calloc(1, sizeof **stream);
  if (!*stream)
    return CUDA_ERROR_OUT_OF_MEMORY;
  (*stream)->flags = flags;
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuStreamDestroy_v2(CUstream stream)
{
  free_graph(stream->graph);
  free(stream);
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuStreamSynchronize(CUstream stream)
{
  if (!stream || stream->capture == CU_STREAM_CAPTURE_STATUS_NONE)
    return CUDA_SUCCESS;            /* what was enqueued has run */
  stream->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUDA_API CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
  if (!stream || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture != CU_STREAM_CAPTURE_STATUS_NONE)
    return CUDA_ERROR_ILLEGAL_STATE;
  stream->graph = calloc(1, sizeof *stream->graph);
  if (!stream->graph)
    return CUDA_ERROR_OUT_OF_MEMORY;
  stream->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  legacy_captures += stream->flags != CU_STREAM_NON_BLOCKING;
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
  *graph = NULL;
  if (!stream || stream->capture == CU_STREAM_CAPTURE_STATUS_NONE)
    return CUDA_ERROR_ILLEGAL_STATE;
  legacy_captures -= stream->flags != CU_STREAM_NON_BLOCKING;
  bool valid = stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (valid)
    *graph = stream->graph;
  else
    free_graph(stream->graph);
  stream->graph = NULL;
  stream->capture = CU_STREAM_CAPTURE_STATUS_NONE;
  return valid ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

CUDA_API CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
  if (!stream && legacy_captures)
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *status = stream ? stream->capture : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuLaunchHostFunc(CUstream stream, CUhostFn *function, void *userData)
{
  if (!stream || stream->capture == CU_STREAM_CAPTURE_STATUS_NONE) {
    function(userData);
    return CUDA_SUCCESS;
  }
  struct CUgraph_st *graph = stream->graph;
  struct node *nodes = realloc(graph->nodes, (graph->count + 1) * sizeof *nodes);
  if (!nodes)
    return CUDA_ERROR_OUT_OF_MEMORY;
  nodes[graph->count++] = (struct node){function, userData};
  graph->nodes = nodes;
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
  *exec = calloc(1, sizeof **exec);
  struct node *nodes = malloc((graph->count + 1) * sizeof *nodes);
  if (flags || !*exec || !nodes) {
    free(*exec);
    free(nodes);
    return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (graph->count)
    memcpy(nodes, graph->nodes, graph->count * sizeof *nodes);
  (*exec)->graph = (struct CUgraph_st){nodes, graph->count};
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
  (void)stream;
  for (size_t i = 0; i < exec->graph.count; i++)
    exec->graph.nodes[i].function(exec->graph.nodes[i].data);
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuGraphExecDestroy(CUgraphExec exec)
{
  free(exec->graph.nodes);
  free(exec);
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuGraphDestroy(CUgraph graph)
{
  free_graph(graph);
  return CUDA_SUCCESS;
}
