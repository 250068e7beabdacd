# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# Two hosts on this machine: network namespaces with a wire between them, which is wire0 in both. Sourced; who makes
# hosts removes them in a trap on EXIT. Needs root and ip(8); a limit needs tc(8) and the kernel's sch_tbf, too.

# two_hosts: makes $host_a with the address 10.99.0.1 and $host_b with 10.99.0.2. Status 1: it is not allowed here, 2:
# it failed.
two_hosts()
{
  host_a="tagc-a-$$" host_b="tagc-b-$$" host_wire=wire0 host_address=10.99.0.1
  ip netns add "$host_a" 2>/dev/null || return 1
  ip netns add "$host_b" && ip -n "$host_a" link add wire0 type veth peer name wire0 netns "$host_b" &&
    ip -n "$host_a" addr add 10.99.0.1/24 dev wire0 && ip -n "$host_b" addr add 10.99.0.2/24 dev wire0 &&
    ip -n "$host_a" link set lo up && ip -n "$host_b" link set lo up &&
    ip -n "$host_a" link set wire0 up && ip -n "$host_b" link set wire0 up || return 2
  for host in "$host_a" "$host_b"; do
    until ip -n "$host" link show wire0 | grep -q 'state UP'; do sleep 0.05; done
  done
}

# one_host: where that is not allowed, two names for this machine: NCCL takes ranks for those of two hosts, and they
# talk over lo.
one_host()
{
  host_a="tagc-a-$$" host_b="tagc-b-$$" host_wire=lo host_address=127.0.0.1
}

# limit_wire RATE BURST: a token bucket on each end of the wire.
limit_wire()
{
  for host in "$host_a" "$host_b"; do
    on_host "$host" tc qdisc add dev wire0 root tbf rate "$1" burst "$2" latency 100ms || return 1
  done
}

# enter_host HOST COMMAND...: becomes that command.
enter_host()
{
  case $host_wire in
    lo) shift; exec "$@" ;;
    *) exec ip netns exec "$@" ;;
  esac
}

# on_host HOST COMMAND...
on_host() { (enter_host "$@"); }

# on_both LOCAL COMMAND...: starts LOCAL ranks on each, those of the first host first, as torchrun would, and waits for
# all. When one fails, the others are ended. Its status, or 0.
on_both()
{
  on_each=$1 host_pids='' next_rank=0 worst=0
  shift
  for host in "$host_a" "$host_b"; do
    for local_rank in $(seq 0 $((on_each - 1))); do
      enter_host "$host" env RANK=$next_rank LOCAL_RANK="$local_rank" WORLD_SIZE=$((2 * on_each)) NCCL_HOSTID="$host" \
        MASTER_ADDR="$host_address" MASTER_PORT=29500 NCCL_SOCKET_IFNAME="$host_wire" "$@" &
      host_pids="$host_pids $!" next_rank=$((next_rank + 1))
    done
  done
  for pid in $host_pids; do
    wait "$pid" || { worst=$?; end_ranks; }
  done
  return $worst
}

# end_ranks: ends what still runs on them.
end_ranks()
{
  # shellcheck disable=SC2086 # process ids
  case $host_wire in
    lo) kill $host_pids ;;
    *) for host in "$host_a" "$host_b"; do ip netns pids "$host" | xargs -r kill; done ;;
  esac 2>/dev/null
}

# remove_hosts: and them, too.
remove_hosts()
{
  end_ranks
  [ "$host_wire" = lo ] || for host in "$host_a" "$host_b"; do ip netns del "$host"; done 2>/dev/null
}
