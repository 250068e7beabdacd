#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What the library costs a call: overhead.sh BUILD_DIR. The best of nine rounds of a million calls each, in one table.
set -eu
build=$(cd "${1:-build}" && pwd)
run() { env "$@" "$build/tests/bench/overhead"; }
direct=$(run)
printf '%-28s %8s %12s\n' "ncclAllReduce of nothing" "ns/call" "over direct"
printf '%-28s %8s\n' direct "$direct"
for mode in off observe compress; do
  ns=$(run TAGC_MODE=$mode LD_PRELOAD="$build/libtagc-preload.so")
  printf '%-28s %8s %12s\n' "TAGC_MODE=$mode" "$ns" "$(echo "$ns $direct" | awk '{ printf "%.1f", $1 - $2 }')"
done
