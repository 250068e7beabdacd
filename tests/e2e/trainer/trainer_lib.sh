# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# Shared code of the tests of the example trainer. Sourced by a script that ends with `finish`.
export LC_ALL=C
# shellcheck source=tests/environment.sh
. "$abs_top_srcdir/tests/environment.sh"
unset LD_PRELOAD
trainer=$abs_top_builddir/examples/train_gpt
launch=$abs_top_builddir/tests/standin/launch
folder=$(mktemp -d "${TMPDIR:-/tmp}/tagc-trainer.XXXXXX") || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM
points=0
failed=0

# check WHAT COMMAND...: one test point, which holds if the command succeeds.
check() {
  what=$1
  shift
  points=$((points + 1))
  if "$@"; then
    echo "ok $points - $what"
  else
    echo "not ok $points - $what"
    failed=$((failed + 1))
  fi
}

# tiny RANKS NAME OPTION...: trains a tiny model; output to NAME.out, parameters to NAME.bin, calls to NAME.stats.RANK.
tiny() {
  ranks=$1
  name=$2
  shift 2
  "$launch" -n "$ranks" --no-prefix --stats "$folder/$name.stats" -- "$trainer" --layers 2 --hidden 20 --heads 2 --context 16 --steps 6 \
    --warmup-steps 2 --eval-sequences 10 --dump-params "$folder/$name.bin" "$@" > "$folder/$name.out" 2>&1 ||
    { sed 's/^/# /' "$folder/$name.out"; return 1; }
}

# value NAME KEY: prints a value of the line "train: ..." of a run.
value() {
  sed -n "s/^train: .*\\b$2=\\([^ ]*\\).*/\\1/p" "$folder/$1.out"
}

finish() {
  echo "1..$points"
  [ "$failed" -eq 0 ]
}
