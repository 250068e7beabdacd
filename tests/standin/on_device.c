/* SPDX-License-Identifier: BSD-3-Clause
 * Buffers are device memory: the linker prefers this definition to the weak one of on_host.c. Hidden here, the symbol
 * is hidden in the whole library: to programs that look for it this is an NCCL for GPUs.
 */
extern const int ncclStandinHostMemory __attribute__((visibility("hidden")));
const int ncclStandinHostMemory = 0;
