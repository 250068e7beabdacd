#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Megatron-LM. Start it on every node, each with a folder traces. Only with --use-distributed-optimizer Megatron reduce-
# scatters gradients, which TAGC compresses. Buckets hold many layers: --layers @paper selects those that the paper
# compresses. NODES, NODE and MASTER are as for torchrun; more arguments of the model follow as "$@".
exec tagc-run --mode ab --layers @paper --trace "${TRACE:-traces/run}" -- \
  torchrun --nnodes "${NODES:-1}" --node_rank "${NODE:-0}" --nproc_per_node "${GPUS:-8}" --master_addr "${MASTER:-localhost}" \
  pretrain_gpt.py --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --bf16 "$@"
