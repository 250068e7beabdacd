# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# The common code of demo, fidelity, large and paper: they run the trainer, and read the files of the trainer, of the library
# and of the stand-in for NCCL. Sourced by a script that defines fail(), and sets `results`, the folder of those files.

# Where decimals have commas, mawk would take 4.41 for 4, and gawk has no ranges of bytes in UTF-8.
export LC_ALL=C

# there FILE...: fails unless all of these were built. Ends well where the build folder is -, which asks only whether the
# options are right.
there() {
  [ "$build" != - ] || exit 0
  for file; do
    [ -e "$file" ] || fail "$file is not there; was everything built (the trainer needs a BLAS)?"
  done
}

# fast_blas: OpenBLAS takes its oldest kernels for a processor that is newer than itself. Trainings then need three times
# as long. Haswell's kernels work wherever AVX2 does.
fast_blas() {
  [ -z "${OPENBLAS_CORETYPE-}" ] && grep -qw avx2 /proc/cpuinfo || return 0
  case $(OPENBLAS_VERBOSE=2 "$trainer" --help 2>&1 | sed -n 's/^Core: //p') in
    Prescott | Core2 | Nehalem | Barcelona)
      echo "$(basename "$0"): OpenBLAS does not know this processor: OPENBLAS_CORETYPE=Haswell" >&2
      export OPENBLAS_CORETYPE=Haswell ;;
  esac
}

# attend COMMAND...: runs a command, which ends with this script. The shell hears of a signal only while it waits for
# what is in the background. A file has the process, as a part of a pipeline cannot set variables of the script.
attend() {
  "$@" &
  echo $! > "$results/pid"
  wait $!
  set -- $?
  rm -f "$results/pid"
  return "$1"
}
end_attended() {
  if [ -n "$claimed" ] && [ -e "$results/pid" ]; then
    kill "$(cat "$results/pid")"
    rm -f "$results/pid"
    wait
  fi
  exit "$1"
}
claimed= # until then the process may be that of another call
trap 'end_attended 129' HUP
trap 'end_attended 130' INT
trap 'end_attended 143' TERM

# manual: prints the path of the text that is learnt unless the user names one.
manual() {
  path=$(perl -MConfig -e 'print "$Config{privlib}/pod/perldiag.pod"' 2> /dev/null)
  [ -r "$path" ] || fail "the manual perldiag.pod is not where Perl should have it; name another text with --text"
  echo "$path"
}

# corpus FILE: writes a text of 24 MB to learn from: the sources of the standard libraries of Python and Perl, without
# tables and tests. The order of the files mixes them.
corpus() {
  python3 - "$1.new" << 'END_PYTHON' && mv "$1.new" "$1" || fail "the text '$1' could not be made: it needs Python 3 and Perl"
import os, subprocess, sys, sysconfig, zlib

perl = ["perl", "-MConfig", "-e", "print qq($Config{privlib}\\n$Config{archlib})"]
folders = [sysconfig.get_path("stdlib")]
folders += subprocess.run(perl, capture_output=True, text=True, check=True).stdout.split("\n")
left_out = {"unicore", "Collate", "encodings", "dist-packages", "site-packages", "__pycache__", "test", "tests"}
paths = {}
for folder in folders:
    for at, inner, names in os.walk(folder):
        inner[:] = set(inner) - left_out
        for name in names:
            if name.endswith((".py", ".pm", ".pl", ".pod")):
                path = os.path.join(at, name)
                paths[os.path.relpath(path, folder)] = path
with open(sys.argv[1], "wb") as text:
    for name in sorted(paths, key=lambda name: (zlib.crc32(name.encode()), name)):
        with open(paths[name], "rb") as file:
            text.write(file.read())
END_PYTHON
}

# claim: holds the folder `results` until this script and the trainings that it starts have ended. Two calls at a time
# would mix their files, so the second one fails.
claim() {
  command -v flock > /dev/null || fail "flock is not installed (util-linux)"
  exec 9>"$results/lock" || exit 1
  flock -n 9 || fail "another call, or a training that it has left behind, is at work in $results"
  rm -f "$results/pid"
  claimed=1
}

# whole OPTION VALUE LEAST MOST: fails unless the value is a whole number in this range. With a zero in front the shell
# would take it for an octal one.
whole() {
  case $2 in
    '' | *[!0-9]* | 0?* | ??????????*) fail "$1 '$2': expected a whole number from $3 to $4" ;;
  esac
  [ "$2" -ge "$3" ] && [ "$2" -le "$4" ] || fail "$1 $2: expected a whole number from $3 to $4"
}

# each LIST: prints the names of a list, which commas or spaces separate, each once.
each() {
  echo "$1" | awk '
    { gsub(",", " "); for (i = 1; i <= NF; i++) if (!seen[$i]++) names = names (names == "" ? "" : " ") $i }
    END { print names }'
}

# value FILE LINE KEY: prints KEY's value from the last line in FILE that starts with LINE; empty if there is none.
value() {
  awk -v start="$2" -v key="$3" '
    index($0, start) == 1 { for (i = 1; i <= NF; i++) if (index($i, key "=") == 1) found = substr($i, length(key) + 2) }
    END { print found }' "$results/$1"
}

# need FILE LINE KEY: does the same, but fails without a figure.
need() {
  figure=$(value "$@")
  [ -n "$figure" ] || {
    tail -n 20 "$results/$1" >&2
    fail "no $3 in '$2' of $results/$1"
  }
  echo "$figure"
}

# wire NAME [all]: prints the bytes that one rank sent in a step for reduce-scatters, how many of them went to other
# hosts, and the same for all-gathers, as means over the ranks. Those of reduce-scatters are the same in each compressed
# step: the median of the last ten, or with `all` the mean of all steps. Those of all-gathers may follow the changes of
# parameters: the mean of the steps that sent less than the first three, which are plain; the median, if none did. A step
# ends with the trainer's all-reduce of two floats; one without gradients before it is that of a checkpoint, between two
# ranks. Such small all-reduces are no gradient traffic.
wire() {
  awk -F '\t' -v of_all="${2:-}" '
    FNR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; step = 0; files++; next }
    { call = $column["function"]; count = $column["count"]; gathers = call == "ncclAllGather" }
    gathers || !(call == "ncclAllReduce" && count <= 4) {
      all[files, step, gathers] += $column["payload_bytes"]
      between[files, step, gathers] += $column["between_bytes"]
    }
    call == "ncclAllReduce" && count == 2 && all[files, step, 0] > 0 { last[files] = ++step }
    # An evaluation gathers parameters, too: most of the ten steps have none behind them.
    function median(of, f, gathers,    s, i, sorted) {
      for (s = 0; s < 10; s++) {
        for (i = s; i > 0 && sorted[i - 1] > of[f, last[f] - 10 + s, gathers] + 0; i--) sorted[i] = sorted[i - 1]
        sorted[i] = of[f, last[f] - 10 + s, gathers] + 0
      }
      return (sorted[4] + sorted[5]) / 2
    }
    function usual(of, f, gathers,    s, n, sum, plain) {
      plain = all[f, 0, 1]
      for (s = 1; s < 3; s++) if (all[f, s, 1] < plain) plain = all[f, s, 1]
      for (s = 0; s < last[f]; s++)
        if (gathers ? all[f, s, 1] < 0.99 * plain : of_all) { sum += of[f, s, gathers]; n++ }
      return n ? sum / n : median(of, f, gathers)
    }
    END {
      for (f = 1; f <= files; f++)
        for (gathers = 0; gathers < 2; gathers++) {
          a[gathers] += usual(all, f, gathers) / files
          b[gathers] += usual(between, f, gathers) / files
        }
      printf "%.0f %.0f %.0f %.0f\n", a[0], b[0], a[1], b[1]
    }' "$results/$1".stats.*
}

# sides NAME WINDOW: reads a run that alternates every WINDOW steps. Prints the spreads of a step's time in ms, plain and
# compressed, then the means of gradient reductions and all-gathers, of a plain step and of a compressed one. The bytes
# that rank 0 sent in the trainer's calls tell the side of a step. A plain step sent as much as the first one, where
# nothing is compressed yet, a compressed step less. A step that sent more is on neither side: the library measured the
# wire in it. The first step of a window can still have the all-gathers of the previous window; its bytes then lie in
# between. So a step counts only if a step beside it sent as much, give or take a hundredth of the first one's: the bytes
# of exact all-gathers follow the changes. The first window is plain, and follows the library's learning.
sides() {
  awk -F '\t' -v window="$2" '
    function alike(a, b) { return sent[a] - sent[b] < sent[1] / 100 && sent[b] - sent[a] < sent[1] / 100 }
    function spread(side) { return sqrt((squares[side] - sum[side] ^ 2 / n[side]) / (n[side] - 1)) }
    FNR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; files++; step = 1; next }
    files == 1 {
      call = $column["function"]
      if (call == "ncclReduceScatter" || call == "ncclAllGather" || call == "ncclAllReduce" && $column["count"] > 4)
        sent[step] += $column["payload_bytes"]
      if (call == "ncclAllReduce" && $column["count"] == 2) {
        if (!first && sent[step] < sent[1]) first = step - window
        step++
      }
    }
    files == 2 && first && $column["step"] >= first {
      s = $column["step"]
      if (sent[s] > sent[1] || !alike(s, s - 1) && !alike(s, s + 1)) next
      side = sent[s] < sent[1]
      n[side]++; sum[side] += $column["total_ms"]; squares[side] += $column["total_ms"] ^ 2
      reduce[side] += $column["reduce_scatter_ms"] + $column["all_reduce_ms"]; gather[side] += $column["all_gather_ms"]
    }
    END {
      if (n[0] < 2 || n[1] < 2) exit 1
      printf "%.3f %.3f", spread(0), spread(1)
      for (side = 0; side < 2; side++) printf " %.3f %.3f", reduce[side] / n[side], gather[side] / n[side]
      print ""
    }' "$results/$1.stats.0" "$results/$1.times"
}

# bytes_per_second RATE: converts a rate as the launcher takes it.
bytes_per_second() {
  echo "$1" | tr '[:upper:]' '[:lower:]' | awk '
    BEGIN { split("bit kbit mbit gbit", units); for (i in units) bytes[units[i]] = 1000 ^ (i - 1) / 8; bytes[""] = 1 }
    { unit = $1; sub(/^[0-9.e+]*[0-9.]/, "", unit); printf "%.0f\n", $1 * bytes[unit] }'
}

# write_map FILE LAYERS HIDDEN CONTEXT VOCABULARY: which parameters are in which unit of the trainer with --unit half.
write_map() {
  awk -v blocks="$2" -v h="$3" -v context="$4" -v tokens="$5" '
    function weight(name, outputs, inputs) { print "parameter " name ".weight " outputs "x" inputs }
    function layer(name, outputs, inputs) { weight(name, outputs, inputs); print "parameter " name ".bias " outputs }
    function norm(name) { print "parameter " name ".weight " h; print "parameter " name ".bias " h }
    function numbers(first,   list, i) {
      for (i = first; i < 2 * blocks; i += 2) list = list (i == first ? "" : ",") i
      return list
    }
    BEGIN {
      print "tagc-map 1\nlayout fsdp1\nunit embed"
      weight("embed", tokens, h); weight("embed.positions", context, h)
      print "unit half " numbers(0); norm("norm1"); layer("attn.qkv", 3 * h, h); layer("attn.o", h, h)
      print "unit half " numbers(1); norm("norm2"); layer("mlp.up", 4 * h, h); layer("mlp.down", h, 4 * h)
      print "unit head"; norm("norm"); weight("head", tokens, h)
    }' > "$1"
}
