#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Open MPI: mpirun takes OMPI_* and what -x names to other hosts, no more: name all that tagc-run sets (tagc-run --mode
# ab -- mpirun -x LD_PRELOAD -x TAGC_MODE ...) or, as here, start every rank by tagc-run, installed on each host, where
# a folder traces must be, too. mpiexec of MPICH and Intel MPI passes the whole environment by itself.
# shellcheck disable=SC2016 # the ranks expand this
exec mpirun -np "${RANKS:-16}" --hostfile "${HOSTFILE:-hostfile}" -x "MASTER_ADDR=${MASTER:-localhost}" -x MASTER_PORT=29500 \
  sh -c 'export RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE
    exec tagc-run --mode ab --trace "${TRACE:-traces/run}" -- python3 train.py "$@"' sh "$@"
