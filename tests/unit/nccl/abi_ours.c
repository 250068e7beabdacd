/* SPDX-License-Identifier: BSD-3-Clause
 * The facts of abi_table.h from our own interpose/nccl/abi/nccl.h. It is included by its path, so that no include
 * option can replace it with another nccl.h (its include guard then keeps that one out).
 */
#include "interpose/nccl/abi/nccl.h"
#include "tests/unit/nccl/abi_table.h"

_Static_assert(NCCL_VERSION_CODE == 22809, "this file must see our header");

const struct abi_fact abi_ours[] = {
  ABI_FACTS_OF_ALL_VERSIONS, ABI_FACTS_SINCE_22403, ABI_FACTS_SINCE_22602,
  ABI_FACTS_SINCE_22703,     ABI_FACTS_SINCE_22803, ABI_FACTS_OF_22809,
};
const int abi_ours_count = sizeof abi_ours / sizeof abi_ours[0];
