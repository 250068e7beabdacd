#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Megatron-LM, on every node. Gradients travel as reduce-scatters, which is what TAGC compresses, with --use-distributed-optimizer
# alone. Its buckets hold many layers: --layers @paper selects in them what the paper compresses. Tensor and pipeline parallel
# calls are none of gradients, and pass. NODES, NODE and MASTER are those of torchrun; more arguments of the model follow as "$@".
exec tagc-run --mode ab --layers @paper --trace "${TRACE:-/tmp/run}" -- \
  torchrun --nnodes "${NODES:-1}" --node_rank "${NODE:-0}" --nproc_per_node "${GPUS:-8}" --master_addr "${MASTER:-localhost}" \
  pretrain_gpt.py --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --bf16 "$@"
