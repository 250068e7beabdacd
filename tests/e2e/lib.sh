# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the end-to-end tests: TAP output, and ranks with the library in front of them.
# shellcheck shell=sh
unset CDPATH
export LC_ALL=C                      # what other programs print is compared, too
: "${abs_top_builddir:=$(pwd)}" "${abs_top_srcdir:=$(cd "$(dirname "$0")/../../.." && pwd)}"
launch="$abs_top_builddir/tests/standin/launch"
library="$abs_top_builddir/libtagc-preload.so"
programs="$abs_top_builddir/tests/e2e"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/tagc-e2e.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
# shellcheck source=tests/tap.sh
. "$abs_top_srcdir/tests/tap.sh"
# shellcheck source=tests/environment.sh
. "$abs_top_srcdir/tests/environment.sh"
unset LD_PRELOAD TAGC_TEST_WHOLE     # TAGC_TEST_HIDE stays: see tests/README.md
export TAGC_CODEC=lhc                # what is compressed shall not depend on how fast this machine is; see auto.test
export TAGC_RESIDUAL=fp32            # sums are compared to the last bit
export TAGC_SCOPE=flat               # the ranks of most tests share this machine; see levels.test

# LD_PRELOAD cannot name a path with a space: in such a folder the tests use a link. tagc-run makes no link, and is not
# tested there.
spaced=
case $library in
  *' '*)
    spaced="tagc-run preloads nothing out of a folder with a space in its name"
    mkdir "$scratch/link" && ln -s "$library" "$scratch/link/" && library=$scratch/link/libtagc-preload.so ;;
esac

# In programs that were built without sanitizers, a sanitized library needs its runtime in front of it.
runtime=$(ldd "$library" | awk '/lib(asan|tsan|clang_rt)/ { print $3; exit }')
preload="${runtime:+$runtime:}$library"
# A build with sanitizers or counters is not what users get, so some checks are left out.
instrumented=$(nm "$library" 2>/dev/null | grep -q '__[amt]san_\|__ubsan_\|__gcov_' && echo yes)
export LSAN_OPTIONS="${LSAN_OPTIONS:-}:detect_leaks=0"

# may_race FUNCTION: the thread sanitizer reports no race there.
may_race()
{
  echo "race:$1" >"$scratch/suppressions"
  export TSAN_OPTIONS="${TSAN_OPTIONS:-}:suppressions=$scratch/suppressions"
}
# A call that failed or was aborted may still count while the report is printed at exit.
report_may_race() { may_race report_at_exit; }

# tells_bytes FILE: prints in how many calls, of those that the stand-in wrote into a file (launch --stats), ranks told each
# other the bytes of their nonzero sums: all-gathers of one ncclUint64.
tells_bytes() { awk '$2 == "ncclAllGather" && $4 == 1 && $5 == 5' "$1" 2>/dev/null | wc -l; }

# from_makefile TEXT: expands make's variables, such as '$(libdir)'.
from_makefile()
{
  printf 'print:; @echo %s\n' "$1" | MAKEFLAGS='' make -s --no-print-directory -f "$abs_top_builddir/Makefile" -f - print
}

# installed_programs: prints the programs of this build. make check has named them.
# shellcheck disable=SC2016 # make expands this
installed_programs() { echo "${bin_programs:-$(from_makefile '$(bin_PROGRAMS)')}"; }

# runs_on_old_glibc LIBRARY: succeeds if glibc 2.28 (RHEL 8, Ubuntu 20.04, manylinux_2_28) has all that it needs. That
# glibc has threads and dlopen() in separate libraries. Versions without a number (GLIBC_ABI_DT_RELR) are newer.
runs_on_old_glibc()
{
  is "" "$(readelf -W --dyn-syms --version-info "$1" | grep -oE '[A-Za-z0-9_]*@?GLIBC_[A-Za-z0-9_.]+' | sort -u |
    awk -F GLIBC_ '{ split($2, number, "."); if (number[1] != 2 || number[2] > 28) print }')" \
    "${1##*/}: no symbol is newer than glibc 2.28"
  for needed in libdl.so.2 libpthread.so.0; do
    readelf -dW "$1" | grep -q "NEEDED.*\[$needed\]"
    point $? "${1##*/}: needs $needed"
  done
}

# take_points FILE: adds the test points of a program's output.
take_points()
{
  while IFS= read -r line; do
    case $line in
      "ok "*) point 0 "${line#*- }" ;;
      "not ok "*) point 1 "${line#*- }" ;;
      "#"*) echo "$line" ;;
    esac
  done <"$1"
}
