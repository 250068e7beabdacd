/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the parts of the stand-in for CUDA's runtime, which calls the stand-in for the driver.
 */
#ifndef TESTS_STANDIN_CUDART_RUNTIME_H
#define TESTS_STANDIN_CUDART_RUNTIME_H

#include "tests/standin/cuda/cuda.h"
#include "tests/standin/cudart/cudart.h"

#include <stdbool.h>

#define CUDART_API __attribute__((visibility("default")))

/* -- device.c ------------------------------------------------------------------------------------------------------ */
/* Starts the driver, once. */
CUresult cudart_start(void);

/* Makes a context current for this thread if none is: the primary one of device 0. */
CUresult cudart_enter(void);

/* The runtime's error for the driver's, which becomes the thread's last one if it is one. */
cudaError_t cudart_note(CUresult result);

/* The result of a call of the driver that needs a context, or that needs none. */
#define IN_CONTEXT(call) cudart_note(cudart_enter() ?: (call))
#define WITHOUT_CONTEXT(call) cudart_note(cudart_start() ?: (call))

/* -- played.c ------------------------------------------------------------------------------------------------------ */
bool cudart_plays(const char *kernel);
cudaError_t cudart_play(const char *kernel, void **parameters, cudaStream_t stream);

/* -- refused.c ----------------------------------------------------------------------------------------------------- */
/* Says once per name on stderr that it is not played; returns the error, which becomes the thread's last one. */
cudaError_t cudart_refuse(const char *name);

#endif
