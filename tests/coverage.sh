#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Shows the lines of the library that the tests have executed, from the counters (gcov) in a build folder.
#   coverage.sh BUILD             a table of its files: lines with code, those executed, and the ratio
#   coverage.sh BUILD missing     the lines that no test has executed
# A line counts as executed if any of its objects executed it. Processes that are killed, or that end by _exit() or in a
# fork without exec, leave no counters: lines that only they execute count as missing.
set -eu
unset CDPATH
export LC_ALL=C # decimals have points
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$1"
find env kernels layermap interpose -name '*.gcno' ! -name 'tagc-*' | sort | while IFS= read -r notes; do
  gcov --stdout --source-prefix "$top" --relative-only "$notes" 2>/dev/null || true
done | awk -v want="${2:-table}" '
  /^ *-: *0:Source:/ { sub(/.*Source:/, ""); file = $0; sub(/^(\.\.\/)+/, "", file); next }
  file !~ /^(env|interpose|kernels|layermap)\// || !match($0, /^ *[0-9#=]+\*?: *[0-9]+:/) { next }
  {
    split($0, field, ":")
    line = field[2] + 0
    text[file, line] = substr($0, RLENGTH + 1)
    if (!((file, line) in executed)) {
      executed[file, line] = 0
      lines[file]++
      most[file] = line > most[file] ? line : most[file]
    }
    if (field[1] ~ /[1-9]/ && !executed[file, line]) {
      executed[file, line] = 1
      hit[file]++
    }
  }
  END {
    for (file in lines) {
      all += lines[file]
      done += hit[file]
      name[++files] = file
    }
    for (i = 2; i <= files; i++)
      for (j = i; j > 1 && name[j] < name[j - 1]; j--) { swap = name[j]; name[j] = name[j - 1]; name[j - 1] = swap }
    for (i = 1; i <= files; i++) {
      file = name[i]
      if (want == "table")
        printf "%-40s %6d %6d %6.1f %%\n", file, lines[file], hit[file], 100 * hit[file] / lines[file]
      for (line = 1; want == "missing" && line <= most[file]; line++)
        if ((file, line) in executed && !executed[file, line])
          printf "%s:%d:%s\n", file, line, text[file, line]
    }
    if (!all) { print "no counters here"; exit 1 }
    if (want == "table")
      printf "coverage: %d of %d lines of the library, %.1f %%\n", done, all, 100 * done / all
  }'
