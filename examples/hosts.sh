# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# Two hosts on this machine: network namespaces with a wire between them, which is wire0 in both. Sourced by two-hosts,
# tests and benchmarks. A script that makes hosts removes them in a trap on EXIT, and calls remove_old_hosts for those
# of killed scripts. Needs root, ip(8) and unshare(1); a limit also needs tc(8) and the kernel's sch_tbf.

# two_hosts: makes $host_a with the address 10.99.0.1 and $host_b with 10.99.0.2. Status 1: not allowed here, 2: failed;
# stderr says why.
two_hosts()
{
  host_a="tagc-a-$$" host_b="tagc-b-$$" host_wire=wire0 host_address=10.99.0.1
  remove_old_hosts
  ip netns add "$host_a" 2>/dev/null || return 1
  ip netns add "$host_b" && ip -n "$host_a" link add wire0 type veth peer name wire0 netns "$host_b" &&
    ip -n "$host_a" addr add 10.99.0.1/24 dev wire0 && ip -n "$host_b" addr add 10.99.0.2/24 dev wire0 &&
    ip -n "$host_a" link set lo up && ip -n "$host_b" link set lo up &&
    ip -n "$host_a" link set wire0 up && ip -n "$host_b" link set wire0 up || return 2
  for host in "$host_a" "$host_b"; do
    tries=200
    while wire=$(ip -n "$host" link show wire0) || return 2; do
      case $wire in *'state UP'*) break ;; esac
      tries=$((tries - 1))
      [ $tries -gt 0 ] || { echo "the wire of $host is not up after ten seconds" >&2; return 2; }
      sleep 0.05
    done
  done
}

# one_host: if that is not allowed, gives this machine two names. NCCL then assumes two hosts; ranks talk over lo.
one_host()
{
  host_a="tagc-a-$$" host_b="tagc-b-$$" host_wire=lo host_address=127.0.0.1
}

# limit_wire RATE BURST: puts a token bucket on each end of the wire.
limit_wire()
{
  for host in "$host_a" "$host_b"; do
    on_host "$host" tc qdisc add dev wire0 root tbf rate "$1" burst "$2" latency 100ms || return 1
  done
}

# enter_host HOST COMMAND...: becomes that command, on a host of that name.
enter_host()
{
  entered=$1
  shift
  # shellcheck disable=SC2016 # the inner shell expands this
  case $host_wire in
    lo) exec "$@" ;;
    *) exec ip netns exec "$entered" unshare --uts \
      sh -c '[ ! -e "$1/failed" ] || exit 143; shift; echo "$0" >/proc/sys/kernel/hostname; exec "$@"' "$entered" \
      "${host_marks-/dev/null}" "$@" ;;
  esac
}

# on_host HOST COMMAND...
on_host() { (enter_host "$@"); }

# on_both LOCAL COMMAND...: starts LOCAL ranks on each, those of the first host first, as torchrun would, and waits for
# all. If one fails, ends the others. Returns its status, or 0.
on_both()
{
  on_each=$1 host_pids='' next_rank=0 worst=0
  shift
  host_marks=$(mktemp -d) || return 1
  for host in "$host_a" "$host_b"; do
    for local_rank in $(seq 0 $((on_each - 1))); do
      one_rank env RANK=$next_rank LOCAL_RANK="$local_rank" WORLD_SIZE=$((2 * on_each)) NCCL_HOSTID="$host" \
        MASTER_ADDR="$host_address" MASTER_PORT=29500 NCCL_SOCKET_IFNAME="$host_wire" "$@" &
      host_pids="$host_pids $!" next_rank=$((next_rank + 1))
    done
  done
  for pid in $host_pids; do
    wait "$pid" || {
      status=$?
      case $worst in 0 | 143) worst=$status ;; esac # 143: it was ended because of another, perhaps
      end_ranks
    }
  done
  rm -rf "$host_marks"
  return $worst
}

# one_rank COMMAND...: runs it on $host. A failure on hosts of their own ends the other ranks at once, while on_both may
# wait for another one. A rank that is not on its host yet is not among those that are asked to end: it finds the mark
# there, and ends by itself.
one_rank()
{
  [ "$host_wire" != lo ] || enter_host "$host" "$@"
  on_host "$host" "$@" || {
    status=$?
    : >"$host_marks/failed"
    end_ranks
    return $status
  }
}

# end_ranks: asks the processes on both hosts to end.
end_ranks()
{
  # shellcheck disable=SC2086 # process ids
  case $host_wire in
    lo) kill $host_pids ;;
    *) for host in "$host_a" "$host_b"; do ip netns pids "$host" | xargs -r kill; done ;;
  esac 2>/dev/null
}

# remove_hosts: ends the processes and removes both hosts; kills processes that are left after two seconds.
remove_hosts()
{
  end_ranks
  [ -z "${host_marks-}" ] || rm -rf "$host_marks"
  [ "$host_wire" = lo ] || for host in "$host_a" "$host_b"; do remove_host "$host" 20; done
}

# remove_host NAME TENTHS: removes one host. Its processes have TENTHS tenths of a second to end.
remove_host()
{
  tenths=$2
  while [ "$tenths" -gt 0 ] && [ -n "$(ip netns pids "$1" 2>/dev/null)" ]; do
    sleep 0.1
    tenths=$((tenths - 1))
  done
  # A killed process may have started others before.
  while pids=$(ip netns pids "$1" 2>/dev/null) && [ -n "$pids" ]; do
    # shellcheck disable=SC2086 # process ids
    kill -KILL $pids 2>/dev/null
    sleep 0.05
  done
  ip netns del "$1" 2>/dev/null
}

# remove_old_hosts: removes the hosts of scripts that were killed.
remove_old_hosts()
{
  for name in $(ip netns list 2>/dev/null | sed -n 's/^\(tagc-[ab]-[0-9]*\)\( .*\)*$/\1/p'); do
    [ -e "/proc/${name##*-}" ] || remove_host "$name" 0
  done
}
