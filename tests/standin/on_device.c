/* SPDX-License-Identifier: BSD-3-Clause
 * Buffers are device memory: the linker takes this definition for that of on_host.c, and as it is hidden here, it is
 * hidden in the whole library: to programs that look for the symbol this is an NCCL of GPUs.
 */
extern const int ncclStandinHostMemory __attribute__((visibility("hidden")));
const int ncclStandinHostMemory = 0;
