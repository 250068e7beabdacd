# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the tests of how programs reach NCCL: two ranks of a program, which also compress small calls.
# shellcheck shell=sh
. "$(dirname "$0")/../lib.sh"
nccl="$abs_top_builddir/tests/standin/libnccl.so.2"
plugin="$programs/nccl/nccl_plugin.so"
export TAGC_WARMUP=0 TAGC_ASSUME=gradients TAGC_MIN_BYTES=0 TAGC_SPARSITY=0.95 TAGC_REPORT=1

# ranks [VARIABLE=VALUE...] PROGRAM...: runs two ranks of it with $preload; leaves $status, $scratch/out and
# $scratch/err.
ranks()
{
  (
    while case $1 in [A-Z]*=*) ;; *) false ;; esac; do
      export "${1?}"
      shift
    done
    exec "$launch" -n 2 --no-prefix ${preload:+--preload "$preload"} -- "$@"
  ) >"$scratch/out" 2>"$scratch/err"
  status=$?
}

# compressed: prints the compressed calls of each communicator, in the order of the report.
compressed() { sed -n 's/^tagc-total: .* compressed=\([0-9]*\) .*/\1/p' "$scratch/err" | paste -s -d ' '; }

# reached WANTED DESCRIPTION [VARIABLE=VALUE...] PROGRAM...: checks that it succeeds, with WANTED compressed calls in
# each communicator.
reached()
{
  wanted_calls=$1 name=$2
  shift 2
  ranks "$@"
  is 0 $status "$name: runs and gets exact sums"
  [ $status = 0 ] || sed 's/^/# /;10q' "$scratch/err"
  is "$wanted_calls" "$(compressed)" "$name: calls compressed"
}

# said WANTED DESCRIPTION PATTERN: checks that WANTED lines of the messages match the pattern.
said() { is "$1" "$(grep -c -e "$3" "$scratch/err")" "$2"; }

# says DESCRIPTION PATTERN: checks that at least one rank prints it. (The others may be ended before.)
says() { grep -q -e "$2" "$scratch/err"; point $? "$1"; }
