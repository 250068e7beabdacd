/* SPDX-License-Identifier: BSD-3-Clause
 * All GPU kernels, as one module: one fat binary for the library (fatbin.h), one shared object for the stand-in.
 */
#include "kernels/call.cu"
#include "kernels/dense.cu"
#include "kernels/none.cu"
#include "kernels/sparsify.cu"
#include "kernels/sparse.cu"
#include "kernels/lhc.cu"
#include "kernels/allgather.cu"
