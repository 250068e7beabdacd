/* SPDX-License-Identifier: BSD-3-Clause
 * The one kernel that PyTorch's groups for NCCL launch themselves: the search for NaN (TORCH_NCCL_NAN_CHECK=1). It
 * waits for the earlier work of its stream, and fails at once: on a GPU the assertion fails later, and all that
 * follows.
 */
#include "tests/standin/cuda/standin.h"
#include "tests/standin/cudart/runtime.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* c10d::checkForNaN<T>(T *data, size_t count): the end of its name, and the bits of the largest number. */
static const struct type {
  const char *end;
  unsigned bytes;
  uint64_t largest, magnitude;
} types[] = {
  {"checkForNaNIfEEvPT_m", 4, 0x7f800000, 0x7fffffff},
  {"checkForNaNIdEEvPT_m", 8, 0x7ff0000000000000, 0x7fffffffffffffff},
  {"checkForNaNIN3c104HalfEEEvPT_m", 2, 0x7c00, 0x7fff},
  {"checkForNaNIN3c108BFloat16EEEvPT_m", 2, 0x7f80, 0x7fff},
  {"checkForNaNIN3c1013Float8_e4m3fnEEEvPT_m", 1, 0x7e, 0x7f},
  {"checkForNaNIN3c1011Float8_e5m2EEEvPT_m", 1, 0x7c, 0x7f},
};

static const struct type *type_of(const char *name) {
  const size_t length = strlen(name);
  for (const struct type *t = types; t < types + sizeof types / sizeof *types; t++)
    if (length >= strlen(t->end) && strcmp(name + length - strlen(t->end), t->end) == 0)
      return t;
  return NULL;
}

static bool has_nan(const struct type *t, const unsigned char *data, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint64_t bits = 0;
    memcpy(&bits, data + i * t->bytes, t->bytes); /* the CPU is little-endian */
    if ((bits & t->magnitude) > t->largest)
      return true;
  }
  return false;
}

bool cudart_plays(const char *name) { return type_of(name) != NULL; }

cudaError_t cudart_play(const char *name, void **parameters, cudaStream_t stream) {
  const struct type *t = type_of(name);
  const CUdeviceptr pointer = *(CUdeviceptr *)parameters[0];
  const size_t count = *(size_t *)parameters[1];
  const CUresult result = cudart_enter() ?: cuStreamSynchronize((CUstream)stream);
  if (result != CUDA_SUCCESS || count == 0)
    return cudart_note(result);
  const void *data = standin_cuda_view(pointer, count * t->bytes);
  return cudart_note(!data ? CUDA_ERROR_ILLEGAL_ADDRESS : has_nan(t, data, count) ? CUDA_ERROR_ASSERT : CUDA_SUCCESS);
}
