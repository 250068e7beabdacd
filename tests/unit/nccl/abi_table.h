/* SPDX-License-Identifier: BSD-3-Clause
 * The facts on which the program and NCCL's library must agree, as a table of numbers. Included by two files that see
 * different nccl.h: abi_ours.c (ours) and test_abi.c (the real one). Prototypes have no number: both files must compile
 * the same list of them.
 */
#ifndef TESTS_UNIT_NCCL_ABI_TABLE_H
#define TESTS_UNIT_NCCL_ABI_TABLE_H

#include "interpose/nccl/nccl_newer.h"

struct abi_fact {
  const char *name;
  long long value;
};

/* Our header's facts and their number (abi_ours.c). */
extern const struct abi_fact abi_ours[];
extern const int abi_ours_count;

#define ABI_VALUE(x) \
  { #x, (long long)(x) }
#define ABI_SIZE(type) \
  {"sizeof(" #type ")", sizeof(type)}, { "alignof(" #type ")", _Alignof(type) }
#define ABI_FIELD(type, field) \
  {#type "." #field, offsetof(type, field)}, { "sizeof " #type "." #field, sizeof(((type *)0)->field) }
/* Enums are compared by signedness too: it decides how a handle beyond ncclNumOps compares. */
#define ABI_ENUM(type) \
  ABI_SIZE(type), { "(" #type ")-1", (long long)(type)-1 }

/* Equal in every version. */
#define ABI_FACTS_OF_ALL_VERSIONS \
  ABI_SIZE(ncclUniqueId), ABI_SIZE(ncclComm_t), ABI_SIZE(ncclWindow_t), ABI_SIZE(cudaStream_t), \
    ABI_VALUE(NCCL_UNIQUE_ID_BYTES), ABI_ENUM(ncclResult_t), ABI_VALUE(ncclSuccess), \
    ABI_VALUE(ncclUnhandledCudaError), ABI_VALUE(ncclSystemError), ABI_VALUE(ncclInternalError), \
    ABI_VALUE(ncclInvalidArgument), ABI_VALUE(ncclInvalidUsage), ABI_VALUE(ncclRemoteError), \
    ABI_VALUE(ncclInProgress), ABI_ENUM(ncclDataType_t), ABI_VALUE(ncclInt8), ABI_VALUE(ncclChar), \
    ABI_VALUE(ncclUint8), ABI_VALUE(ncclInt32), ABI_VALUE(ncclInt), ABI_VALUE(ncclUint32), ABI_VALUE(ncclInt64), \
    ABI_VALUE(ncclUint64), ABI_VALUE(ncclFloat16), ABI_VALUE(ncclHalf), ABI_VALUE(ncclFloat32), ABI_VALUE(ncclFloat), \
    ABI_VALUE(ncclFloat64), ABI_VALUE(ncclDouble), ABI_VALUE(ncclBfloat16), ABI_ENUM(ncclRedOp_t), \
    ABI_ENUM(ncclRedOp_dummy_t), ABI_VALUE(ncclSum), ABI_VALUE(ncclProd), ABI_VALUE(ncclMax), ABI_VALUE(ncclMin), \
    ABI_VALUE(ncclAvg), ABI_VALUE(ncclNumOps), ABI_VALUE(ncclMaxRedOp), ABI_ENUM(ncclScalarResidence_t), \
    ABI_VALUE(ncclScalarDevice), ABI_VALUE(ncclScalarHostImmediate), ABI_VALUE(NCCL_CONFIG_UNDEF_INT), \
    ABI_VALUE(NCCL_UNDEF_FLOAT), ABI_VALUE(NCCL_SPLIT_NOCOLOR), ABI_VALUE(NCCL_WIN_DEFAULT), \
    ABI_VALUE(NCCL_WIN_COLL_SYMMETRIC), ABI_VALUE(NCCL_SHRINK_DEFAULT), ABI_VALUE(NCCL_SHRINK_ABORT), \
    ABI_VALUE(NCCL_REVOKE_DEFAULT), ABI_VALUE(NCCL_VERSION(2, 8, 4)), ABI_VALUE(NCCL_VERSION(2, 30, 7)), \
    ABI_SIZE(ncclSimInfo_t), ABI_FIELD(ncclSimInfo_t, size), ABI_FIELD(ncclSimInfo_t, magic), \
    ABI_FIELD(ncclSimInfo_t, version), ABI_FIELD(ncclSimInfo_t, estimatedTime), ABI_FIELD(ncclConfig_t, size), \
    ABI_FIELD(ncclConfig_t, magic), ABI_FIELD(ncclConfig_t, version), ABI_FIELD(ncclConfig_t, blocking), \
    ABI_FIELD(ncclConfig_t, cgaClusterSize), ABI_FIELD(ncclConfig_t, minCTAs), ABI_FIELD(ncclConfig_t, maxCTAs), \
    ABI_FIELD(ncclConfig_t, netName), ABI_FIELD(ncclConfig_t, splitShare)

/* Additions of later releases, kept since then. */
#define ABI_FACTS_SINCE_22403 ABI_VALUE(ncclFloat8e4m3), ABI_VALUE(ncclFloat8e5m2), ABI_VALUE(ncclNumTypes)
#define ABI_FACTS_SINCE_22602 ABI_FIELD(ncclConfig_t, trafficClass)
#define ABI_FACTS_SINCE_22703 \
  ABI_VALUE(NCCL_CTA_POLICY_DEFAULT), ABI_VALUE(NCCL_CTA_POLICY_EFFICIENCY), ABI_FIELD(ncclConfig_t, commName), \
    ABI_FIELD(ncclConfig_t, collnetEnable), ABI_FIELD(ncclConfig_t, CTAPolicy), ABI_FIELD(ncclConfig_t, shrinkShare), \
    ABI_FIELD(ncclConfig_t, nvlsCTAs)
#define ABI_FACTS_SINCE_22803 \
  ABI_VALUE(NCCL_WIN_REQUIRED_ALIGNMENT), ABI_VALUE(NCCL_CTA_POLICY_ZERO), \
    ABI_FIELD(ncclConfig_t, nChannelsPerNetPeer), ABI_FIELD(ncclConfig_t, nvlinkCentricSched)

/* Facts of 2.28.9 alone, the version of our header. */
#define ABI_FACTS_OF_22809 \
  ABI_VALUE(NCCL_MAJOR), ABI_VALUE(NCCL_MINOR), ABI_VALUE(NCCL_PATCH), ABI_VALUE(NCCL_VERSION_CODE), \
    ABI_VALUE(ncclNumResults), ABI_SIZE(ncclConfig_t)

#define ABI_FUNCTION(name, result, ...) \
  _Static_assert(__builtin_types_compatible_p(__typeof__(name), result(__VA_ARGS__)), #name)
#define ABI_CALL(name, ...) ABI_FUNCTION(name, ncclResult_t, __VA_ARGS__)

ABI_CALL(ncclGetVersion, int *);
ABI_FUNCTION(ncclGetErrorString, const char *, ncclResult_t);
ABI_FUNCTION(ncclGetLastError, const char *, ncclComm_t);
ABI_CALL(ncclMemAlloc, void **, size_t);
ABI_CALL(ncclMemFree, void *);
ABI_CALL(ncclGetUniqueId, ncclUniqueId *);
ABI_CALL(ncclCommInitRank, ncclComm_t *, int, ncclUniqueId, int);
ABI_CALL(ncclCommInitRankConfig, ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *);
ABI_CALL(ncclCommInitRankScalable, ncclComm_t *, int, int, int, ncclUniqueId *, ncclConfig_t *);
ABI_CALL(ncclCommInitAll, ncclComm_t *, int, const int *);
ABI_CALL(ncclCommSplit, ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *);
ABI_CALL(ncclCommShrink, ncclComm_t, int *, int, ncclComm_t *, ncclConfig_t *, int);
ABI_CALL(ncclCommFinalize, ncclComm_t);
ABI_CALL(ncclCommDestroy, ncclComm_t);
ABI_CALL(ncclCommAbort, ncclComm_t);
ABI_CALL(ncclCommRevoke, ncclComm_t, int);
ABI_CALL(ncclCommGetAsyncError, ncclComm_t, ncclResult_t *);
ABI_CALL(ncclCommCount, ncclComm_t, int *);
ABI_CALL(ncclCommCuDevice, ncclComm_t, int *);
ABI_CALL(ncclCommUserRank, ncclComm_t, int *);
ABI_CALL(ncclCommRegister, ncclComm_t, void *, size_t, void **);
ABI_CALL(ncclCommDeregister, ncclComm_t, void *);
ABI_CALL(ncclCommWindowRegister, ncclComm_t, void *, size_t, ncclWindow_t *, int);
ABI_CALL(ncclCommWindowDeregister, ncclComm_t, ncclWindow_t);
ABI_CALL(ncclRedOpCreatePreMulSum, ncclRedOp_t *, void *, ncclDataType_t, ncclScalarResidence_t, ncclComm_t);
ABI_CALL(ncclRedOpDestroy, ncclRedOp_t, ncclComm_t);
ABI_CALL(ncclReduce, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t);
ABI_CALL(ncclBcast, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ABI_CALL(ncclBroadcast, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ABI_CALL(ncclAllReduce, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t);
ABI_CALL(ncclReduceScatter, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t);
ABI_CALL(ncclAllGather, const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
ABI_CALL(ncclSend, const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ABI_CALL(ncclRecv, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ABI_CALL(ncclAlltoAll, const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
ABI_CALL(ncclGather, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ABI_CALL(ncclScatter, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ABI_CALL(ncclGroupStart, void);
ABI_CALL(ncclGroupEnd, void);
ABI_CALL(ncclGroupSimulateEnd, ncclSimInfo_t *);
ABI_CALL(ncclCommGetUniqueId, ncclComm_t, ncclUniqueId *);
ABI_CALL(ncclCommGrow, ncclComm_t, int, const ncclUniqueId *, int, ncclComm_t *, ncclConfig_t *);
ABI_CALL(ncclCommSuspend, ncclComm_t, int);
ABI_CALL(ncclCommResume, ncclComm_t);
ABI_CALL(ncclPutSignal, const void *, size_t, ncclDataType_t, int, ncclWindow_t, size_t, int, int, unsigned int,
         ncclComm_t, cudaStream_t);
ABI_CALL(ncclSignal, int, int, int, unsigned int, ncclComm_t, cudaStream_t);
ABI_CALL(ncclWaitSignal, int, ncclWaitSignalDesc_t *, ncclComm_t, cudaStream_t);
ABI_CALL(ncclDevCommCreate, ncclComm_t, const struct ncclDevCommRequirements *, struct ncclDevComm *);
ABI_CALL(ncclDevCommDestroy, ncclComm_t, const struct ncclDevComm *);
ABI_CALL(ncclReduceConfig, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t,
         const ncclCollConfig_t *);
ABI_CALL(ncclBroadcastConfig, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t,
         const ncclCollConfig_t *);
ABI_CALL(ncclAllReduceConfig, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t,
         const ncclCollConfig_t *);
ABI_CALL(ncclReduceScatterConfig, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t,
         const ncclCollConfig_t *);
ABI_CALL(ncclAllGatherConfig, const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t,
         const ncclCollConfig_t *);
ABI_CALL(ncclAlltoAllConfig, const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t,
         const ncclCollConfig_t *);
ABI_CALL(ncclGatherConfig, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t,
         const ncclCollConfig_t *);
ABI_CALL(ncclScatterConfig, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t,
         const ncclCollConfig_t *);
ABI_CALL(ncclSetEncryption, const ncclEncryptionConfig_t *);

#endif
