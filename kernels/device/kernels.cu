/* SPDX-License-Identifier: BSD-3-Clause
 * All GPU kernels, as one module: one fat binary for the library (fatbin.h), one shared object for the stand-in.
 */
#include "kernels/cuda/call.cu"
#include "kernels/dense/dense.cu"
#include "kernels/none/none.cu"
#include "kernels/none/precise.cu"
#include "kernels/none/levels.cu"
#include "kernels/sparse/sparsify.cu"
#include "kernels/sparse/sparse.cu"
#include "kernels/lhc/lhc.cu"
#include "kernels/allgather/allgather.cu"
#include "kernels/allgather/exact.cu"
#include "kernels/allgather/support.cu"
