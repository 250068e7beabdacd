#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs the unit tests on other processors, by qemu's user emulation: hours, on few cores.
#   tests/portable/qemu.sh [PROCESSOR...]
# A PROCESSOR is a model of `qemu-x86_64 -cpu help`, or aarch64, where ranks also make calls that pass, and programs
# reach NCCL in every way (aarch64.test). The default is Nehalem (no AVX), Haswell (AVX2), Skylake-Server (AVX-512, if
# this qemu has it) and aarch64. The programs of x86-64 are in build/; programs that they start run on the real
# processor. Those of aarch64 are built in build/aarch64, with the installed libraries for it. They need a kernel that
# runs them by qemu: the script registers qemu in its own namespace, which takes Linux 6.7.
# TESTS="tests/unit/codec/test_cost ..." runs only these.
set -eu
unset CDPATH
cd "$(dirname "$0")/../.."
die() { printf 'qemu.sh: %s\n' "$*" >&2; exit 2; }
say() { printf '\n== %s\n' "$*"; }
needs() { command -v "$1" >/dev/null || die "there is no $1 (Debian: apt-get install $2)"; }
sysroot=/usr/aarch64-linux-gnu

# Points that cannot hold in the emulation, one per line: PROCESSOR|TEST|first words of the POINT|WHY. A test without a
# POINT does not run.
cannot_hold='
*|tests/unit/cycle/test_cycle|without memory there is no cycle|a limit of memory would be that of the emulator
*|tests/unit/env/test_options_secure|a setuid program ignores TAGC_*|the emulator gives a program no rights of its file
'

# why PROCESSOR TEST [POINT]: prints why it cannot hold there; fails if it must hold.
why()
{
  printf '%s' "$cannot_hold" | awk -F '|' -v processor="$1" -v test="$2" -v point="${3-}" '
    ($1 == "*" || $1 == processor) && $2 == test && ($3 == "") == (point == "") && index(point, $3) == 1 { print $4; found = 1 }
    END { exit !found }'
}

# failures TEST: prints the failed points in its log, and a line if it broke off.
failures()
{
  sed -n -e 's/^not ok [0-9]* - //p' -e '/exited with status/d' -e 's/^ERROR: [^ ]* - //p' "$1.log" | sort -u | grep . ||
    grep -qE '^:global-test-result: (PASS|SKIP)' "$1.trs" || echo "its end, or its beginning (see $1.log)"
}

# judge FOLDER PROCESSOR TEST...: prints the failures, expected ones as SKIP; fails if there are others.
judge()
{
  folder=$1 processor=$2 failed=''
  shift 2
  for test; do
    failures "$folder/${test%.test}" 2>&1 | while IFS= read -r point; do
      reason=$(why "$processor" "$test" "$point") && echo "SKIP $test: $point: $reason" || echo "FAIL $test: $point"
    done
  done >"$folder/judged"
  cat "$folder/judged"
  ! grep -q '^FAIL' "$folder/judged" || failed=yes
  echo "$processor: $# tests, $(grep -c '^FAIL' "$folder/judged") of their points failed, $(grep -c '^SKIP' "$folder/judged") cannot hold"
  [ -z "$failed" ]
}

# run_tests FOLDER PROCESSOR EMULATOR TEST...: runs and judges tests of a finished build.
run_tests()
{
  folder=$1 processor=$2 emulator=$3 tests=''
  shift 3
  for test; do
    if reason=$(why "$processor" "$test"); then
      echo "SKIP $test: $reason"
    else
      tests="$tests $test"
    fi
  done
  for test in $tests; do rm -f "$folder/${test%.test}.log" "$folder/${test%.test}.trs"; done
  make -C "$folder" --no-print-directory -k -j"$(nproc)" check check_PROGRAMS= TESTS="$tests" LOG_COMPILER="$emulator" \
    >"$folder/check-$processor.out" 2>&1 || true
  # shellcheck disable=SC2086 # a list
  judge "$folder" "$processor" $tests
}

unit_tests() { make -s -C "$1" print-tests | tr ' ' '\n' | grep '^tests/unit/' | tr '\n' ' '; }

# build FOLDER CONFIGURE_OPTION...: builds all that these tests need.
build()
{
  folder=$1
  shift
  mkdir -p "$folder"
  top=$PWD
  [ -e "$folder/Makefile" ] || (cd "$folder" && "$top/configure" --quiet "$@" >configure.out 2>&1) || {
    tail -n 20 "$folder/configure.out" >&2
    die "configure failed in $folder/"
  }
  programs="tests/e2e/standin/standin_collectives tests/e2e/standin/standin_groups tests/e2e/standin/standin_comms $(unit_tests "$folder")"
  make -C "$folder" -j"$(nproc)" check TESTS= check_PROGRAMS="$programs" >"$folder/make.out" 2>&1 || {
    grep -E 'error|\*\*\*' "$folder/make.out" >&2
    die "the build failed in $folder/"
  }
}

x86_64()
{
  say "x86-64 as $1"
  needs qemu-x86_64 qemu-user
  lacks=$(qemu-x86_64 -cpu "$1" /bin/true 2>&1) || die "qemu-x86_64 -cpu $1 runs nothing: $lacks"
  # On such a model the library uses the remaining sets, which another model has tested.
  if echo "$lacks" | grep -q 'avx512f'; then
    echo "SKIP $1: this qemu plays no AVX-512"
    return
  fi
  build build --without-cuda
  # shellcheck disable=SC2046,SC2086 # a list
  run_tests build "$1" "qemu-x86_64 -cpu $1" ${TESTS:-$(unit_tests build)}
}

# Runs the tests of build/aarch64; the kernel must run its programs by qemu.
emulated()
{
  # shellcheck disable=SC2046,SC2086 # a list
  QEMU_LD_PREFIX=$sysroot run_tests build/aarch64 aarch64 '' ${TESTS:-$(unit_tests build/aarch64) \
    tests/e2e/nccl/passthrough.test tests/e2e/project/aarch64.test}
}

aarch64()
{
  say "aarch64"
  needs aarch64-linux-gnu-gcc "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
  build build/aarch64 --host=aarch64-linux-gnu --without-cuda --without-nccl
  grep ' no (' build/aarch64/configure.out || true
  if QEMU_LD_PREFIX=$sysroot build/aarch64/tests/unit/policy/test_topology >/dev/null 2>&1; then
    emulated
    return
  fi
  needs qemu-aarch64 qemu-user
  unshare --user --map-root-user --mount "$0" emulated
}

# Registers qemu for programs of aarch64 in the kernel, for this namespace.
emulate()
{
  known=/proc/sys/fs/binfmt_misc
  mount -t binfmt_misc binfmt_misc $known 2>/dev/null ||
    die "before Linux 6.7 the kernel has to be told who runs programs for aarch64 (Debian: apt-get install qemu-user-static binfmt-support)"
  qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64)
  magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
  mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
  printf '%s' ":aarch64:M::$magic:$mask:$qemu:P" >$known/register
}

if [ "${1-}" = emulated ]; then
  emulate
  emulated
  exit
fi
bad=''
[ $# -gt 0 ] || set -- Nehalem Haswell Skylake-Server aarch64
for processor; do
  case $processor in
    aarch64) aarch64 || bad=yes ;;
    *) x86_64 "$processor" || bad=yes ;;
  esac
done
[ -z "$bad" ]
