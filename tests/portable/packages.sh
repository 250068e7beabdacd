#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Installs the packages of build/dist on a bare Debian, and runs their programs there: some minutes for each suite.
#   tests/portable/packages.sh [SUITE...]
# The default is the suite of this machine, which also gets the Debian package if there is one, and bullseye, which has
# glibc 2.31. Ranks train there on the stand-in for NCCL, where the programs of this build start. Needs root, like
# debian.sh; ./quickstart package makes the packages.
set -eu
die() { printf 'packages.sh: %s\n' "$*" >&2; exit 2; }
top=$(cd "$(dirname "$0")/../.." && pwd)

# ---- on the bare Debian: inside FILE, in a copy of the project that has the file and a folder kit/ ----

# all_start FOLDER LIBRARY: the programs in the folder start, and tagc-run preloads that library.
all_start()
{
  for name in run doctor report bench map; do
    "$1/tagc-$name" --version
  done
  said=$("$1/tagc-run" --print)
  [ "$said" = "export LD_PRELOAD='$2'" ] || die "tagc-run preloads otherwise than $2: $said"
  "$1/tagc-run" -- true 2>&1 | grep 'no NCCL call reached the library' || die "the library says nothing under tagc-run -- true"
  "$1/tagc-doctor" --python python3 | grep "preload *$2" || die "tagc-doctor does not know $2"
}

# ranks FOLDER: two ranks on the stand-in compress under the tagc-run of that folder.
ranks()
{
  if ! kit/launch --version >/dev/null 2>&1; then
    echo "SKIP ranks: the stand-in of this build needs a newer glibc than $(ldd --version | sed -n '1s/.* //p')"
    return
  fi
  kit/launch -n 2 --hosts 2 --no-prefix -- "$1/tagc-run" --codec q8 --min-bytes 0 --warmup 0 --report 1 -- kit/steps hash 14 >ranks.out 2>&1 ||
    die "ranks fail: $(tail -n 5 ranks.out)"
  grep '^tagc-total: .* compressed=[1-9]' ranks.out || die "nothing is compressed: $(tail -n 5 ranks.out)"
}

inside()
{
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  case $1 in
    *.deb)
      apt-get install -y -qq --no-install-recommends "./$1" python3 >apt.out 2>&1 || die "apt-get: $(tail -n 3 apt.out)"
      all_start /usr/bin "$(dpkg -L tagc | grep '/libtagc-preload.so$')"
      ranks /usr/bin
      LD_PRELOAD=libtagc-preload.so /bin/true 2>&1 | grep . && die "the dynamic linker does not find the library by its name"
      apt-get remove -y -qq tagc >apt.out 2>&1
      ! ldconfig -p | grep libtagc || die "the package leaves its library behind" ;;
    *.whl)
      apt-get install -y -qq --no-install-recommends python3-venv >apt.out 2>&1 || die "apt-get: $(tail -n 3 apt.out)"
      rm -rf /tmp/venv
      python3 -m venv /tmp/venv
      /tmp/venv/bin/pip --version
      /tmp/venv/bin/pip install --quiet --no-index "$1"
      all_start /tmp/venv/bin /tmp/venv/lib/libtagc-preload.so
      ranks /tmp/venv/bin
      [ "$(/tmp/venv/bin/python -m tagc library)" = /tmp/venv/lib/libtagc-preload.so ] || die "tagc.library_path() is wrong" ;;
    *) die "$1 is no .deb and no .whl" ;;
  esac
  echo "$1: well"
}

if [ "${1-}" = inside ]; then
  inside "$2"
  exit
fi

# ---- outside ----
cd "$top"
wheel=$(echo build/dist/tagc-*.whl) deb=$(echo build/dist/tagc_*.deb)
[ -e "$wheel" ] || die "there is no wheel in build/dist (./quickstart package makes one)"
# shellcheck source=/dev/null
here=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
[ $# -gt 0 ] || case $here in '' | bullseye) set -- bullseye ;; *) set -- "$here" bullseye ;; esac
kit=$(mktemp -d "${TMPDIR:-/tmp}/tagc-kit.XXXXXX")
trap 'rm -rf "$kit"' EXIT
trap 'exit 130' INT TERM HUP
make -C build -s tests/standin/launch tests/standin/libnccl.so.2 tests/e2e/calls/steps
mkdir "$kit/kit"
cp -L build/tests/standin/launch build/tests/standin/libnccl.so.2 build/tests/e2e/calls/steps "$kit/kit/"
for suite; do
  # The Debian package depends on the libraries of the suite where it was built.
  of_suite=$deb
  { [ "$suite" = "$here" ] && [ -e "$deb" ]; } || of_suite=
  "$top/tests/portable/debian.sh" --put "$wheel" --put "$kit/kit" ${of_suite:+--put "$deb"} --only root "$suite" \
    "tests/portable/packages.sh inside ${wheel##*/}" ${of_suite:+"tests/portable/packages.sh inside ${deb##*/}"}
done
