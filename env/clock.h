/* SPDX-License-Identifier: BSD-3-Clause
 * The monotonic clock. Threads: any. Never fails.
 */
#ifndef ENV_CLOCK_H
#define ENV_CLOCK_H

#include <stdint.h>

uint64_t tagc_clock_ns(void); /* nanoseconds since some moment before the process began */
double tagc_clock_ms(void);   /* milliseconds of the same clock */

#endif
