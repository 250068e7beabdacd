/* SPDX-License-Identifier: BSD-3-Clause
 * The configuration of one call (ncclReduceScatterConfig and its like, since NCCL 2.31).
 *
 * A call goes on with its configuration as it came. It may be compressed if the configuration asks for nothing that
 * only NCCL's own collective can give. NCCL wants the same configuration on all ranks, so this is a fact of all ranks:
 *   ext                    options of a vendor's NCCL, of unknown effect: passes. (The official one ignores them.)
 *   minCTAs, maxCTAs, nvlsCTAs, cgaClusterSize, CTAPolicy
 *                          the GPU's processors that the call may take. Codecs take others, and NCCL bounds no
 *                          point-to-point call (p2pTaskAppend() knows no configuration): passes.
 *   algSelection           algorithms that the call may use; its bits depend on them: passes. With it only,
 *                          forceAlgSelection matters.
 *   userProfilerTag        for NCCL's profiler, and without effect on the call: compressed, and the tag is not seen.
 *   launchCompletionEvent  recorded by NCCL when its kernel has begun, so that other work may start beside it. A
 *                          compressed call has several kernels, and waits between them: passes.
 *   a longer struct        a newer NCCL, and fields with unknown effects: passes.
 * NULL, and undefined fields, ask for nothing. Pure functions, but for the copies; any thread.
 */
#ifndef INTERPOSE_POLICY_COLL_CONFIG_H
#define INTERPOSE_POLICY_COLL_CONFIG_H

#include <stdbool.h>

#include "interpose/nccl/nccl_newer.h"
#include "interpose/policy/plan.h"

/* Does NCCL take it? If not, it must refuse the call at once, before anything is held back. */
bool tagc_coll_config_is_valid(const ncclCollConfig_t *config);

/* Why a call with it passes; TAGC_REASON_NONE: it may be compressed. */
enum tagc_reason tagc_coll_config_gate(const ncclCollConfig_t *config);

/* The program may change its configuration when its call has returned. A call that goes on later needs a copy, with its
 * texts and options. Values of a vendor's options are copied as they are. */
struct tagc_kept_config;

/* NULL without memory. */
struct tagc_kept_config *tagc_coll_config_keep(const ncclCollConfig_t *config);
const ncclCollConfig_t *tagc_coll_config_of(const struct tagc_kept_config *kept);
void tagc_coll_config_retain(struct tagc_kept_config *kept);
void tagc_coll_config_release(struct tagc_kept_config *kept);

#endif
