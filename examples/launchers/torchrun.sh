#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# PyTorch with FSDP. Start this on every node, each with tagc and a folder traces: torchrun passes its environment to the ranks of its own node. If options
# of ranks differ, tagc detects that and compresses nothing; nor does it on one node without TAGC_SCOPE=flat.
# NODES (how many; 1), GPUS (of a node; 8), MASTER (the name of the first node) and the training script, train.py, are yours.
exec tagc-run --mode ab --trace "${TRACE:-traces/run}" -- \
  torchrun --nnodes "${NODES:-1}" --nproc_per_node "${GPUS:-8}" --rdzv_backend c10d --rdzv_endpoint "${MASTER:-localhost}:29500" \
  train.py "$@"
