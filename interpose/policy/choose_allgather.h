/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_ALLGATHER=auto: are all-gathers of parameters faster with exact, which changes no bit?
 *
 * Pure functions of numbers that are equal on all ranks: those of the vote (the slowest rank's times, the most bits of
 * a sample), and later the sizes of payloads, which all ranks know from their headers.
 *
 * The plain call is a ring of shards. With exact it is a ring of payloads, and each rank encodes its shard and decodes
 * all of them, one after the other; on a GPU the host waits for that. As in choose.h the time must be at least 5% and
 * 50 us less than the plain call's. All-gathers of the same unit share a reference, and so a choice: that of the first
 * one, which sends the changes.
 */
#ifndef INTERPOSE_POLICY_CHOOSE_ALLGATHER_H
#define INTERPOSE_POLICY_CHOOSE_ALLGATHER_H

#include "interpose/policy/choose.h"
#include "kernels/device/parameter_stats.h"

/* Can TAGC_ALLGATHER=auto compress any all-gather with these options? It needs the probe of TAGC_CODEC=auto. */
bool tagc_choose_allgathers_may(const struct tagc_options *options);

/* Nanoseconds of a plain call, and of one with payloads of so many bytes a rank. */
double tagc_choose_allgather_plain_ns(const struct tagc_allgather_shape *shape, const struct tagc_wire *wire);
double tagc_choose_allgather_ns(const struct tagc_allgather_shape *shape, const struct tagc_parameter_stats *stats,
                                const struct tagc_wire *wire, double payload_bytes);

/* Why the all-gather stays plain; TAGC_REASON_NONE: it does not. stats: of all ranks; wire: NULL without a probe. */
enum tagc_reason tagc_choose_allgather(const struct tagc_allgather_shape *shape,
                                       const struct tagc_parameter_stats *stats, const struct tagc_wire *wire);

#endif
