#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What TAGC_ALLGATHER=exact sends of the all-gathers of a training: exact.sh BUILD [STEPS [LR...]] trains the example on
# two ranks with fp32 parameters that are gathered as bf16, with a warm-up over a tenth of the steps and a half cosine
# behind it, plain and with exact, at each learning rate. It compares the parameters at the end. The table has the bits
# an element of first and of repeated gathers over the steps, sizes with their margins, refused calls and all. The last
# line has the means from the eleventh step on. TYPE=fp32 gathers fp32, BATCH sets the sequences of a rank in a step.
# The files stay in RESULTS (BUILD/exact): LR.tsv has every step.
set -u
unset CDPATH
export LC_ALL=C # decimals have points
[ $# -gt 0 ] || { echo "usage: exact.sh BUILD [STEPS [LR...]]" >&2; exit 2; }
build=$(cd "$1" && pwd) || exit 1
steps=${2:-500}
if [ $# -lt 2 ]; then shift 1; else shift 2; fi
[ $# -gt 0 ] || set -- 0.003 0.0003 0.00003
type=${TYPE:-bf16}
results=${RESULTS:-$build/exact}
mkdir -p "$results" || exit 1

# train NAME LR VARIABLE=value...
train() {
  name=$1 lr=$2
  shift 2
  env TAGC_WARMUP=0 TAGC_SCOPE=flat TAGC_MIN_BYTES=64K TAGC_REPORT=1 "$@" "$build/tests/standin/launch" -n 2 --no-prefix \
    --stats "$results/$name.stats" --preload "$build/libtagc-preload.so" -- "$build/examples/train_gpt" --steps "$steps" \
    --warmup-steps $((steps / 10)) --batch "${BATCH:-8}" --lr "$lr" --allgather-type "$type" --print-every 0 \
    --dump-params "$results/$name.bin" >"$results/$name.out" 2>&1 || { tail "$results/$name.out" >&2; exit 1; }
}

# bytes NAME: step, bytes of a step's first gathers, and of the others, of rank 0. A step of plain has as many of both;
# one with refused calls has some more. It ends with the trainer's all-reduce of two floats.
bytes() {
  awk -F '\t' -v units=6 '
    NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
    $column["function"] == "ncclAllGather" { n++; sum[n > units] += $column["payload_bytes"] }
    $column["function"] == "ncclAllReduce" && $column["count"] == 2 {
      print ++step, sum[0], sum[1]
      n = sum[0] = sum[1] = 0
    }' "$results/$1.stats.0"
}

for lr; do
  train "plain-$lr" "$lr" TAGC_MODE=off
  train "exact-$lr" "$lr" TAGC_CODEC=none TAGC_ALLGATHER=exact
  same=no
  cmp -s "$results/plain-$lr.bin" "$results/exact-$lr.bin" && same=yes
  { bytes "plain-$lr"; bytes "exact-$lr"; } | awk -v lr="$lr" -v same="$same" -v last="$steps" -v file="$results/$lr.tsv" \
    -v bits="$([ "$type" = fp32 ] && echo 32 || echo 16)" -v refused="$(sed -n 's/.* gathers_refused=\([0-9]*\).*/\1/p' "$results/exact-$lr.out")" '
    BEGIN { print "step\tfirst\trepeated\tof_plain" >file; printf "learning rate %s\n  step   first  repeated  of plain\n", lr }
    $1 == 1 { run++ }
    run == 1 { first[$1] = $2; again[$1] = $3; next }
    {
      f = bits * $2 / first[$1]; r = bits * $3 / again[$1]; p = ($2 + $3) / (first[$1] + again[$1])
      printf "%d\t%.4f\t%.4f\t%.5f\n", $1, f, r, p >file
      if ($1 % (last / 10) == 0 || $1 == 11) printf "%6d  %6.3f    %6.3f    %6.4f\n", $1, f, r, p
      if ($1 > 10) { n++; fs += f; rs += r; ps += p }
    }
    END { printf "exact: lr=%s steps=%d first_bits=%.3f repeated_bits=%.4f of_plain=%.4f refused=%d same_parameters=%s\n", lr, last, fs / n, rs / n, ps / n, refused, same }'
done
