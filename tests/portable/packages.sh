#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tries the packages of build/dist on a bare Debian, by try_package.sh: some twenty minutes on two cores.
#   tests/portable/packages.sh [SUITE...]
# The default is the suite of this machine, with all packages, and bullseye (glibc 2.31), with the wheel alone. Ranks
# train there on the stand-in for NCCL, where the programs of this build start. TRY="deb rpm" tries only these. Needs
# root, like debian.sh; ./quickstart package makes the packages.
set -eu
unset CDPATH
die() { printf 'packages.sh: %s\n' "$*" >&2; exit 2; }
cd "$(dirname "$0")/../.."
version=$(sed -n 's/^VERSION = //p' build/Makefile)
# Packages of distributions depend on libraries of the suite where they were built.
# shellcheck source=/dev/null
here=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
[ $# -gt 0 ] || case $here in '' | bullseye) set -- bullseye ;; *) set -- "$here" bullseye ;; esac

kit=$(mktemp -d "${TMPDIR:-/tmp}/tagc-kit.XXXXXX")
trap 'rm -rf "$kit"' EXIT
trap 'exit 130' INT TERM HUP
mkdir -p "$kit/kit/wheels" "$kit/kit/pypi"
make -C build -s tests/standin/launch tests/standin/libnccl.so.2 tests/e2e/calls/steps
cp -L build/tests/standin/launch build/tests/standin/libnccl.so.2 build/tests/e2e/calls/steps "$kit/kit/"
echo "$version" >"$kit/kit/version"

# put COMMAND FOLDER FILE...: copies packages into a folder of the kit. The command makes them.
put()
{
  command=$1 folder=$2
  shift 2
  [ -e "$1" ] || die "there is no $1 ($command makes it)"
  cp "$@" "$kit/kit/$folder"
}

# from_pypi NAME: the checks that need it are skipped without.
from_pypi() { python3 -m pip download --quiet --only-binary :all: --dest "$kit/kit/pypi" "$1" || echo "PyPI brings no $1"; }

# bring PACKAGE: puts into the kit what try_package.sh needs for it.
bring()
{
  case $1 in
    deb) put "./quickstart package deb" . "build/dist/tagc_$version"-1_*.deb ;;
    rpm) put "./quickstart package rpm" . "build/dist/tagc-$version"-1*.rpm ;;
    module)
      make -C build -s install modulefile prefix="/opt/tagc/$version" DESTDIR="$kit/kit/module" packages="$kit/kit/module" >/dev/null ;;
    conda)
      make -C build -s conda-recipe packages="$kit/kit" >/dev/null
      from_pypi py-rattler-build ;;
    aarch64)
      put "./quickstart package wheel aarch64" wheels "build/dist/tagc-$version"-*_aarch64.whl
      from_pypi auditwheel ;;
    wheel)
      put "./quickstart package" wheels "build/dist/tagc-$version"-*_"$(uname -m)".whl
      from_pypi auditwheel ;;
    *) put "./quickstart package" wheels "build/dist/tagc-$version"-*_"$(uname -m)".whl ;;
  esac
}

make -C build -s "tagc-$version.tar.xz"
for suite; do
  packages=${TRY:-wheel}
  [ "$suite" != "$here" ] || packages=${TRY:-image wheel deb rpm module conda slurm aarch64}
  set --
  for package in $packages; do
    bring "$package"
    set -- "$@" "tests/portable/try_package.sh $package"
  done
  tests/portable/debian.sh --tarball "build/tagc-$version.tar.xz" --put "$kit/kit" --only root "$suite" "$@"
done
