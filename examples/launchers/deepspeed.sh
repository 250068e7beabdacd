#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# DeepSpeed with ZeRO-3. On one node ranks get the environment; to others go, but for variables like NCCL's, only lines
# NAME=value of .deepspeed_env: what tagc-run sets is added there; a line that says otherwise is refused, as it would
# win. Launchers other than pdsh spoil values with more than letters, digits and @%+=:,./-_. `mkdir traces` comes first.
# shellcheck disable=SC2016 # the shell behind tagc-run expands this
exec tagc-run --mode ab --trace "${TRACE:-traces/run}" -- sh -c '
  file=${DS_ENV_FILE:-.deepspeed_env}
  ours=$(env | grep -E "^(LD_PRELOAD|TAGC_[A-Z_]*)=") && touch "$file" || exit 1
  if other=$(grep -E "^(LD_PRELOAD|TAGC_[A-Z_]*)=" "$file" | grep -vxF "$ours"); then
    echo "deepspeed.sh: $file says otherwise than tagc-run; remove (and export what you need of it): $other" >&2
    exit 1
  fi
  new=$(printf "%s\n" "$ours" | awk "!there[\$0]++" "$file" -) && printf "%s\n" "$new" >"$file" || exit 1
  exec deepspeed --hostfile "${HOSTFILE:-hostfile}" train.py --deepspeed ds_config.json "$@"' sh "$@"
