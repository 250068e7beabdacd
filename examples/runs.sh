# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# What demo and fidelity have in common: both run the trainer, and read what it, the library and the stand-in for NCCL
# leave in files. Sourced by a script that defines fail(), and sets `results`, the folder of those files.

# value FILE LINE KEY: from the last line in FILE that starts with LINE; empty where there is none.
value() {
  awk -v start="$2" -v key="$3" '
    index($0, start) == 1 { for (i = 1; i <= NF; i++) if (index($i, key "=") == 1) found = substr($i, length(key) + 2) }
    END { print found }' "$results/$1"
}

# need FILE LINE KEY: the same, but the figure must be there.
need() {
  figure=$(value "$@")
  [ -n "$figure" ] || {
    tail -n 20 "$results/$1" >&2
    fail "no $3 in '$2' of $results/$1"
  }
  echo "$figure"
}

# wire NAME: bytes that one rank sent in a step for reduce-scatters, and for all-gathers: means of the last ten steps. A
# step ends with the trainer's all-reduce of two floats; the few all-reduces as small as that are no gradient traffic.
wire() {
  awk -F '\t' '
    FNR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; step = 0; reduced = gathered = 0; files++; next }
    { call = $column["function"]; count = $column["count"]; bytes = $column["payload_bytes"] }
    call == "ncclAllGather" { gathered += bytes }
    call != "ncclAllGather" && !(call == "ncclAllReduce" && count <= 4) { reduced += bytes }
    call == "ncclAllReduce" && count == 2 {
      all_reduced[files, step] = reduced
      all_gathered[files, step] = gathered
      last[files] = ++step
      reduced = gathered = 0
    }
    END {
      for (f = 1; f <= files; f++)
        for (s = last[f] - 10; s < last[f]; s++) {
          r += all_reduced[f, s] / 10 / files
          g += all_gathered[f, s] / 10 / files
        }
      printf "%.0f %.0f\n", r, g
    }' "$results/$1".stats.*
}
