#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Checks a long training run for growth, drift and reproducibility. ./quickstart soak builds everything and calls this.
# Runs the example trainer three times with one seed on two ranks: plain, and twice with windows of TAGC_MODE=ab. With
# --hosts there are two ranks on each of these hosts, and so two levels.
#
# Conditions (status 1 otherwise)
#   loss        every one is finite, and the mean of the last tenth is below that of the first
#   residual    its norm, taken after every compressed step, over that of the gradient: in the last fifth of the run at
#               most twice that of the second fifth
#   memory      VmRSS of each rank grows, from 35 % of the run to 95 % (compression has begun by then), by at most 256
#               KiB more than in the plain run
#   repetition  the two runs end with the same parameters and the same losses, to the last bit
set -u
unset CDPATH
export LC_ALL=C # decimals have points

usage()
{
  echo "usage: soak.sh BUILD_DIR [--steps N] [--hosts H] [--batch B]     N: at least 200 (10000); H: at least 2"
  echo "       B: sequences of a rank in a step, at least 1 (8); fewer take less time, and make the same calls"
}
fail() { echo "soak: $*" >&2; exit 1; }

[ $# -gt 0 ] || { usage >&2; exit 2; }
build=$1 steps=10000 hosts='' batch=8
shift
while [ $# -gt 0 ]; do
  case $1 in
    --steps) [ $# -gt 1 ] || fail "--steps needs a value"; steps=$2; shift 2 ;;
    --hosts) [ $# -gt 1 ] || fail "--hosts needs a value"; hosts=$2; shift 2 ;;
    --batch) [ $# -gt 1 ] || fail "--batch needs a value"; batch=$2; shift 2 ;;
    --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
case $steps in
  *[!0-9]* | '') fail "--steps $steps: expected a whole number of at least 200" ;;
esac
[ "$steps" -ge 200 ] || fail "--steps $steps: expected a whole number of at least 200"
case ${hosts:-2} in
  *[!0-9]* | 0* | 1) fail "--hosts $hosts: expected a whole number of at least 2" ;;
esac
case $batch in
  *[!0-9]* | 0* | '') fail "--batch $batch: expected a whole number of at least 1" ;;
esac
[ "$build" != - ] || exit 0         # asked only whether the options are right
ranks=$((${hosts:-1} * 2))
build=$(cd "$build" && pwd) || exit 1
trainer=$build/examples/train_gpt
[ -x "$trainer" ] || fail "$trainer is not there; was everything built (the trainer needs a BLAS)?"

results=$(mktemp -d "${TMPDIR:-/tmp}/tagc-soak.XXXXXX") || exit 1
trap 'rm -rf "$results"' EXIT
trap 'exit 130' INT TERM

# run NAME LAUNCH-OPTION...: makes one run. Leaves NAME.out, NAME.err, NAME.times, NAME.params, and NAME.memory: the
# resident KiB of the first two ranks at each twentieth of the run.
run()
{
  name=$1
  shift
  rm -f "$results"/pid.*
  # shellcheck disable=SC2016 # the ranks expand this
  {
    "$build/tests/standin/launch" -n $ranks ${hosts:+--hosts "$hosts"} --no-prefix "$@" -- \
      sh -c 'echo $$ >"$0/pid.$RANK"; exec "$@"' "$results" "$trainer" --layers 2 --hidden 64 --heads 4 --context 32 --batch "$batch" \
      --warmup-steps 20 --eval-sequences 64 --steps "$steps" --print-every $((steps / 20)) \
      --times "$results/$name.times" --dump-params "$results/$name.params" 2>"$results/$name.err"
    echo $? >"$results/$name.status"
  } | while IFS= read -r line; do
    printf '%s\n' "$line" >>"$results/$name.out"
    case $line in
      "step $steps/"*) ;;           # the ranks may be gone by now
      step*)
        for rank in 0 1; do
          sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$(cat "$results/pid.$rank")/status" 2>/dev/null
        done | paste -s -d ' ' >>"$results/$name.memory" ;;
    esac
  done
  [ "$(cat "$results/$name.status")" = 0 ] || { tail -n 20 "$results/$name.err" >&2; fail "the run '$name' failed"; }
}

# growth NAME: prints the growth in KiB of the rank that grew most, from the eighth sample of twenty, or the same share
# of fewer samples, to the last. On a busy machine a short run may end before its last samples are taken; these are
# empty.
growth()
{
  awk 'NF == 2 { a[++n] = $1; b[n] = $2 }
    END {
      first = int(n * 8 / 19)
      c = a[n] - a[first]; d = b[n] - b[first]
      print first ? (c > d ? c : d) : "none"
    }' "$results/$1.memory"
}

# column NAME WHICH: prints a column of the table of steps.
column()
{
  awk -F '\t' -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i } { print $at }' "$results/$1.times"
}

# losses NAME: prints the means of the first tenth and of the last tenth; nothing if one is not finite.
losses()
{
  awk -v tenth=$((steps / 10)) -v steps="$steps" '
    NR == 1 { for (i = 1; i <= NF; i++) if ($i == "loss") column = i; next }
    $column !~ /^[0-9]+\.[0-9]+$/ { bad = 1 }
    NR - 1 <= tenth { first += $column / tenth }
    NR - 1 > steps - tenth { last += $column / tenth }
    END { if (!bad && NR == steps + 1) printf "%.4f %.4f\n", first, last }' "$results/$1.times"
}

# residuals NAME: prints the largest norm of a rank's residual in each fifth of the run, over the mean norm of the
# gradient there; then the number of compressed steps. Cycles start a few steps after the run, which does not matter
# here.
residuals()
{
  sed -n 's/^tagc\[\([01]\)\] debug interpose: communicator 0: cycle \([0-9]*\) left a residual of norm \(.*\)$/\2 \3/p' \
    "$results/$1.err" | awk -v steps="$steps" '
    { fifth = int(5 * $1 / (steps + 1)) }
    NR == FNR && FNR > 1 { norm[fifth] += $8; n[fifth]++ }
    NR == FNR { next }
    $2 !~ /^[0-9.e+-]+$/ { bad = 1 }
    { compressed++ }
    $2 + 0 > most[fifth] { most[fifth] = $2 }
    END {
      for (i = 0; i < 5 && !bad; i++)
        printf "%.3f ", most[i] / (norm[i] / n[i])
      if (!bad) print compressed / 2   # two ranks
    }' "$results/$1.times" -
}

# value NAME KEY: prints a value of the report.
value()
{
  awk -v key="$2" '/^tagc-total:/ { for (i = 1; i <= NF; i++) if (sub("^" key "=", "", $i)) print $i }' "$results/$1.err"
}

run plain
export TAGC_CODEC=lhc TAGC_MODE=ab TAGC_MIN_BYTES=0 TAGC_REPORT=1 TAGC_LOG=debug
export TAGC_SCOPE=flat              # the two ranks share a host
[ -z "$hosts" ] || TAGC_SCOPE=auto
run first --preload "$build/libtagc-preload.so"
run second --preload "$build/libtagc-preload.so"

echo "soak: $steps steps, $ranks ranks${hosts:+ on $hosts hosts}; $(grep -c '^step' "$results/first.out") samples a run"
plain_loss=$(losses plain) loss=$(losses first) residual=$(residuals first)
plain_growth=$(growth plain) first_growth=$(growth first) second_growth=$(growth second)
echo "  losses, mean of the first and the last tenth: $loss (plain: $plain_loss)"
echo "  largest norm of the residual over that of the gradient in each fifth of the run; compressed steps: $residual"
echo "  calls: $(value first calls), compressed: $(value first compressed), values not recovered: $(value first unrecovered)"
echo "  memory of the ranks, KiB: $(tail -n 1 "$results/first.memory") (plain: $(tail -n 1 "$results/plain.memory"))"
echo "  its growth from 35 % of the run to 95 %: $first_growth and $second_growth KiB (plain: $plain_growth)"
for name in first second; do
  echo "  parameters of the $name run: SHA-256 $(sha256sum <"$results/$name.params" | cut -c1-16)..."
done

bad=0
# must CONDITION-STATUS WHAT
must() { [ "$1" = 0 ] || { bad=1; echo "soak: FAILED: $2" >&2; }; }
[ -n "$loss" ] && echo "$loss" | awk '{ exit !($2 < $1) }'
must $? "losses must be finite and fall"
echo "$residual" | awk -v steps="$steps" '{ exit !($6 > steps / 3 && $2 > 0 && $5 <= 2 * $2) }'
must $? "the residual must not grow, and a third of the steps must have been compressed"
[ "$plain_growth" != none ] && [ "$first_growth" -le $((plain_growth + 256)) ] && [ "$second_growth" -le $((plain_growth + 256)) ]
must $? "memory must not grow"
cmp -s "$results/first.params" "$results/second.params"
must $? "two runs must end with the same parameters"
[ "$(column first loss)" = "$(column second loss)" ]
must $? "two runs must have the same losses"
! cmp -s "$results/first.params" "$results/plain.params"
must $? "compression must show in the parameters"
exit $bad
