#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
# Slurm: srun gives tasks its environment, but not where a job was submitted with --export=NONE or a list (whose values
# may hold no comma, as lists of layers do): tagc-run behind srun does not depend on that. Every node must have it
# installed, and a folder traces where this runs.
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR MASTER_PORT=29500
# shellcheck disable=SC2016 # the tasks expand this
exec srun --export=ALL sh -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS
  exec tagc-run --mode ab --layers mlp,embed --trace "${TRACE:-traces/run}" -- python3 train.py "$@"' sh "$@"
