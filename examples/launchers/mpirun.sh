#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Open MPI: to other hosts mpirun takes no variables but OMPI_* and those of -x, which cannot quote: either name what tagc-run has
# set (tagc-run --mode ab -- mpirun -x LD_PRELOAD -x TAGC_MODE ...), all of it, or, as here, let every rank start by tagc-run,
# which must be installed on every host. mpiexec of MPICH and Intel MPI passes the whole environment by itself.
# shellcheck disable=SC2016 # the ranks expand this
exec mpirun -np "${RANKS:-16}" --hostfile "${HOSTFILE:-hostfile}" -x "MASTER_ADDR=${MASTER:-localhost}" -x MASTER_PORT=29500 \
  sh -c 'export RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE
    exec tagc-run --mode ab --trace "${TRACE:-/tmp/run}" -- python3 train.py "$@"' sh "$@"
