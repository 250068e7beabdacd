/* SPDX-License-Identifier: BSD-3-Clause
 * Side streams of the host device (device.h): one thread each, which takes no signals. The child of a fork has no such
 * thread: submit and wait fail there.
 */
#ifndef KERNELS_DEVICE_HOST_SIDE_STREAM_H
#define KERNELS_DEVICE_HOST_SIDE_STREAM_H

#include "kernels/codec/device.h"

void *tagc_host_side_stream_make(const struct tagc_device *self);
uint64_t tagc_host_side_stream_submit(const struct tagc_device *self, void *side, enum tagc_side_work work,
                                      tagc_side_function *function, void *argument);
bool tagc_host_side_stream_after(const struct tagc_device *self, void *side, void *stream);
bool tagc_host_side_stream_wait(const struct tagc_device *self, void *side, uint64_t event, void *stream);
void tagc_host_side_stream_close(const struct tagc_device *self, void *side);
bool tagc_host_side_stream_times(const struct tagc_device *self, void *side, struct tagc_side_times *times);
void tagc_host_side_stream_free(const struct tagc_device *self, void *side);

#endif
