#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What TAGC_DEPTH is worth: one reduce-scatter of ELEMENTS fp32 among RANKS ranks that the stand-in plays on a host each, at RATE_MBIT,
# in one piece and in several. depth.sh BUILD_DIR [RATE_MBIT [ELEMENTS [RANKS [ROUNDS]]]]. CODECS and DEPTHS can be chosen (0: by itself;
# 1 comes first), and BUSY=1 keeps all cores busy beside it. Rounds go through all depths, one after the other, so that what else the
# machine does meets all of them; of a depth the median over the rounds counts, of medians of 15 calls. Hidden: what of encoding and
# decoding was done while the call's bytes travelled, by the report of rank 0.
set -eu
build=$(cd "${1:-build}" && pwd)
rate=${2:-200} elements=${3:-4194304} ranks=${4:-2} rounds=${5:-5}
results=$(mktemp -d "${TMPDIR:-/tmp}/tagc-depth.XXXXXX")
spinners=''
trap 'for spinner in $spinners; do kill "$spinner" 2>/dev/null || :; done; rm -rf "$results"' EXIT
trap 'exit 130' INT TERM

# measure CODEC DEPTH: a line of milliseconds, and the hidden share.
measure()
{
  TAGC_WARMUP=0 TAGC_ASSUME=gradients TAGC_MIN_BYTES=0 TAGC_REPORT=1 TAGC_SCOPE=flat TAGC_CODEC=$1 TAGC_DEPTH=$2 \
    "$build/tests/standin/launch" -n "$ranks" --no-prefix --rate "${rate}mbit" --preload "$build/libtagc-preload.so" -- \
    "$build/tests/bench/exchange" "$elements" 15 >"$results/out" 2>"$results/err"
  awk 'NR == FNR { ms = $1; next }
    /^tagc-total:/ && !done { for (i = 1; i <= NF; i++) { split($i, pair, "="); value[pair[1]] = pair[2] } done = 1 }
    END { work = value["encode_ms"] + value["decode_ms"]; calls = value["compressed"] ? value["compressed"] : 1
          printf "%.4f %.4f %.3f %.3f\n", ms, work ? value["hidden_ms"] / work : 0, work / calls, value["exchange_ms"] / calls }' \
    "$results/out" "$results/err"
}

median() { sort -n | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'; }

if [ "${BUSY:-0}" = 1 ]; then
  for core in $(seq "$(nproc)"); do
    nice -n 0 sh -c 'while :; do :; done' &
    spinners="$spinners $!"
  done
fi
echo "$elements elements of fp32, $ranks ranks, $rate Mbit/s, $rounds rounds${BUSY:+, busy cores}"
printf '%-6s %5s %9s %9s %8s %12s %12s\n' codec depth ms 'of one' hidden 'work, ms' 'exchange, ms'
for codec in ${CODECS:-q8 q4}; do
  for round in $(seq "$rounds"); do
    for depth in ${DEPTHS:-1 2 4 8 0}; do
      measure "$codec" "$depth" >>"$results/$codec.$depth"
    done
  done
  one=$(cut -d' ' -f1 "$results/$codec.1" | median)
  for depth in ${DEPTHS:-1 2 4 8 0}; do
    ms=$(cut -d' ' -f1 "$results/$codec.$depth" | median)
    printf '%-6s %5s %9.2f %9.3f %7.0f%% %12s %12s\n' "$codec" "$depth" "$ms" "$(awk -v a="$ms" -v b="$one" 'BEGIN { print a / b }')" \
      "$(cut -d' ' -f2 "$results/$codec.$depth" | median | awk '{ print 100 * $1 }')" \
      "$(cut -d' ' -f3 "$results/$codec.$depth" | median)" "$(cut -d' ' -f4 "$results/$codec.$depth" | median)"
  done
done
