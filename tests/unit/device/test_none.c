/* SPDX-License-Identifier: BSD-3-Clause
 * A process without a CUDA driver has no CUDA devices, and gets the reason.
 */
#include <dlfcn.h>
#include <string.h>

#include "kernels/codec/device.h"
#include "tests/unit/tap.h"

int main(void) {
  const char *why = NULL;
  if (dlopen("libcuda.so.1", RTLD_NOW)) {
    skip("no driver", "there is one");
    return tap_done();
  }
  const bool there = tagc_device_cuda_is_there(&why);
  ok(!there && strstr(why, "there is no CUDA driver: libcuda.so.1"), "there is none: %s", why);
  ok(!tagc_device_cuda(0) && !tagc_device_cuda(-1) && !tagc_device_cuda(1000), "so no GPU has a table");
  return tap_done();
}
