#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Measures the bytes and the time of one reduce-scatter on hosts with several ranks, through the library and the
# stand-in for NCCL. hosts.sh BUILD_DIR [RATE_MBIT [ELEMENTS [SHAPE...]]], a SHAPE being HOSTSxLOCAL. First on hosts
# that the stand-in plays: a host may send RATE_MBIT (50) to others, a rank RATE_INSIDE (eight times as much) inside.
# Then, for shapes of two hosts, on two network namespaces, if this user may make them: with a token bucket (tbf) on the
# wire between them and shared memory inside. CODECS and SCOPES can be chosen, too.
#
# "The bytes allow" is the time of a host's bytes to others at RATE_MBIT, and of a rank's bytes inside at RATE_INSIDE:
# the sum in two levels, otherwise the longer of the two. A limit lets 64 KiB through at once, and on a wire 1448 of
# 1514 bytes are payload. The processor's time is on top. Choose a rate at which ranks do not wait for the processor,
# and so many elements that 64 KiB are little. Takes a quarter of an hour, mostly waiting.
set -eu
unset CDPATH
export LC_ALL=C # decimals have points
build=$(cd "${1:-build}" && pwd)
rate=${2:-50} elements=${3:-4194304}
[ $# -gt 3 ] && shift 3 || set -- 2x2 2x4 4x2
sparsity=${SPARSITY:-0.95}
stats=$(mktemp -d "${TMPDIR:-/tmp}/tagc-hosts.XXXXXX")
host_a='' host_b=''
. "$(dirname "$0")/exchange_lib.sh"
. "$(dirname "$0")/../../examples/hosts.sh"
trap '[ -z "$host_a" ] || remove_hosts; rm -rf "$stats"' EXIT
trap 'exit 130' INT TERM

# on_namespaces PROGRAM...: runs the ranks on both of them, the lower half on the first.
on_namespaces()
{
  on_both "$local" env NCCL_STANDIN_STATS="$stats/rank" LD_LIBRARY_PATH="$build/tests/standin" \
    LD_PRELOAD="$build/libtagc-preload.so" "$@"
}

# line CODEC SCOPE MS BETWEEN INSIDE
line()
{
  echo "$shape $* $plain" | awk -v rate="$payload_rate" -v inside="$inside" '
    function ms(bytes, mbit) { return bytes > 65536 && mbit ? 8 * (bytes - 65536) / mbit / 1000 : 0 }
    {
      between = ms($5, rate); within = ms($6, inside)
      allowed = $3 == "inter" ? between + within : between > within ? between : within
      printf "%5s %-6s %-5s %9.1f %10.1f %10.3f %10.3f %10.3f %10.4f\n", $1, $2, $3, $4, allowed, $4 / allowed,
             $5 / 1e6, $6 / 1e6, $5 / $8
    }'
}

# measure START SHAPE
measure()
{
  shape=$2 hosts=${2%x*} local=${2#*x}
  plain=$(exchange "$1" "$elements" 5 TAGC_MODE=off)
  # shellcheck disable=SC2086 # plain and numbers are several words
  line plain - $plain
  for codec in ${CODECS:-q8 q4 sparse lhc}; do
    for scope in ${SCOPES:-flat inter}; do
      numbers=$(exchange "$1" "$elements" 5 TAGC_MODE=compress "TAGC_CODEC=$codec" "TAGC_SCOPE=$scope")
      # shellcheck disable=SC2086
      line "$codec" "$scope" $numbers
    done
  done
}

header()
{
  echo "$elements elements of fp32, sparsity $sparsity, $rate Mbit/s between hosts; $1"
  form='%5s %-6s %-5s %9s %10s %10s %10s %10s %10s\n'
  # shellcheck disable=SC2059
  printf "$form" '' '' '' '' 'the bytes' 'time over' 'MB a host' 'MB a rank' 'of plain'
  # shellcheck disable=SC2059
  printf "$form" shape codec scope ms 'allow, ms' allowed to-others inside between
}

inside=${RATE_INSIDE:-$((8 * rate))} payload_rate=$rate
header "played hosts, $inside Mbit/s a rank inside"
for shape; do measure on_played_hosts "$shape"; done

inside='' payload_rate=$(awk -v rate="$rate" 'BEGIN { print rate * 1448 / 1514 }')
two_hosts || case $? in
  1) echo "no network namespaces: they need root and ip(8)"; exit 0 ;;
  *) echo "no wire between two network namespaces: ip(8) fails, as it says above" >&2; exit 1 ;;
esac
limit_wire "${rate}mbit" 64kb || {
  echo "no token bucket on a wire: that needs tc(8) and the kernel's sch_tbf"
  exit 0
}
echo
header "network namespaces, shared memory inside"
for shape; do
  [ "${shape%x*}" != 2 ] || measure on_namespaces "$shape"
done
