#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Megatron-LM. Start it on every node, each with a folder traces. Buckets of its distributed optimizer hold many layers:
# --layers @paper selects those that the paper compresses. NODES (how many; 1), NODE (this one, from 0), GPUS (of a node;
# 8) and MASTER (the name of node 0) are yours; more arguments of the model follow as "$@".
exec tagc-run --mode ab --layers @paper --trace "${TRACE:-traces/run}" -- \
  torchrun --nnodes "${NODES:-1}" --node_rank "${NODE:-0}" --nproc_per_node "${GPUS:-8}" --master_addr "${MASTER:-localhost}" \
  pretrain_gpt.py --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --bf16 "$@"
