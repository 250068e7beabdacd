#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The bytes of TAGC_BROADCAST=exact: broadcast.sh BUILD [TENSORS [ELEMENTS]] broadcasts so many tensors in eleven rounds, of
# which a part changes by one unit in the last place from round to round, with each rank on a host of its own. The
# stand-in counts the bytes that leave rank 0's host, statuses and headers included. The table has those of a round behind
# the first one, over those of a round without the library; and the times of such a round at 1 Gbit/s.
set -u
unset CDPATH
export LC_ALL=C # decimals have points
[ $# -gt 0 ] || { echo "usage: broadcast.sh BUILD [TENSORS [ELEMENTS]]" >&2; exit 2; }
build=$(cd "$1" && pwd) || exit 1
tensors=${2:-100} count=${3:-262144} rounds=11
scratch=$(mktemp -d "${TMPDIR:-/tmp}/tagc-broadcast.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT

# run ROUNDS RANKS RATE ARGUMENT... VARIABLE=value...: prints the bytes that left rank 0's host, and milliseconds in calls.
run()
{
  of=$1 ranks=$2 rate=$3
  shift 3
  arguments=
  while [ "${1#*=}" != "$1" ] && [ "${1#TAGC_}" = "$1" ]; do arguments="$arguments $1"; shift; done
  # shellcheck disable=SC2086
  env TAGC_MIN_BYTES=64K TAGC_REPORT=0 TAGC_BROADCAST_MAX=16G "$@" "$build/tests/standin/launch" -n "$ranks" --no-prefix --rate "$rate" --stats "$scratch/stats" \
    --preload "$build/libtagc-preload.so" -- "$build/tests/e2e/broadcast/broadcasts" "$of" "tensors=$tensors" "count=$count" $arguments \
    >"$scratch/out" 2>&1 && ! grep '^not ok' "$scratch/out" >&2 || { tail "$scratch/out" >&2; exit 1; }
  awk -F '\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    $at["function"] ~ /Broadcast|AllGather|GroupEnd/ { bytes += $at["between_bytes"]; us += $at["microseconds"] } END { print bytes + 0, us / 1000 }' "$scratch/stats.0"
}

# round NAME...: of a round behind the first one, bytes and milliseconds.
round()
{
  first=$(run 1 "$@") all=$(run $rounds "$@")
  echo "$first $all" | awk -v n=$((rounds - 1)) '{ print ($3 - $1) / n, ($4 - $2) / n }'
}

printf 'ranks type  changed  plain bytes  exact bytes  of plain  plain ms  exact ms\n'
for ranks in 2 4; do
  for type in bf16 fp32; do
    plain=$(round $ranks 1gbit "type=$type" permille=10 TAGC_MODE=off)
    for permille in 0 10 100 500; do
      exact=$(round $ranks 1gbit "type=$type" permille=$permille TAGC_BROADCAST=exact)
      echo "$ranks $type $permille $plain $exact" | awk '
        { printf "%5d %4s  %5.1f %%  %11.0f  %11.0f  %8.4f  %8.1f  %8.1f\n", $1, $2, $3 / 10, $4, $6, $6 / $4, $5, $7 }'
    done
  done
done
