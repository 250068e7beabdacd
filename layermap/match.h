/* SPDX-License-Identifier: BSD-3-Clause
 * Holds a model against the sizes of slots: how is it wrapped into them, and laid out?
 *
 * Wrappings   block      a slot a block, and the root (all that is outside blocks), or embedding and head by themselves
 *             sub-block  attention and MLP of a block in slots of their own, its norms with the root or with the block
 *             group      several blocks at once
 *             whole      one slot
 *             buckets    parameters in the reverse of their order, cut where a bucket is full (Megatron, DeepSpeed)
 */
#ifndef LAYERMAP_MATCH_H
#define LAYERMAP_MATCH_H

#include "layermap/cycle.h"
#include "layermap/layout.h"

enum tagc_wrapping { TAGC_WRAP_BLOCK, TAGC_WRAP_SUB_BLOCK, TAGC_WRAP_GROUP, TAGC_WRAP_WHOLE, TAGC_WRAP_BUCKETS };

struct tagc_match {
  enum tagc_wrapping wrapping;
  enum tagc_layout_kind layout;
  uint32_t group;                   /* blocks a slot */
  uint64_t bucket;                  /* elements that fill one */
};

#endif
