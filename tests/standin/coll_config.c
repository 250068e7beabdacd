/* SPDX-License-Identifier: BSD-3-Clause
 * Collectives with a configuration for the one call, as NCCL has them since 2.31: checked when the call is made, like
 * there, and without effect on it. The statistics show what came.
 */
#include "tests/standin/standin.h"

#include <stdio.h>
#include <string.h>

/* As 2.32 has it, which has put the event behind what 2.31 has. */
struct fields {
  size_t size;
  unsigned magic, version;
  const ncclConfigExt_t *ext;
  int choices[4];
  const char *algSelection;
  int forceAlgSelection, CTAPolicy;
  uint64_t userProfilerTag;
  void *launchCompletionEvent;
};

static struct fields read_fields(const ncclCollConfig_t *config) {
  const size_t own = standin_version >= 23203 ? sizeof(struct fields) : offsetof(struct fields, launchCompletionEvent);
  struct fields fields = {0};
  memcpy(&fields, config, config->size < own ? config->size : own);
  return fields;
}

ncclResult_t standin_coll_config_check(const ncclCollConfig_t *config, const char *name) {
  if (!config)
    return ncclSuccess;
  const struct fields fields = read_fields(config);
  if (fields.magic != 0xcafebeef || fields.size < 64)
    return standin_fail(ncclInvalidArgument, "%s: the config was not made with NCCL_COLLCONFIG_INITIALIZER", name);
  if (fields.forceAlgSelection != 0 && fields.forceAlgSelection != 1)
    return standin_fail(ncclInvalidArgument, "%s: forceAlgSelection is %d", name, fields.forceAlgSelection);
  if (fields.CTAPolicy != NCCL_CONFIG_UNDEF_INT && (fields.CTAPolicy < 0 || fields.CTAPolicy > 3))
    return standin_fail(ncclInvalidArgument, "%s: CTAPolicy is %d", name, fields.CTAPolicy);
  return ncclSuccess;
}

void standin_coll_config_text(const ncclCollConfig_t *config, char text[STANDIN_CONFIG_TEXT]) {
  static const char *const names[] = {"minCTAs", "maxCTAs", "nvlsCTAs", "cgaClusterSize"};
  const struct fields fields = read_fields(config);
  size_t used = (size_t)snprintf(text, STANDIN_CONFIG_TEXT, "size=%zu", fields.size);
#define ADD(...) \
  used += (size_t)snprintf(text + used, used < STANDIN_CONFIG_TEXT ? STANDIN_CONFIG_TEXT - used : 0, __VA_ARGS__)
  for (int i = 0; i < 4; i++)
    if (fields.choices[i] != NCCL_CONFIG_UNDEF_INT)
      ADD(",%s=%d", names[i], fields.choices[i]);
  if (fields.algSelection)
    ADD(",algSelection=%s,forceAlgSelection=%d", fields.algSelection, fields.forceAlgSelection);
  if (fields.CTAPolicy != NCCL_CONFIG_UNDEF_INT)
    ADD(",CTAPolicy=%d", fields.CTAPolicy);
  if (fields.userProfilerTag)
    ADD(",userProfilerTag=%llx", (unsigned long long)fields.userProfilerTag);
  if (fields.launchCompletionEvent)
    ADD(",launchCompletionEvent=%p", fields.launchCompletionEvent);
  for (const ncclConfigExt_t *option = fields.ext; option; option = option->next)
    ADD(",ext=%d.%d:%s", option->key.vendorId, option->key.optionId, option->val.s ? option->val.s : "");
#undef ADD
  if (used >= STANDIN_CONFIG_TEXT)
    memcpy(text + STANDIN_CONFIG_TEXT - 4, "...", 4);
}

#define MAKE(...) \
  &(struct call) { .send = sendbuff, .count = count, .type = datatype, .stream = stream, __VA_ARGS__ }

STANDIN_API ncclResult_t ncclReduceScatterConfig(const void *sendbuff, void *recvbuff, size_t count,
                                                 ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                                 cudaStream_t stream, const ncclCollConfig_t *config) {
  return standin_submit(comm, MAKE(.function = FN_REDUCE_SCATTER, .recv = recvbuff), op, config, __func__);
}

STANDIN_API ncclResult_t ncclAllGatherConfig(const void *sendbuff, void *recvbuff, size_t count,
                                             ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                             const ncclCollConfig_t *config) {
  return standin_submit(comm, MAKE(.function = FN_ALL_GATHER, .recv = recvbuff), ncclSum, config, __func__);
}

STANDIN_API ncclResult_t ncclAllReduceConfig(const void *sendbuff, void *recvbuff, size_t count,
                                             ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                             cudaStream_t stream, const ncclCollConfig_t *config) {
  return standin_submit(comm, MAKE(.function = FN_ALL_REDUCE, .recv = recvbuff), op, config, __func__);
}

STANDIN_API ncclResult_t ncclBroadcastConfig(const void *sendbuff, void *recvbuff, size_t count,
                                             ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream,
                                             const ncclCollConfig_t *config) {
  return standin_submit(comm, MAKE(.function = FN_BROADCAST, .recv = recvbuff, .root = root), ncclSum, config,
                        __func__);
}

STANDIN_API ncclResult_t ncclReduceConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                          ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
                                          const ncclCollConfig_t *config) {
  return standin_submit(comm, MAKE(.function = FN_REDUCE, .recv = recvbuff, .root = root), op, config, __func__);
}

STANDIN_API ncclResult_t ncclAlltoAllConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                            ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config) {
  return standin_submit(comm, MAKE(.function = FN_ALL_TO_ALL, .recv = recvbuff), ncclSum, config, __func__);
}

STANDIN_API ncclResult_t ncclGatherConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                          int root, ncclComm_t comm, cudaStream_t stream,
                                          const ncclCollConfig_t *config) {
  return standin_submit(comm, MAKE(.function = FN_GATHER, .recv = recvbuff, .root = root), ncclSum, config, __func__);
}

STANDIN_API ncclResult_t ncclScatterConfig(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                           int root, ncclComm_t comm, cudaStream_t stream,
                                           const ncclCollConfig_t *config) {
  return standin_submit(comm, MAKE(.function = FN_SCATTER, .recv = recvbuff, .root = root), ncclSum, config, __func__);
}
