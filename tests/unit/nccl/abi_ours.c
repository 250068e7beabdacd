/* SPDX-License-Identifier: BSD-3-Clause
 * The facts of abi_table.h as our own interpose/nccl/abi/nccl.h states them. Named by its path, so that no include
 * option can put another nccl.h in its place (its include guard keeps that one out afterwards).
 */
#include "interpose/nccl/abi/nccl.h"
#include "tests/unit/nccl/abi_table.h"

_Static_assert(NCCL_VERSION_CODE == 22809, "this file must see our header");

const struct abi_fact abi_ours[] = {
  ABI_FACTS_OF_ALL_VERSIONS, ABI_FACTS_SINCE_22403, ABI_FACTS_SINCE_22602,
  ABI_FACTS_SINCE_22703,     ABI_FACTS_SINCE_22803, ABI_FACTS_OF_22809,
};
const int abi_ours_count = sizeof abi_ours / sizeof abi_ours[0];
