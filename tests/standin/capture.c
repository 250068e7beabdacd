/* SPDX-License-Identifier: BSD-3-Clause
 * Captured calls on host memory: while a stream is captured into a CUDA graph, a group becomes a node of it and runs at
 * each launch of the graph. On device memory device.c's kernels are captured instead.
 *
 * The driver is the one that the process has loaded (in the tests tests/standin/cuda); without one nothing is captured.
 * Nodes live as long as the process: the graph does not report its end. A failing node breaks its communicator.
 */
#include "tests/standin/standin.h"

#include <dlfcn.h>

#include "cuda/cuda.h"

static struct {
  __typeof__(&cuStreamIsCapturing) is_capturing;
  __typeof__(&cuLaunchHostFunc) launch;
} driver;

/* Looked up at every call: the program may load it late. */
static bool find_driver(void) {
  void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!handle)
    return false;
  driver.is_capturing = (__typeof__(&cuStreamIsCapturing))dlsym(handle, "cuStreamIsCapturing");
  driver.launch = (__typeof__(&cuLaunchHostFunc))dlsym(handle, "cuLaunchHostFunc");
  dlclose(handle);
  return driver.is_capturing && driver.launch;
}

bool standin_is_captured(cudaStream_t stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return stream && find_driver() && driver.is_capturing((CUstream)stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

ncclResult_t standin_capture(cudaStream_t stream, void (*run)(void *), void *group) {
  if (driver.launch((CUstream)stream, run, group) != CUDA_SUCCESS)
    return standin_fail(ncclUnhandledCudaError, "a captured call cannot become a node of its graph");
  return ncclSuccess;
}
