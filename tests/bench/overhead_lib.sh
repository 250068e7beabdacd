# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# Measures the cost of a call that passes. Sourced.

# overhead_table START PROGRAM MEMORY BURSTS LIBRARY ROUNDS MODE...: prints the nanoseconds of a plain call, and the
# time on top of that with the library in each TAGC_MODE (observe+trace: with TAGC_TRACE, too). Each figure is the best
# of ROUNDS runs; the modes take turns. START [VARIABLE=value...] COMMAND... starts the ranks.
overhead_table()
{
  overhead_start=$1 overhead_run="$2 $3 $4" overhead_library=$5 overhead_rounds=$6
  shift 6
  overhead_lines=
  for overhead_mode in $(for _ in $(seq "$overhead_rounds"); do echo plain "$@"; done); do
    case $overhead_mode in
      plain) set_library=LD_PRELOAD= ;;
      *+trace)
        overhead_traces=$(mktemp -d)
        set_library="LD_PRELOAD=$overhead_library TAGC_MODE=${overhead_mode%+trace} TAGC_REPORT=0 TAGC_TRACE=$overhead_traces/t"
        ;;
      *) set_library="LD_PRELOAD=$overhead_library TAGC_MODE=$overhead_mode TAGC_REPORT=0" ;;
    esac
    # shellcheck disable=SC2086 # assignments, and a command with its arguments
    overhead_said=$("$overhead_start" $set_library $overhead_run) || { echo "$overhead_said"; return 1; }
    [ "${overhead_mode%+trace}" = "$overhead_mode" ] || rm -r "$overhead_traces"
    overhead_lines="$overhead_lines$(echo "$overhead_said" | sed "s/^/$overhead_mode /")
"
  done
  echo "$overhead_lines" | awk -v modes="plain $*" '
    NF != 4 { next }
    { kind = sprintf("%-14s %8s", $2, $3) }
    !(kind in seen) { seen[kind] = 1; kinds[++count] = kind }
    !((kind, $1) in best) || $4 < best[kind, $1] { best[kind, $1] = $4 }
    END {
      n = split(modes, mode, " ")
      printf "%-14s %8s", "call", "elements"
      for (j = 1; j <= n; j++) printf " %13s", mode[j]
      for (i = 1; i <= count; i++) {
        plain = best[kinds[i], "plain"]
        printf "\n%s %13.0f", kinds[i], plain
        for (j = 2; j <= n; j++) printf " %+13.0f", best[kinds[i], mode[j]] - plain
      }
      print ""
    }'
}
