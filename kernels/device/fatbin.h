/* SPDX-License-Identifier: BSD-3-Clause
 * The compiled GPU kernels (kernels.cu), inside the library: for cuModuleLoadData(). Constant; nothing to free.
 */
#ifndef KERNELS_DEVICE_FATBIN_H
#define KERNELS_DEVICE_FATBIN_H

#include <stddef.h>

/* The fat binary: code for several generations of GPUs, and PTX for later ones. NULL, and 0 bytes, without CUDA. */
const void *tagc_fatbin(void);
size_t tagc_fatbin_size(void);

/* The same kernels as PTX, zero-terminated, for drivers older than the fat binary, which refuse it. NULL: no CUDA. */
const char *tagc_fatbin_ptx(void);

#endif
