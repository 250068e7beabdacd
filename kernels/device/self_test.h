/* SPDX-License-Identifier: BSD-3-Clause
 * The self-test of a device: its codecs must give the host's bits before they get gradients.
 *
 * Purpose  Kernels run on chips and with drivers that nobody has tried them on. A made-up gradient goes through a codec
 *          on the device, as rank 0 of two, and through the host's. Messages, sketches, exponents, residuals, results,
 *          flags, and a flush must be equal to the bit. The calls have a residual, none, or a void one, and a
 *          non-finite value; shards have several stripes; in two levels messages hold sums, or none. Rare races may
 *          still slip through. Codecs for all-gathers get parameters: payloads, results, references and refusals are
 *          compared. An emulated GPU gets smaller shards, each of one stripe.
 * Time     Milliseconds, once a codec and device: the host waits for the device.
 * Threads  Any; the work is on `stream`.
 */
#ifndef KERNELS_DEVICE_SELF_TEST_H
#define KERNELS_DEVICE_SELF_TEST_H

#include "kernels/codec/device.h"

enum tagc_self_test {
  TAGC_SELF_TEST_PASSED,
  TAGC_SELF_TEST_FAILED,  /* something differs */
  TAGC_SELF_TEST_NOT_RUN, /* no memory, or a call of the device failed: this says nothing about the codec */
};

/* Unless passed, `why` gets the reason, in at most `size` bytes. */
enum tagc_self_test tagc_self_test_codec(const struct tagc_device *device, const struct tagc_codec *codec, void *stream,
                                         char *why, size_t size);
enum tagc_self_test tagc_self_test_allgather(const struct tagc_device *device, const struct tagc_allgather_codec *codec,
                                             void *stream, char *why, size_t size);

#endif
