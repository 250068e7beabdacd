/* SPDX-License-Identifier: BSD-3-Clause
 * The residual (error feedback): what a codec has not sent yet, kept by the sender for its foreign shards.
 *
 * Layout: (nranks-1) x n floats, foreign shards in rank order, so shard j starts at (j - (j > rank)) * n.
 */
#ifndef KERNELS_RESIDUAL_H
#define KERNELS_RESIDUAL_H

#include "kernels/codec.h"

/* Bytes of the residual of a shape. Pure. */
size_t tagc_residual_bytes(const struct tagc_shape *shape);

/* Writes scale*g + e, rounded once to the shape's type, to `out` (nranks x n elements, not overlapping send): what a
 * plain reduce-scatter (sum, or average) must send so that nothing stays behind when compression is switched off. The
 * own shard is scale*g. Reads job->{shape, rank, send, scale, residual, residual_empty}. */
void tagc_residual_flush(const struct tagc_job *job, void *out);

#endif
