/* SPDX-License-Identifier: BSD-3-Clause
 * Streams and events: their handles are the driver's.
 */
#include "tests/standin/cudart/runtime.h"

/* -- streams ------------------------------------------------------------------------------------------------------- */
CUDART_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority) {
  return IN_CONTEXT(cuStreamCreateWithPriority(stream, flags, priority));
}

CUDART_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

CUDART_API cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithFlags(stream, 0); }

CUDART_API cudaError_t cudaStreamDestroy(cudaStream_t stream) { return IN_CONTEXT(cuStreamDestroy_v2(stream)); }

CUDART_API cudaError_t cudaStreamQuery(cudaStream_t stream) { return IN_CONTEXT(cuStreamQuery(stream)); }

CUDART_API cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return IN_CONTEXT(cuStreamSynchronize(stream)); }

CUDART_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return IN_CONTEXT(cuStreamWaitEvent(stream, event, flags));
}

CUDART_API cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) {
  return IN_CONTEXT(cuStreamGetPriority(stream, priority));
}

CUDART_API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
  return IN_CONTEXT(cuLaunchHostFunc(stream, function, data));
}

/* -- captures: graphs are not played, so a stream is captured only if the driver was asked to ---------------------- */
CUDART_API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, int *status) {
  CUstreamCaptureStatus captured = CU_STREAM_CAPTURE_STATUS_NONE;
  const cudaError_t error = IN_CONTEXT(cuStreamIsCapturing(stream, &captured));
  *status = (int)captured;
  return error;
}

CUDART_API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, int *status, unsigned long long *id, void *graph,
                                                const void *dependencies, const void *edges, size_t *count) {
  (void)graph, (void)dependencies, (void)edges;
  if (id)
    *id = 0;
  if (count)
    *count = 0;
  const cudaError_t error = cudaStreamIsCapturing(stream, status);
  return error == cudaSuccess && *status ? cudart_refuse("cudaStreamGetCaptureInfo of a captured stream") : error;
}

CUDART_API cudaError_t cudaThreadExchangeStreamCaptureMode(int *mode) {
  CUstreamCaptureMode exchanged = (CUstreamCaptureMode)*mode;
  const cudaError_t error = IN_CONTEXT(cuThreadExchangeStreamCaptureMode(&exchanged));
  *mode = (int)exchanged;
  return error;
}

/* -- events -------------------------------------------------------------------------------------------------------- */
CUDART_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
  return flags & cudaEventInterprocess ? cudart_refuse("an event for other processes")
                                       : IN_CONTEXT(cuEventCreate(event, flags));
}

CUDART_API cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }

CUDART_API cudaError_t cudaEventDestroy(cudaEvent_t event) { return IN_CONTEXT(cuEventDestroy_v2(event)); }

CUDART_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return IN_CONTEXT(cuEventRecord(event, stream));
}

CUDART_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  return flags ? cudart_refuse("cudaEventRecordWithFlags with flags") : cudaEventRecord(event, stream);
}

CUDART_API cudaError_t cudaEventQuery(cudaEvent_t event) { return IN_CONTEXT(cuEventQuery(event)); }

CUDART_API cudaError_t cudaEventSynchronize(cudaEvent_t event) { return IN_CONTEXT(cuEventSynchronize(event)); }

CUDART_API cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return IN_CONTEXT(cuEventElapsedTime(milliseconds, start, end));
}
