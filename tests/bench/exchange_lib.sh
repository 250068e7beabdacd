# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# Measures one reduce-scatter on hosts with several ranks. Sourced by scripts that set `build`, `sparsity` and `stats`
# (a folder), for each shape `hosts` and `local`, and the limits `rate` and `inside` in Mbit/s (inside: empty for none).

# on_played_hosts PROGRAM...: runs the ranks on this machine; the stand-in for NCCL plays their hosts.
on_played_hosts()
{
  "$build/tests/standin/launch" -n $((hosts * local)) --hosts "$hosts" --no-prefix --rate "${rate}mbit" \
    ${inside:+--rate-inside "${inside}mbit"} --stats "$stats/rank" --preload "$build/libtagc-preload.so" -- "$@"
}

# exchange START ELEMENTS CALLS [VARIABLE=value...]: prints milliseconds, and the last call's bytes of a host to others
# and of a rank inside its host. The last call lies between the last two all-reduces of two doubles. START runs a
# program on all ranks.
exchange()
{
  start=$1 count=$2 calls=$3
  shift 3
  rm -f "$stats"/*
  case " $* " in *" TAGC_CODEC=sparse "* | *" TAGC_CODEC=lhc "*) set -- "TAGC_SPARSITY=$sparsity" "$@" ;; esac
  # shellcheck disable=SC2163 # assignments
  ms=$(export TAGC_WARMUP=0 TAGC_ASSUME=gradients TAGC_MIN_BYTES=0 TAGC_REPORT=0 "$@"
    "$start" "$build/tests/bench/exchange" "$count" "$calls") || return 1
  echo "$ms $(awk -v hosts="$hosts" -v local="$local" '
    FNR == 1 { all += last; between += last_between; since = since_between = last = last_between = 0 }
    $2 == "ncclAllReduce" && $4 == 2 && $5 == 8 {
      last = since; last_between = since_between; since = since_between = 0
      next
    }
    { since += $6; since_between += $8 }
    END {
      all += last; between += last_between
      printf "%.0f %.0f\n", between / hosts, (all - between) / hosts / local
    }' "$stats"/rank.*)"
}
