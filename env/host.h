/* SPDX-License-Identifier: BSD-3-Clause
 * Identifies this machine from the system and NCCL's variables. Those may be in a file of NCCL (conf.h), which sets
 * them at its first call: they count before that, too, so that ranks see the same. Threads: any that may call getenv().
 */
#ifndef ENV_HOST_H
#define ENV_HOST_H

#include <stdbool.h>
#include <stdint.h>

/* Equal for processes that NCCL places on one host: a hash of NCCL_HOSTID, else of host name and boot id. */
uint64_t tagc_host_id(void);

/* The host name for file names: '_' replaces all but ASCII letters, digits, '_' and '-'. Never empty. */
enum { TAGC_HOST_NAME = 65 }; /* with the NUL; longer ones, which Linux forbids, are cut */
void tagc_host_name(char name[TAGC_HOST_NAME]);

/* The rank of this process in its job, as launchers tell it (torchrun, mpirun, srun); -1: none does. For names alone.
 */
int tagc_host_job_rank(void);

/* True if NCCL_COMM_ID is set: every rank then makes its unique ids by itself, and they must come out equal. */
bool tagc_host_ids_are_fixed(void);

/* The number in a variable of NCCL, read as NCCL does: text that is no number is 0; -1: not set. */
long long tagc_host_nccl_number(const char *variable);

/* For tests alone: the name of an instruction set that this processor shall lack (kernels/codec/variant.h), or NULL.
 * Not an option: results are the same, bit for bit, only slower. NULL in a process with more rights than its caller. */
#define TAGC_HOST_LACKS "TAGC_TEST_HIDE"
const char *tagc_host_lacks(void);

#endif
