#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Measures the cost of a trace for a training: traced.sh BUILD_DIR [PAIRS]. Runs the trainer in pairs on two ranks with
# TAGC_MODE=observe. One run of each pair has TAGC_TRACE; the order alternates. Prints the median step of each run, and
# the median over the pairs of the time that the trace adds.
set -eu
unset CDPATH
export LC_ALL=C # decimals have points
build=$(cd "${1:-build}" && pwd)
pairs=${2:-9}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# step [VARIABLE=value]: prints the median step, in ms.
step()
{
  env TAGC_MODE=observe TAGC_REPORT=0 "$@" "$build/tests/standin/launch" -n 2 --no-prefix --preload "$build/libtagc-preload.so" -- \
    env OPENBLAS_NUM_THREADS=1 "$build/examples/train_gpt" --layers 4 --hidden 40 --heads 2 --context 32 --steps 150 --warmup-steps 2 \
    --eval-sequences 2 --eval-every 150 | sed -n 's/.*step_ms_median=\([^ ]*\).*/\1/p'
  rm -f "$scratch"/*
}
i=0
while [ "$i" -lt "$pairs" ]; do
  if [ $((i % 2)) = 0 ]; then
    plain=$(step); traced=$(step TAGC_TRACE="$scratch/t")
  else
    traced=$(step TAGC_TRACE="$scratch/t"); plain=$(step)
  fi
  echo "$plain $traced"
  i=$((i + 1))
done | awk '{ print "# " $1 " ms, traced " $2 " ms"; more[NR] = $2 / $1 - 1; sum += $1 }
  END { n = NR; for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (more[j] < more[i]) { t = more[i]; more[i] = more[j]; more[j] = t }
    printf "%d pairs: a step takes %.2f ms, traced %+.2f%% (middle half %+.2f%% to %+.2f%%)\n", n, sum / n, 100 * more[int((n + 1) / 2)],
      100 * more[int((n + 3) / 4)], 100 * more[int((3 * n + 3) / 4)] }'
