#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Hugging Face Accelerate with FSDP. Start it on every node, each with a folder traces. With DeepSpeed on several nodes
# use deepspeed.sh: this would leave the environment in .deepspeed_env. NODES (how many; 1), NODE (this one, from 0),
# RANKS (of all nodes; 8), MASTER (the name of node 0) and train.py are yours.
exec tagc-run --mode ab --trace "${TRACE:-traces/run}" -- \
  accelerate launch --use_fsdp --num_machines "${NODES:-1}" --machine_rank "${NODE:-0}" --num_processes "${RANKS:-8}" \
  --main_process_ip "${MASTER:-localhost}" --main_process_port 29500 train.py "$@"
