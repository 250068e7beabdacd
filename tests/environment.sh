# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# What the user's environment would change of tests is taken out of it: options of the library, settings of NCCL, and the
# folders of LD_LIBRARY_PATH with an NCCL or a driver, as NVIDIA's images have them. Programs of tests find the stand-ins by
# their RUNPATH, and that variable goes before it. Sourced by scripts of tests, and by `make check` before each test.
# tests/gpu/run alone keeps all of this: it is looking for the real libraries.
for name in $(env | sed -n '/^TAGC_TEST_/d; s/^\(\(TAGC\|NCCL\)_[A-Z0-9_]*\)=.*/\1/p'); do unset "$name"; done

# without_nccl FOLDERS: prints the folders of such a list without those libraries.
without_nccl()
{
  echo "$1" | tr : '\n' | while IFS= read -r folder; do
    for file in "$folder"/libnccl.so* "$folder"/libcuda.so* "$folder"/libcudart.so* "$folder"/libnvidia-ml.so*; do
      [ ! -e "$file" ] || continue 2
    done
    [ -z "$folder" ] || printf '%s:' "$folder"
  done | sed 's/:*$//'
}
if [ -n "${LD_LIBRARY_PATH-}" ]; then
  LD_LIBRARY_PATH=$(without_nccl "$LD_LIBRARY_PATH")
  [ -n "$LD_LIBRARY_PATH" ] || unset LD_LIBRARY_PATH
fi
