/* SPDX-License-Identifier: BSD-3-Clause
 * The common part of vector_plain.h, _avx2.h and _avx512.h: the vector steps of kernels.c.
 */
#ifndef KERNELS_LHC_VECTOR_H
#define KERNELS_LHC_VECTOR_H

#include "kernels/lhc/lhc.h"

static inline uint32_t tagc_lhc_degree(uint64_t cell) { return (uint32_t)cell >> 24; }

#endif
