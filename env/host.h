/* SPDX-License-Identifier: BSD-3-Clause
 * Which machine this is, as far as the system and NCCL's environment say so. Threads: any that may call getenv().
 */
#ifndef ENV_HOST_H
#define ENV_HOST_H

#include <stdbool.h>
#include <stdint.h>

/* Equal for the processes that NCCL takes to be on one host: a hash of NCCL_HOSTID, else of host name and boot id. */
uint64_t tagc_host_id(void);

/* The host name for the name of a file: what is no ASCII letter, digit, '_' or '-' becomes '_'. Never empty. */
enum { TAGC_HOST_NAME = 65 }; /* with its end; longer ones, which Linux does not allow, are cut */
void tagc_host_name(char name[TAGC_HOST_NAME]);

/* NCCL_COMM_ID is set: every rank makes its unique ids by itself, and they must come out equal. */
bool tagc_host_ids_are_fixed(void);

/* NCCL_COMM_SPLIT_SHARE_RESOURCES is on: a split communicator has the connections of its parent. */
bool tagc_host_shares_resources(void);

/* For tests alone: the name of an instruction set that this processor is taken to lack (kernels/codec/variant.h), or
 * NULL. Not an option: results are the same, bit for bit, and only slower. A program with more rights than its caller
 * has is not told. */
#define TAGC_HOST_LACKS "TAGC_TEST_HIDE"
const char *tagc_host_lacks(void);

#endif
