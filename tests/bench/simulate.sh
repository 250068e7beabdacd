#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Compares the model of `tagc-bench --simulate` with a measurement. simulate.sh BUILD_DIR [RATE_MBIT [ELEMENTS
# [SHAPE...]]] measures one reduce-scatter through the library and the stand-in for NCCL, at a limited rate. It prints
# milliseconds, and the megabytes of a host to others, beside the prediction. A SHAPE is a number of ranks, each
# on a host of its own, or HOSTSxLOCAL. RATE_MBIT is the limit of a host to others, RATE_INSIDE (eight times as much)
# that of a rank inside its host. CODECS (all) and SCOPES (flat auto) select the cases. The latency is measured (a
# reduce-scatter of a few elements), the rates are the limits, and tagc-bench measures encode and decode on one core.
# Choose rates at which ranks do not wait for the processor, and so many elements that the 64 KiB which the limits let
# through at once do not matter. Takes minutes, mostly waiting.
set -eu
unset CDPATH
export LC_ALL=C # decimals have points
build=$(cd "${1:-build}" && pwd)
rate=${2:-100} elements=${3:-4194304}
[ $# -gt 3 ] && shift 3 || set -- 2 4 8
inside=${RATE_INSIDE:-$((8 * rate))} scopes=${SCOPES:-flat auto} sparsity=${SPARSITY:-0.95}
codecs=${CODECS:-$("$build/tagc-bench" --help | tr -s ' \n' ' ' | sed 's/.* some of \([a-z0-9 ]*\);.*/\1/')}
stats=$(mktemp -d "${TMPDIR:-/tmp}/tagc-simulate.XXXXXX")
trap 'rm -rf "$stats"' EXIT
trap 'exit 130' INT TERM

. "$(dirname "$0")/exchange_lib.sh"

# predict ALPHA_US CODEC: prints the step of tagc-bench's JSON, on one line.
predict()
{
  "$build/tagc-bench" --json --codec "$2" --simulate "hosts=$hosts..$hosts,local=$local" --alpha "$1" \
    --alpha-inside "$1" --message 0 --beta "$(echo "$rate" | awk '{ print $1 / 1000 }')" \
    --sparsity "$sparsity" --units "$elements" \
    --beta-inside "$(echo "$inside" | awk '{ print $1 / 1000 }')" | grep '"hosts"'
}

# take WAY: prints milliseconds and bytes of the prediction on stdin.
take() { sed -n 's/.*"'"$1"'": {"step_ms": \([^,]*\),[^}]*"between_bytes": \([^}]*\)}.*/\1 \2/p'; }

# line CODEC WAY MEASURED_MS MEASURED_BYTES MEASURED_INSIDE MODEL_MS MODEL_BYTES; `plain` holds the three measured
# values of plain calls.
line()
{
  echo "$shape $* $plain" | awk '{ printf "%5s %-6s %-5s %10.1f %10.1f %10.3f %10.3f %10.3f %10.3f\n",
    $1, $2, $3, $4, $7, $7 / $4, $4 / $9, $5 / 1e6, $8 / 1e6 }'
}

echo "$elements elements of fp32, $rate Mbit/s a host, $inside Mbit/s inside, sparsity $sparsity"
printf '%5s %-6s %-5s %10s %10s %10s %10s %10s %10s\n' shape codec scope ms "model ms" model/ms "of plain" MB "model MB"
for shape; do
  case $shape in
    *x*) hosts=${shape%x*} local=${shape#*x} ways=$scopes ;;
    *) hosts=$shape local=1 ways=flat ;;
  esac
  ranks=$((hosts * local))
  alpha=$(exchange on_played_hosts $ranks 51 TAGC_MODE=off | awk -v w=$ranks '{ print 1000 * $1 / (w - 1) }')
  plain=$(exchange on_played_hosts "$elements" 5 TAGC_MODE=off)
  # shellcheck disable=SC2046,SC2086
  line plain - $plain $(predict "$alpha" none | take plain)
  for codec in $codecs; do
    model=$(predict "$alpha" "$codec")
    for way in $ways; do
      measured=$(exchange on_played_hosts "$elements" 5 TAGC_MODE=compress "TAGC_CODEC=$codec" "TAGC_SCOPE=$way")
      [ "$way" = flat ] && level=flat || level=two_levels
      # shellcheck disable=SC2046,SC2086
      line "$codec" "$way" $measured $(echo "$model" | take "$level")
    done
  done
done
