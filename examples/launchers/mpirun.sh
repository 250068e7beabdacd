#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Open MPI: mpirun passes only OMPI_* and variables after -x to other hosts. Name all that tagc-run sets (tagc-run
# --mode ab -- mpirun -x LD_PRELOAD -x TAGC_MODE ...) or, as here, start every rank by tagc-run. Each host then needs
# tagc-run and a folder traces. mpiexec of MPICH and Intel MPI passes the whole environment by itself.
# shellcheck disable=SC2016 # the ranks expand this
exec mpirun -np "${RANKS:-16}" --hostfile "${HOSTFILE:-hostfile}" -x "MASTER_ADDR=${MASTER:-localhost}" -x MASTER_PORT=29500 \
  -x "TRACE=${TRACE:-traces/run}" \
  sh -c 'export RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE
    exec tagc-run --mode ab --trace "$TRACE" -- python3 train.py "$@"' sh "$@"
