/* SPDX-License-Identifier: BSD-3-Clause
 * Buffers are host memory, and whoever finds this symbol knows it. The variant for device memory (on_device.c) replaces
 * this definition, which therefore stands in a file where nothing uses it: compilers take a constant that they see for
 * what it is, weak or not.
 */
#include "standin.h"

const int ncclStandinHostMemory __attribute__((weak)) = 1;
