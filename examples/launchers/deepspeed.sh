#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# DeepSpeed with ZeRO-3 (`mkdir traces` first), whose buckets need --assume gradients; ZeRO-1 and 2 go without. Other nodes get only NCCL's variables and
# the lines of .deepspeed_env: this run reads a temporary copy with tagc-run's variables (DS_ENV_FILE, since 0.10.1), and refuses a line against them.
# Launchers other than pdsh spoil values with characters outside A-Za-z0-9@%+=:,./-_.
# shellcheck disable=SC2016 # the shell behind tagc-run expands this
exec tagc-run --mode ab --assume gradients --trace "${TRACE:-traces/run}" -- sh -c '
  name=${DS_ENV_FILE:-.deepspeed_env} ours=$(env | grep -E "^(LD_PRELOAD|TAGC_[A-Z_]*)=")
  file=$(mktemp) && exec 9<"$file" && rm "$file" && copy=/proc/self/fd/9 || exit 1
  for file in ~/"$name" "$name"; do
    [ ! -e "$file" ] || awk 1 "$file" >>$copy || exit 1
  done
  if other=$(grep -E "^(LD_PRELOAD|TAGC_[A-Z_]*)=" $copy | grep -vxF "$ours"); then
    echo "deepspeed.sh: $name says otherwise than tagc-run; remove (and export what you need of it): $other" >&2
    exit 1
  fi
  printf "%s\n" "$ours" >>$copy
  DS_ENV_FILE=$copy exec deepspeed --hostfile "${HOSTFILE:-hostfile}" train.py --deepspeed ds_config.json "$@"' sh "$@"
