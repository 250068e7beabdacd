/* SPDX-License-Identifier: BSD-3-Clause
 * Addresses of ranks: IPv4 and IPv6, chosen by NCCL's variables.
 *
 * NCCL_SOCKET_IFNAME   a list of prefixes of interface names, eth,ib; =eth0,ib0 are whole names; ^docker and ^=docker0
 *                      mean every other interface. The first running match counts; without one it is an error, as in
 *                      NCCL. Unset: the loopback.
 * NCCL_SOCKET_FAMILY   AF_INET or AF_INET6. Unset: that of the interface's first address, or IPv4 on the loopback.
 * NCCL never uses the IPv6 loopback. Ranks here share a machine, so it is an interface like others.
 */
#include "tests/standin/standin.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static socklen_t size_of(int family) {
  return family == AF_INET ? sizeof(struct sockaddr_in) : family == AF_INET6 ? sizeof(struct sockaddr_in6) : 0;
}

static int wanted_family(void) {
  const char *family = getenv("NCCL_SOCKET_FAMILY");
  return !family                           ? AF_UNSPEC
         : strcmp(family, "AF_INET6") == 0 ? AF_INET6
         : strcmp(family, "AF_INET") == 0  ? AF_INET
                                           : AF_UNSPEC;
}

/* True if the name is in a list of names or prefixes. NCCL allows ":port" behind a name; sockets do not use it. */
static bool is_listed(const char *name, const char *list, bool exact) {
  while (*list) {
    size_t entry = strcspn(list, ","), size = strcspn(list, ",:");
    if (size && strncmp(name, list, size) == 0 && (!exact || name[size] == '\0'))
      return true;
    list += entry + (list[entry] == ',');
  }
  return false;
}

/* Finds the address of an interface that matches `names`. */
static bool find_interface(const char *names, struct address *address) {
  bool others = names[0] == '^', exact = names[others] == '=', found = false;
  int wanted = wanted_family();
  struct ifaddrs *interfaces;
  names += others + exact;
  if (getifaddrs(&interfaces) != 0)
    return false;
  for (struct ifaddrs *at = interfaces; at && !found; at = at->ifa_next) {
    int family = at->ifa_addr ? at->ifa_addr->sa_family : AF_UNSPEC;
    if (!size_of(family) || !(at->ifa_flags & IFF_RUNNING) || (wanted != AF_UNSPEC && family != wanted) ||
        is_listed(at->ifa_name, names, exact) == others)
      continue;
    memcpy(&address->is, at->ifa_addr, size_of(family));
    found = true;
  }
  freeifaddrs(interfaces);
  return found;
}

static bool own_address(struct address *address) {
  const char *names = getenv("NCCL_SOCKET_IFNAME");
  memset(address, 0, sizeof *address);
  if (names && strlen(names) > 1)
    return find_interface(names, address);
  if (wanted_family() == AF_INET6)
    address->is.v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  else
    address->is.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  return true;
}

int standin_listen(struct address *address) {
  if (!own_address(address)) {
    errno = EADDRNOTAVAIL;
    return -1;
  }
  socklen_t size = size_of(address->is.any.sa_family);
  int fd = socket(address->is.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return -1;
  if (address->is.any.sa_family == AF_INET)
    address->is.v4.sin_port = 0;
  else
    address->is.v6.sin6_port = 0;
  if (bind(fd, &address->is.any, size) != 0 || listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, &address->is.any, &size) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

/* Waits for a connection in progress: one that a signal interrupted still completes. Returns its error, 0 for none. */
static int connected(int fd) {
  struct pollfd ready = {.fd = fd, .events = POLLOUT};
  int error = 0;
  socklen_t size = sizeof error;
  while (poll(&ready, 1, -1) < 0 && errno == EINTR)
    ;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

int standin_connect_to(const struct address *address) {
  int fd = socket(address->is.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), error = 0;
  if (fd >= 0 && connect(fd, &address->is.any, size_of(address->is.any.sa_family)) != 0)
    error = errno == EINTR ? connected(fd) : errno;
  if (!error)
    return fd;
  close(fd);
  errno = error;
  return -1;
}

bool standin_is_address(const struct address *address) { return size_of(address->is.any.sa_family) != 0; }
