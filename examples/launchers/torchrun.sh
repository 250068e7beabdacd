#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# PyTorch with FSDP. torchrun gives its environment to the ranks that it starts, those of its own host alone: so this
# runs on every node, each with tagc and a folder traces. Ranks whose options differ find that out, and pass.
# NODES, MASTER and the training script, train.py, are yours.
exec tagc-run --mode ab --trace "${TRACE:-traces/run}" -- \
  torchrun --nnodes "${NODES:-1}" --nproc_per_node "${GPUS:-8}" --rdzv_backend c10d --rdzv_endpoint "${MASTER:-localhost}:29500" \
  train.py "$@"
