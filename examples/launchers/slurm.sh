#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
# Slurm: srun passes its environment to tasks, unless the job was submitted with --export=NONE or a list. Values in such
# a list may hold no comma, but lists of layers do. tagc-run behind srun does not depend on that. Every node needs
# tagc-run, and a folder traces in the directory of the job.
MASTER_ADDR=$(scontrol show hostnames "${SLURM_JOB_NODELIST-}" | head -n 1)
[ -n "$MASTER_ADDR" ] || { echo "slurm.sh: scontrol names no host of the job (SLURM_JOB_NODELIST='${SLURM_JOB_NODELIST-}')" >&2; exit 1; }
export MASTER_ADDR MASTER_PORT=29500
# shellcheck disable=SC2016 # the tasks expand this
exec srun --export=ALL sh -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS
  exec tagc-run --mode ab --layers mlp,embed --trace "${TRACE:-traces/run}" -- python3 train.py "$@"' sh "$@"
