/* SPDX-License-Identifier: BSD-3-Clause
 * Lanes of a GPU (device.h): none yet, so that all work is done on the caller's stream.
 */
#include "kernels/cuda_device.h"

void *tagc_cuda_lane_make(const struct tagc_device *self)
{
  (void)self;
  return NULL;
}

uint64_t tagc_cuda_lane_submit(const struct tagc_device *self, void *lane, tagc_lane_function *function, void *argument)
{
  (void)self, (void)lane, (void)function, (void)argument;
  return 0;
}

bool tagc_cuda_lane_after(const struct tagc_device *self, void *lane, void *stream)
{
  (void)self, (void)lane, (void)stream;
  return true;
}

bool tagc_cuda_lane_wait(const struct tagc_device *self, void *lane, uint64_t ticket, void *stream)
{
  (void)self, (void)lane, (void)ticket, (void)stream;
  return true;
}

void tagc_cuda_lane_close(const struct tagc_device *self, void *lane) { (void)self, (void)lane; }

bool tagc_cuda_lane_times(const struct tagc_device *self, void *lane, struct tagc_lane_times *times)
{
  (void)self, (void)lane, (void)times;
  return false;
}

void tagc_cuda_lane_free(const struct tagc_device *self, void *lane) { (void)self, (void)lane; }
