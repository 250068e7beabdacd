/* SPDX-License-Identifier: BSD-3-Clause
 * Compares the ABI of our own NCCL header (interpose/nccl/abi/nccl.h) with the real one. Built only if configure found
 * a real nccl.h. Every fact of abi_table.h is one test point; the compilation of this file compares the prototypes.
 * With a real header of another version only the facts common to both are compared.
 */
#include "tests/unit/nccl/abi_table.h"
#include "tests/unit/tap.h"

#include <string.h>

static const struct abi_fact real[] = {ABI_FACTS_OF_ALL_VERSIONS,
#if NCCL_VERSION_CODE >= 22403
                                       ABI_FACTS_SINCE_22403,
#endif
#if NCCL_VERSION_CODE >= 22602
                                       ABI_FACTS_SINCE_22602,
#endif
#if NCCL_VERSION_CODE >= 22703
                                       ABI_FACTS_SINCE_22703,
#endif
#if NCCL_VERSION_CODE >= 22803
                                       ABI_FACTS_SINCE_22803,
#endif
#if NCCL_VERSION_CODE == 22809
                                       ABI_FACTS_OF_22809
#endif
};

/* The initializers are macros: their results are compared by value. */
static void test_initializers(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  ok(config.size == sizeof config && config.magic == 0xcafebeef && config.version == NCCL_VERSION_CODE,
     "the real NCCL_CONFIG_INITIALIZER has the magic that ours has");
  ok(config.blocking == NCCL_CONFIG_UNDEF_INT && config.netName == NULL, "and leaves all choices undefined");
  ok(info.size == sizeof info && info.magic == 0x74685283 && info.estimatedTime == -1.0f,
     "the real NCCL_SIM_INFO_INITIALIZER has the magic that ours has");
}

int main(void) {
  int count = sizeof real / sizeof real[0];
  note("real nccl.h: version code %d", NCCL_VERSION_CODE);
  ok(count <= abi_ours_count, "our table has at least the facts of the real one");
  for (int i = 0; i < count; i++)
    ok(strcmp(real[i].name, abi_ours[i].name) == 0 && real[i].value == abi_ours[i].value, "%s is %lld, ours %lld",
       real[i].name, real[i].value, abi_ours[i].value);
  if (count < abi_ours_count)
    skip("the facts of 2.28.9 only, and of what came before it", "the real nccl.h is another version");
  test_initializers();
  return tap_done();
}
