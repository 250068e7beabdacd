#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Run by rattler-build, in the unpacked tarball.
set -eu
./configure --prefix="$PREFIX" --disable-dependency-tracking ${build_alias:+--build="$build_alias"} ${host_alias:+--host="$host_alias"}
make -j"${CPU_COUNT:-1}"
# What is built for another processor does not run here.
[ "${CONDA_BUILD_CROSS_COMPILATION:-0}" = 1 ] || make check-package
make install
