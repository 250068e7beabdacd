#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Is the model of `tagc-bench --simulate` right? simulate.sh BUILD_DIR [RATE_MBIT [ELEMENTS [RANKS...]]]: one
# reduce-scatter through the library and the stand-in for NCCL, at a limited rate, against what the model says of it. The
# latency is measured (a reduce-scatter of next to nothing), the rate is the limit, encode and decode are measured by
# tagc-bench on one core: choose a rate at which the processor is not what ranks wait for. Takes minutes, mostly waiting.
set -eu
build=$(cd "${1:-build}" && pwd)
rate=${2:-100} elements=${3:-4194304}
[ $# -gt 3 ] && shift 3 || set -- 2 4 8
sparsity=${SPARSITY:-0.95}
codecs=$("$build/tagc-bench" --help | sed -n 's/^Codecs: //p' | tr -d ,)

# exchange RANKS ELEMENTS CALLS [VARIABLE=value...]: milliseconds
exchange()
{
  ranks=$1 count=$2 calls=$3
  shift 3
  env TAGC_WARMUP=0 TAGC_ASSUME=gradients TAGC_MIN_BYTES=0 TAGC_REPORT=0 "TAGC_SPARSITY=$sparsity" "$@" \
    "$build/tests/standin/launch" -n "$ranks" --no-prefix --rate "${rate}mbit" --preload "$build/libtagc-preload.so" -- \
    "$build/tests/bench/exchange" "$count" "$calls"
}

# predict RANKS ALPHA_US CODEC|plain
predict()
{
  [ "$3" = plain ] && codec=none || codec=$3
  "$build/tagc-bench" --json --codec "$codec" --simulate "ranks=$1..$1" --alpha "$2" --message 0 --sparsity "$sparsity" \
    --beta "$(echo "$rate" | awk '{ print $1 / 1000 }')" --units "$elements" |
    sed -n 's/.*"'"$3"'": {"step_ms": \([0-9.e+-]*\).*/\1/p'
}

echo "$elements elements of fp32, $rate Mbit/s a rank, sparsity $sparsity"
printf '%5s %9s %-8s %12s %12s %10s %12s\n' ranks "alpha us" codec "measured ms" "model ms" "model/meas" "meas/plain"
for ranks; do
  alpha=$(exchange "$ranks" "$ranks" 51 TAGC_MODE=off | awk -v w="$ranks" '{ print 1000 * $1 / (w - 1) }')
  plain=
  for codec in plain $codecs; do
    mode="TAGC_MODE=compress TAGC_CODEC=$codec"
    [ "$codec" = plain ] && mode=TAGC_MODE=off
    # shellcheck disable=SC2086
    measured=$(exchange "$ranks" "$elements" 5 $mode)
    plain=${plain:-$measured}
    echo "$ranks $alpha $codec $measured $(predict "$ranks" "$alpha" "$codec") $plain" |
      awk '{ printf "%5d %9.1f %-8s %12.1f %12.1f %10.3f %12.3f\n", $1, $2, $3, $4, $5, $5 / $4, $4 / $6 }'
  done
done
