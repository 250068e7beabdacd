# SPDX-License-Identifier: BSD-3-Clause
# What the tests of faults share. Sourced after lib.sh.
# shellcheck shell=sh
export TAGC_WARMUP=0 TAGC_MIN_BYTES=0 TAGC_REPORT=1

# A hang of a rank that should end by itself is what these tests look for: it becomes a failed point after two minutes.
patience=120

# faults RANKS KIND STEPS CONDITION [VARIABLE=value...]: one run of tests/e2e/faults. Leaves its lines in out, everything
# else in err, and the launcher's status in `ended`.
faults()
{
  faults_ranks=$1 faults_kind=$2 faults_steps=$3 faults_condition=$4
  shift 4
  env "$@" "$launch" -n "$faults_ranks" --no-prefix --grace $patience --preload "$preload${behind:+:$behind}" -- \
    "$programs/faults" "$faults_kind" "$faults_steps" "$faults_condition" >"$scratch/out" 2>"$scratch/err"
  ended=$?
}

# The hash of all ranks together; empty where one of them did not end well.
hash_of()
{
  awk -v ranks="$1" '/: done / { print $NF; n++ } END { if (n != ranks) print "not all ranks are done" }' "$scratch/out" |
    sort | tr '\n' ' '
}

# Shows what a run said.
show() { sed 's/^/# /' "$scratch/out" "$scratch/err"; }

# messages RANKS RANK [VARIABLE=value...]: what the rank sends in a run, in order: "BYTES-BEFORE SIZE KIND" a line.
messages()
{
  messages_ranks=$1 messages_of=$2
  shift 2
  faults "$messages_ranks" dense 5 none NCCL_STANDIN_FAULT="trace:rank=$messages_of" "$@"
  sed -n -e 's,^NCCL stand-in: after \([0-9]*\) bytes: \(.*\) of \([0-9]*\) bytes$,\1 \3 \2,p' "$scratch/err" |
    sed -e 's,all-reduce/4,vote,' -e 's,all-reduce/1,exponents,' -e 's,reduce-scatter/2,sketch,' \
      -e 's, 8 send/0, 8 greeting-of-peers,' -e 's,send/0,message,' -e 's,[^ ]*/7$,plain,' -e 's,all-gather/0,plain,' \
      -e 's,[^ ]*/0$,init,' | awk '!seen[$1]++'
}
