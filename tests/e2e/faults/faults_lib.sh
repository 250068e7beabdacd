# SPDX-License-Identifier: BSD-3-Clause
# Shared code of the tests of faults. Sourced after lib.sh.
# shellcheck shell=sh
export TAGC_WARMUP=0 TAGC_MIN_BYTES=0 TAGC_REPORT=1
report_may_race

# These tests look for hangs of ranks that should end by themselves: a hang fails a point after two minutes.
patience=120

# write_map RANKS: writes the layers of tests/e2e/faults/faults to $map, if a test has set that. The search for them
# takes a third of the time of its ranks, and sends nothing: tests of messages go without. faults_system.test searches.
write_map()
{
  [ "$faults_kind" = exact ] && odd=1 || odd=0
  [ -z "${map:-}" ] || printf '%s\n' "tagc-map 1" "unit embed" "parameter embed.weight $(($1 * (1500 + odd)))" \
    "unit block 0" "parameter attn.out.weight $(($1 * 3000))" "parameter mlp.up.weight $(($1 * (6000 + odd)))" \
    "unit head" "parameter head.weight $(($1 * (24000 + odd)))" >"$map"
}

# faults RANKS KIND STEPS CONDITION [VARIABLE=value...]: runs tests/e2e/faults/faults, with $hosts as options of launch.
# Leaves its lines in out, everything else in err, and the launcher's status in `ended`.
faults()
{
  faults_ranks=$1 faults_kind=$2 faults_steps=$3 faults_condition=$4
  shift 4
  write_map "$faults_ranks"
  # shellcheck disable=SC2086 # $hosts is options
  env ${map:+TAGC_LAYERMAP="$map"} "$@" "$launch" -n "$faults_ranks" ${hosts:-} --no-prefix --grace $patience \
    --preload "$preload${behind:+:$behind}" -- \
    "$programs/faults/faults" "$faults_kind" "$faults_steps" "$faults_condition" >"$scratch/out" 2>"$scratch/err"
  ended=$?
}

# hash_of: prints the hash of all ranks together; empty if one of them failed.
hash_of()
{
  awk -v ranks="$1" '/: done / { of[n++] = $NF } END { for (i = 0; n == ranks && i < n; i++) print of[i] }' "$scratch/out" |
    sort | tr '\n' ' '
}

# show: prints the output of a run.
show() { sed 's/^/# /' "$scratch/out" "$scratch/err"; }

# messages RANKS RANK [VARIABLE=value...]: prints the messages of the rank in a run, in order, as lines "BYTES-BEFORE
# SIZE KIND". With two levels, a communicator that is made after the first vote is the library's own split, and later
# sums are the first level. An all-gather of a size that did not occur before the vote carries payloads, or, of one
# number, the counts of their bytes, which come before those of nonzero sums. With exact sums (kind exact), what is sent
# in a size that is no message's are values: those that a host shares, and, behind the sums of the largest unit, those
# that do not fit, to each of its $shared_by ranks.
messages()
{
  messages_ranks=$1 messages_of=$2
  shift 2
  faults "$messages_ranks" "${trained:-dense}" "${steps:-5}" none NCCL_STANDIN_FAULT="trace:rank=$messages_of" "$@"
  sed -n -e 's,^NCCL stand-in: after \([0-9]*\) bytes: \(.*\) of \([0-9]*\) bytes$,\1 \3 \2,p' "$scratch/err" |
    sed -e 's,all-reduce/4,vote,' -e 's,all-reduce/1,exponents,' -e 's,reduce-scatter/2,sketch,' \
      -e 's, 8 send/0, 8 greeting-of-peers,' -e 's,reduce-scatter/4,greeting-of-peers,' -e 's,send/0,message,' \
      -e 's,reduce-scatter/7,sums,' -e 's,[^ ]*/[79]$,plain,' -e 's,all-gather/0,gathered,' -e 's,[^ ]*/0$,init,' |
    awk -v ranks="${shared_by:-0}" '$3 == "vote" { voted = 1 }
      $3 == "gathered" && !voted { whole[$2] = 1 }
      $3 == "gathered" { $3 = $2 in whole ? "plain" : $2 == 8 ? "counts" : "payload" }
      $3 == "init" && voted { $3 = "split"; levels = 1 }
      $3 == "sums" && !levels { $3 = "plain" }
      $3 == "message" && $2 % 16 { $3 = left-- > 0 ? "values" : "shared"; size = $2; largest = size > largest ? size : largest }
      $3 == "message" && ranks && $2 > 2 * size && size == largest { left = ranks }
      !seen[$1]++'
}

# survivors_are_well DEAD RANKS [ERROR]: checks that every rank except the dead one (none: -) reports ncclRemoteError,
# or ERROR, once, and has cleaned up.
survivors_are_well()
{
  awk -v dead="$1" -v ranks="$2" -v error="^(ncclRemoteError|${3:-ncclRemoteError});$" '
    $3 ~ /^nccl/ && $4 $5 == "instep" && $7 ~ error && / cleaned up$/ && !/NOT/ && $2 != dead ":" { n++; next }
    { other = 1 }
    END { exit !(n == ranks - (dead != "-") && !other) }' "$scratch/out"
}

# report_is_there DEAD: rank 0 makes the report, if it has come to its first collective.
report_is_there()
{
  [ "$1" = 0 ] || grep -qE ' ncclComm(InitRank|Split) in ' "$scratch/out" || grep -q '^tagc-total:' "$scratch/err"
}

# sweep_messages NAME FAULT RANK RANKS STATUS [VARIABLE=value...]: makes the fault in every message of the library's
# exchanges that the rank sends, and in one of six plain messages. The fault is in the middle, with headers=header also
# in the header. Where a communicator is split, only messages after that step are taken: in it a rank may wait for the
# dead one to connect, while another communicator sends. $most, if set, limits the messages of each kind. $trained is
# the kind of training (dense), $steps the number of steps. Only messages of $kinds are taken; prints a test point each.
kinds="plain vote greeting-of-peers exponents sketch message"
sweep_messages()
{
  name=$1 fault=$2 who=$3 nranks=$4 wanted=$5
  shift 5
  dead=$who
  [ "$fault" = die ] || dead=-
  messages "$nranks" "$who" "$@" >"$scratch/all"
  awk -v most="${most:-9999}" -v kinds=" $kinds " -v splits="$(grep -c ' split$' "$scratch/all")" '
    $3 == "split" { splits-- }
    $3 == "plain" && !splits { settled = 1 }
    settled && index(kinds, " " $3 " ") && ($3 != "plain" || plain++ % 6 == 0) && seen[$3]++ < most' \
    "$scratch/all" >"$scratch/messages"
  : >"$scratch/tried"
  while read -r at size kind; do
    for after in $((at + 32 + size / 2)) $headers; do
      [ "$after" != header ] || after=$((at + 16))
      faults "$nranks" "${trained:-dense}" "${steps:-5}" none NCCL_STANDIN_FAULT="$fault:rank=$who,after=$after" "$@" </dev/null
      good=yes
      [ "$ended" = "$wanted" ] && survivors_are_well "$dead" "$nranks" && report_is_there "$dead" || {
        good=no
        echo "# $fault of rank $who after $after bytes, $kind: status $ended"
        show
      }
      echo "$kind $good" >>"$scratch/tried"
    done
  done <"$scratch/messages"
  for kind in $kinds; do
    tried=$(grep -c "^$kind " "$scratch/tried")
    bad_ones=$(grep -c "^$kind no" "$scratch/tried")
    test "$tried" -gt 0 && test "$bad_ones" = 0
    point $? "$name, in $tried places ($kind): the others get ncclRemoteError and live"
  done
}

