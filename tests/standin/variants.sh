#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Links the stand-in once for each NCCL that it emulates: the same objects, its version, and its functions
# (versions.def), each under its second name, too (pncclAllReduce). "made-up" is a future NCCL with one more collective.
# "allreduce-only", "no-send-recv" and "no-split" stand for libraries that others ship under NCCL's name; "rccl" has a
# function of the runtime below RCCL.
#
#   variants.sh TABLE FOLDER OBJECT...      writes FOLDER/VARIANT/libnccl.so.2; uses $CC and $LDFLAGS
set -eu
table=$1 folder=$2
shift 2

# A version's functions, as an argument of the linker's version script.
functions()
{
  awk -F '[(), ]+' -v code="$1" '/^FUNCTION\(/ && $3 * 10000 + $4 * 100 + $5 <= code { printf "%s; ", $2 }' "$table"
}

for variant in 2.18.1 2.19.4 2.22.3 2.23.4 2.26.6 2.27.7 2.28.3 2.28.9 2.29.2 2.30.7 2.31.2 2.32.3 made-up allreduce-only no-send-recv \
  no-split rccl; do
  at=$folder/$variant
  mkdir -p "$at"
  code=21801 more= added=
  case $variant in
    made-up)
      code=29900
      names="$(functions $code)ncclAllGatherV; " added=-Wl,--defsym=ncclAllGatherV=ncclAllGather ;;
    allreduce-only)
      names='ncclGetVersion; ncclGetErrorString; ncclGetUniqueId; ncclCommInitRank; ncclCommDestroy; ncclAllReduce; ' ;;
    no-send-recv)
      names=$(functions $code | sed 's/ncclSend; ncclRecv; //') ;;
    no-split)
      names=$(functions $code | sed 's/ncclCommSplit; //') ;;
    rccl)
      names="$(functions $code)hipGetDevice; "
      more='__attribute__((visibility("default"))) int hipGetDevice(void) { return 0; }' ;;
    *)
      code=$(echo "$variant" | awk -F . '{ print $1 * 10000 + $2 * 100 + $3 }')
      names=$(functions "$code") ;;
  esac
  # shellcheck disable=SC2086 # words of their own
  second=$(printf '%s\n' $names | sed -n 's/^\(nccl[A-Za-z]*\);$/p\1=\1/p')
  echo "{ global: $names $(echo "$second" | sed 's/=.*/;/') ncclStandinHostMemory; ncclStandinPlayTime; local: *; };" >"$at/exports"
  echo "extern const int standin_version; const int standin_version = $code; $more" >"$at/version.c"
  # shellcheck disable=SC2086 # words of their own
  $CC $LDFLAGS -fPIC -fvisibility=hidden -o "$at/libnccl.so.2.new" "$at/version.c" "$@" -Wl,--version-script="$at/exports" \
    $added $(echo "$second" | sed 's/^/-Wl,--defsym=/')
  mv "$at/libnccl.so.2.new" "$at/libnccl.so.2"
done
