#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Measures the gain of TAGC_DEPTH: one reduce-scatter of ELEMENTS fp32 at RATE_MBIT, in one piece and in several. The
# stand-in plays RANKS ranks, each on its own host. GATHER=1 measures an all-gather of parameters with a codec of
# TAGC_ALLGATHER instead. depth.sh BUILD_DIR [RATE_MBIT [ELEMENTS [RANKS [ROUNDS]]]]. CODECS and DEPTHS can be chosen
# (0: the library chooses; 1 comes first), and BUSY=1 keeps all cores busy beside it. Each round goes through all
# depths, so other load on the machine meets all of them. The result of a depth is the median over the rounds of medians
# of CALLS (15) calls. Hidden: the part of encoding and decoding that ran while the call's bytes travelled, by the
# report of rank 0. Model: the time over that of one piece by tagc_call_ns() (kernels/codec/cost.h), from `tagc-bench
# --simulate --depth` at this rate, with a latency of ALPHA_US (50) and the measured encoding and decoding of one piece.
set -eu
unset CDPATH
export LC_ALL=C # decimals have points
build=$(cd "${1:-build}" && pwd)
rate=${2:-200} elements=${3:-4194304} ranks=${4:-2} rounds=${5:-5} calls=${CALLS:-15} alpha=${ALPHA_US:-50}
results=$(mktemp -d "${TMPDIR:-/tmp}/tagc-depth.XXXXXX")
spinners=''
trap 'for spinner in $spinners; do kill "$spinner" 2>/dev/null || :; done; rm -rf "$results"' EXIT
trap 'exit 130' INT TERM

# measure CODEC DEPTH: prints milliseconds, the hidden share, and milliseconds of a call: work, exchange, encode,
# decode.
measure()
{
  if [ "${GATHER:-0}" = 1 ]; then
    of=gather_ reduces=q4 gather=$1
  else
    of='' reduces=$1 gather=off
  fi
  TAGC_WARMUP=0 TAGC_ASSUME=gradients TAGC_MIN_BYTES=0 TAGC_REPORT=1 TAGC_SCOPE=flat TAGC_CODEC=$reduces TAGC_ALLGATHER=$gather TAGC_DEPTH=$2 \
    "$build/tests/standin/launch" -n "$ranks" --no-prefix --rate "${rate}mbit" --preload "$build/libtagc-preload.so" -- \
    "$build/tests/bench/exchange" "$elements" "$calls" ${of:+gather} >"$results/out" 2>"$results/err"
  awk -v of="$of" 'NR == FNR { ms = $1; next }
    /^tagc-total:/ && !done { for (i = 1; i <= NF; i++) { split($i, pair, "="); value[pair[1]] = pair[2] } done = 1 }
    END { encode = value[of "encode_ms"]; decode = value[of "decode_ms"]; work = encode + decode
          calls = value[of ? "gathers_compressed" : "compressed"]; calls = calls ? calls : 1
          printf "%.4f %.4f %.3f %.3f %.4f %.4f\n", ms, work ? value[of "hidden_ms"] / work : 0, work / calls,
                 value[of "exchange_ms"] / calls, encode / calls, decode / calls }' \
    "$results/out" "$results/err"
}

# model CODEC DEPTH ENCODE_MS DECODE_MS: prints milliseconds.
model()
{
  speeds=$(awk -v n="$elements" -v w="$ranks" -v e="$3" -v d="$4" 'BEGIN {
    mb = 4 * n / w * (w - 1) / 1e6; print "--encode", (e > 0 ? mb / e : 1e6), "--decode", (d > 0 ? mb / d : 1e6) }')
  # shellcheck disable=SC2086 # words
  "$build/tagc-bench" --json --codec "$1" --simulate "ranks=$ranks..$ranks" --alpha "$alpha" --message 0 --units "$elements" \
    --beta "$(awk -v r="$rate" 'BEGIN { print r / 1000 }')" $speeds --depth "$2" | sed -n 's/.*"'"$1"'": {"step_ms": \([0-9.]*\).*/\1/p'
}

median() { sort -n | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'; }

if [ "${BUSY:-0}" = 1 ]; then
  for core in $(seq "$(nproc)"); do
    nice -n 0 sh -c 'while :; do :; done' &
    spinners="$spinners $!"
  done
fi
echo "$elements elements of fp32, $ranks ranks, $rate Mbit/s, $rounds rounds${BUSY:+, busy cores}"
printf '%-8s %5s %9s %9s %9s %8s %12s %12s\n' codec depth ms 'of one' model hidden 'work, ms' 'exchange, ms'
for codec in ${CODECS:-q8 q4}; do
  for round in $(seq "$rounds"); do
    for depth in ${DEPTHS:-1 2 4 8 0}; do
      measure "$codec" "$depth" >>"$results/$codec.$depth"
    done
  done
  take() { cut -d' ' -f"$2" "$results/$codec.$1" | median; }
  one=$(take 1 1) encode=$(take 1 5) decode=$(take 1 6)
  for depth in ${DEPTHS:-1 2 4 8 0}; do
    said=-
    if [ "$depth" != 0 ] && [ "$codec" != auto ] && [ "${GATHER:-0}" != 1 ]; then
      said=$(echo "$(model "$codec" "$depth" "$encode" "$decode")" "$(model "$codec" 1 "$encode" "$decode")" | awk '{ printf "%.3f", $1 / $2 }')
    fi
    printf '%-8s %5s %9.2f %9.3f %9s %7.0f%% %12s %12s\n' "$codec" "$depth" "$(take "$depth" 1)" \
      "$(awk -v a="$(take "$depth" 1)" -v b="$one" 'BEGIN { print a / b }')" "$said" "$(take "$depth" 2 | awk '{ print 100 * $1 }')" \
      "$(take "$depth" 3)" "$(take "$depth" 4)"
  done
done
