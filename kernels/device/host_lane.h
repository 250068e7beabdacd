/* SPDX-License-Identifier: BSD-3-Clause
 * Lanes of the host device (device.h): a thread each, which takes no signals. A child of a fork has none: there nothing is submitted,
 * nor waited for.
 */
#ifndef KERNELS_DEVICE_HOST_LANE_H
#define KERNELS_DEVICE_HOST_LANE_H

#include "kernels/codec/device.h"

void *tagc_host_lane_make(const struct tagc_device *self);
uint64_t tagc_host_lane_submit(const struct tagc_device *self, void *lane, enum tagc_lane_work work,
                               tagc_lane_function *function, void *argument);
bool tagc_host_lane_after(const struct tagc_device *self, void *lane, void *stream);
bool tagc_host_lane_wait(const struct tagc_device *self, void *lane, uint64_t ticket, void *stream);
void tagc_host_lane_close(const struct tagc_device *self, void *lane);
bool tagc_host_lane_times(const struct tagc_device *self, void *lane, struct tagc_lane_times *times);
void tagc_host_lane_free(const struct tagc_device *self, void *lane);

#endif
