#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# DeepSpeed with ZeRO-3. On one node ranks get the whole environment; on others only variables that begin with NCCL, PYTHON and
# a few more, and those in .deepspeed_env (in ~, or where this runs), a line NAME=value each: so tagc-run writes that file. With
# launchers other than pdsh, values may hold letters, digits and @%+=:,./-_ alone: it quotes others, and nothing unquotes them.
tagc-run --mode ab --trace "${TRACE:-/tmp/run}" -- env | grep -E '^(LD_PRELOAD|TAGC_[A-Z_]*)=' >.deepspeed_env
exec deepspeed --hostfile "${HOSTFILE:-hostfile}" train.py --deepspeed ds_config.json "$@"
