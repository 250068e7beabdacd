/* SPDX-License-Identifier: BSD-3-Clause
 * The self-test of a device: before it gets gradients its codecs must do what the host's do.
 *
 * Purpose  Kernels are compiled for chips and by drivers that nobody has tried them on. A made-up gradient goes through
 *          a codec on the device as that of one rank of two, and through the host's; messages, sketches, exponents,
 *          residuals, results, what was seen, and a flush must be equal to the bit. There are calls with and without a
 *          residual, with one that is void, and with a value that is not finite, and shards of several stripes. What
 *          races only now and then may still slip through.
 *          Codecs for all-gathers are played with parameters, whose payloads, results, references and refusals are
 *          compared.
 * Time     Milliseconds, once a codec and device: the host waits for the device.
 * Threads  Any; the work is on `stream`.
 */
#ifndef KERNELS_DEVICE_SELF_TEST_H
#define KERNELS_DEVICE_SELF_TEST_H

#include "kernels/codec/device.h"

enum tagc_self_test {
  TAGC_SELF_TEST_PASSED,
  TAGC_SELF_TEST_FAILED,  /* something differs */
  TAGC_SELF_TEST_NOT_RUN, /* there was no memory, or a call of the device failed: that says nothing about the codec */
};

/* Where it is not right `why` says what, in at most `size` bytes. */
enum tagc_self_test tagc_self_test_codec(const struct tagc_device *device, const struct tagc_codec *codec, void *stream,
                                         char *why, size_t size);
enum tagc_self_test tagc_self_test_allgather(const struct tagc_device *device, const struct tagc_allgather_codec *codec,
                                             void *stream, char *why, size_t size);

#endif
