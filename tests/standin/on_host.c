/* SPDX-License-Identifier: BSD-3-Clause
 * Buffers are host memory, which the symbol tells programs. The variant for device memory (on_device.c) replaces this
 * definition. It therefore stands in a file without a use of it: compilers fold a visible constant, even a weak one.
 */
#include "tests/standin/standin.h"

const int ncclStandinHostMemory __attribute__((weak)) = 1;
