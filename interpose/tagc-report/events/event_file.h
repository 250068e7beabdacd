/* SPDX-License-Identifier: BSD-3-Clause
 * Event files of TensorBoard: records of TensorFlow's TFRecord format, each with an Event in protobuf's encoding.
 *
 * A record is the length of its data (8 bytes), the masked CRC-32C of these, the data, and its masked CRC-32C (4 bytes
 * each), all little-endian. Of Event (tensorflow/core/util/event.proto) there are four fields:
 *   1 wall_time     double, seconds since 1970
 *   2 step          int64
 *   3 file_version  string: the first record alone
 *   5 summary       Summary, here with one value: 1 value { 1 tag: string, 2 simple_value: float }
 * Threads   One at a time. The caller checks the file for errors (ferror()).
 */
#ifndef INTERPOSE_TAGC_REPORT_EVENTS_EVENT_FILE_H
#define INTERPOSE_TAGC_REPORT_EVENTS_EVENT_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { TAGC_EVENT_TAG = 256 };

/* The checksum of Castagnoli's polynomial, as iSCSI has it (RFC 3720, appendix B.4). */
uint32_t tagc_crc32c(const void *data, size_t size);

/* The first record of a file. */
void tagc_event_version(FILE *file, double wall_time);
/* A scalar. A longer tag than TAGC_EVENT_TAG is cut. */
void tagc_event_scalar(FILE *file, double wall_time, uint64_t step, const char *tag, double value);

#endif
