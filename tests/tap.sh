# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the scripts of tests: TAP output.
# shellcheck shell=sh
points=0 bad=0

# point STATUS DESCRIPTION...: one test point; STATUS 0 is a pass. Callers keep their $status.
point()
{
  points=$((points + 1))
  outcome=ok
  [ "$1" = 0 ] || outcome="not ok" bad=$((bad + 1))
  shift
  echo "$outcome $points - $*"
}

# skip DESCRIPTION REASON: skips one test point.
skip()
{
  points=$((points + 1))
  echo "ok $points - $1 # SKIP $2"
}

# is WANTED GOT DESCRIPTION...
is()
{
  wanted=$1 got=$2
  shift 2
  if [ "$wanted" = "$got" ]; then
    point 0 "$@"
  else
    point 1 "$@"
    echo "# wanted: $wanted"
    echo "# got:    $got"
  fi
}

# skip_all WHY: ends a test that cannot run here at all.
skip_all()
{
  echo "1..0 # SKIP $1"
  exit 0
}

done_testing()
{
  echo "1..$points"
  [ "$bad" = 0 ]
}
