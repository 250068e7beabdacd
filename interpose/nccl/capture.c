/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/nccl/capture.h"

#include <dlfcn.h>
#include <stdatomic.h>

#include "interpose/nccl/linker.h"

/* Of cuda.h. */
enum { CU_SUCCESS = 0, CU_STREAM_CAPTURE_IMPLICIT = 906, CU_NOT_CAPTURING = 0 };
typedef int is_capturing_function(cudaStream_t stream, int *status);

static _Atomic(is_capturing_function *) is_capturing;

void tagc_capture_find_driver(void) {
  if (atomic_load_explicit(&is_capturing, memory_order_relaxed))
    return;
  void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver) /* keeps the reference: the pointer must stay valid */
    atomic_store_explicit(&is_capturing, (is_capturing_function *)tagc_linker_dlsym()(driver, "cuStreamIsCapturing"),
                          memory_order_release);
}

bool tagc_capture_is_active(cudaStream_t stream) {
  is_capturing_function *ask = atomic_load_explicit(&is_capturing, memory_order_acquire);
  if (!ask)
    return false;
  int status = CU_NOT_CAPTURING, result = ask(stream, &status);
  /* The legacy stream cannot be queried while a stream that synchronises with it is captured. */
  return result == CU_STREAM_CAPTURE_IMPLICIT || (result == CU_SUCCESS && status != CU_NOT_CAPTURING);
}
