/* SPDX-License-Identifier: BSD-3-Clause
 * What a device has to show before it is trusted with gradients: that its codecs do what the host's do.
 *
 * Purpose  Kernels are compiled for chips and by drivers that nobody has tried them on. A made-up gradient goes through every
 *          codec that runs on the device, in two calls, as that of one rank of two, and through the host's; messages, sketches,
 *          exponents, residuals and results must be equal to the bit. What races only now and then may still slip through.
 * Time     Milliseconds, once a device: the host waits for the device.
 * Threads  Any; the work is on `stream`.
 */
#ifndef KERNELS_PROOF_H
#define KERNELS_PROOF_H

#include "kernels/device.h"

/* False where something differs, or there was no memory to try; `why` says what, in at most `size` bytes. */
bool tagc_device_prove(const struct tagc_device *device, void *stream, char *why, size_t size);

#endif
