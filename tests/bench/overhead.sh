#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What the library costs a call: overhead.sh BUILD_DIR [CALLS]. The best of nine rounds of so many calls (a million), in one
# table. With another NCCL in LD_LIBRARY_PATH it is that one's calls.
set -eu
build=$(cd "${1:-build}" && pwd)
calls=${2:-1000000}
run() { env "$@" "$build/tests/bench/overhead" "$calls"; }
direct=$(run)
printf '%-28s %8s %12s\n' "ncclAllReduce of nothing" "ns/call" "over direct"
printf '%-28s %8s\n' direct "$direct"
for mode in off observe compress; do
  ns=$(run TAGC_MODE=$mode LD_PRELOAD="$build/libtagc-preload.so")
  printf '%-28s %8s %12s\n' "TAGC_MODE=$mode" "$ns" "$(echo "$ns $direct" | awk '{ printf "%.1f", $1 - $2 }')"
done
