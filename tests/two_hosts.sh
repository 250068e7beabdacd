# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# Two hosts on this machine: network namespaces with a wire between them, which is wire0 in both. Sourced; who makes hosts
# removes them in a trap on EXIT. Needs root and ip(8).

# two_hosts: makes $host_a with the address 10.99.0.1 and $host_b with 10.99.0.2. Status 1: it is not allowed here, 2: it
# failed.
two_hosts()
{
  host_a="tagc-a-$$" host_b="tagc-b-$$"
  ip netns add "$host_a" 2>/dev/null || return 1
  ip netns add "$host_b" && ip -n "$host_a" link add wire0 type veth peer name wire0 netns "$host_b" &&
    ip -n "$host_a" addr add 10.99.0.1/24 dev wire0 && ip -n "$host_b" addr add 10.99.0.2/24 dev wire0 &&
    ip -n "$host_a" link set lo up && ip -n "$host_b" link set lo up &&
    ip -n "$host_a" link set wire0 up && ip -n "$host_b" link set wire0 up || return 2
  for host in "$host_a" "$host_b"; do
    until ip -n "$host" link show wire0 | grep -q 'state UP'; do sleep 0.05; done
  done
}

# on_host HOST COMMAND...
on_host()
{
  ip netns exec "$@"
}

# end_ranks: ends what still runs on them.
end_ranks()
{
  for host in "$host_a" "$host_b"; do ip netns pids "$host" | xargs -r kill; done 2>/dev/null
}

# remove_hosts: and them, too.
remove_hosts()
{
  end_ranks
  for host in "$host_a" "$host_b"; do ip netns del "$host"; done 2>/dev/null
}
