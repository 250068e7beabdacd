#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Measures the library's cost for a call that passes, on the stand-ins: overhead.sh BUILD_DIR [BURSTS]. Two hosts, with
# one rank and with two ranks each; host memory, and device memory if the build has the stand-in for it. Columns after
# `plain` are the time on top of that.
set -eu
unset CDPATH
export LC_ALL=C # decimals have points
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-build}" && pwd)
bursts=${2:-300}
. "$here/overhead_lib.sh"
on_stand_in() { "$build/tests/standin/launch" -n "$ranks" --hosts 2 --no-prefix $cuda -- env "$@"; }
for memory in host cuda; do
  cuda=
  [ $memory = host ] || cuda=--cuda
  [ $memory = host ] || [ -e "$build/tests/standin/cuda/libcuda.so.1" ] || continue
  for ranks in 2 4; do
    echo "$ranks ranks on 2 hosts, $memory memory: ns"
    overhead_table on_stand_in "$build/tests/bench/overhead" $memory "$bursts" "$build/libtagc-preload.so" \
      3 off observe observe+trace compress
  done
done
