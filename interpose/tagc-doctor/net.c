/* SPDX-License-Identifier: BSD-3-Clause
 * The network interfaces, and those that NCCL would use for its sockets. NCCL_SOCKET_IFNAME decides (a list of
 * prefixes; "=" before it: exact names; "^" before that: all but those). Otherwise it is the first of these that
 * exists: ib*, all but docker*, lo* and virbr*, docker*, lo*, virbr*. Interfaces without an address, or not running, do
 * not count. NCCL_SOCKET_FAMILY chooses among addresses. If NCCL finds an InfiniBand adapter, that carries the data,
 * and these interfaces only the set-up.
 */
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "interpose/tagc-doctor/doctor.h"

bool tagc_interface_matches(const char *rule, const char *name) {
  bool except = *rule == '^', exact, found = false, any = false;
  rule += except;
  exact = *rule == '=';
  rule += exact;
  while (*rule) {
    size_t length = strcspn(rule, ",:"); /* "eth0:5000": a port, which sockets ignore */
    if (length) {
      any = true;
      found |= strncmp(rule, name, length) == 0 && (!exact || !name[length]);
    }
    rule += strcspn(rule, ",");
    rule += *rule == ',';
  }
  return (found || !any) != except;
}

/* The first line of a file /sys/class/net/NAME/ATTRIBUTE. */
static void read_attribute(const char *name, const char *attribute, char *value, size_t size) {
  char path[128];
  snprintf(path, sizeof path, "/sys/class/net/%s/%s", name, attribute);
  char *text = tagc_file_text(path, 256, NULL);
  snprintf(value, size, "%.*s", text ? (int)strcspn(text, "\n") : 0, text ? text : "");
  free(text);
}

static struct tagc_interface *interface_of(struct tagc_findings *f, const char *name) {
  for (size_t i = 0; i < f->interface_count; i++)
    if (strcmp(f->interfaces[i].name, name) == 0)
      return &f->interfaces[i];
  if (f->interface_count == TAGC_ROWS_MAX)
    return NULL;
  struct tagc_interface *row = &f->interfaces[f->interface_count++];
  char text[64];
  snprintf(row->name, sizeof row->name, "%s", name);
  read_attribute(name, "operstate", row->state, sizeof row->state);
  read_attribute(name, "mtu", text, sizeof text);
  row->mtu = strtol(text, NULL, 10);
  read_attribute(name, "speed", text, sizeof text); /* unreadable if the device has no speed */
  row->speed = *text ? strtol(text, NULL, 10) : -1;
  if (row->speed <= 0)
    row->speed = -1;
  return row;
}

static void add_address(struct tagc_findings *f, const struct ifaddrs *address) {
  char text[64];
  size_t size = address->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
  struct tagc_interface *row = interface_of(f, address->ifa_name);
  if (!row || getnameinfo(address->ifa_addr, (socklen_t)size, text, sizeof text, NULL, 0, NI_NUMERICHOST) != 0)
    return;
  size_t used = strlen(row->addresses);
  if (used + strlen(text) + 2 < sizeof row->addresses)
    snprintf(row->addresses + used, sizeof row->addresses - used, "%s%s", used ? " " : "", text);
}

static bool choose_interface(struct tagc_findings *f, const char *rule) {
  bool any = false;
  for (size_t i = 0; i < f->interface_count; i++)
    any |= f->interfaces[i].chosen = tagc_interface_matches(rule, f->interfaces[i].name);
  return any;
}

void tagc_find_interfaces(struct tagc_findings *f, char *const *environment) {
  static const char *const rules[] = {"ib", "^docker,lo,virbr", "docker", "lo", "virbr"};
  const char *family = tagc_environment_value(environment, "NCCL_SOCKET_FAMILY"), *rule = NULL, *source = "";
  int only = !family                           ? AF_UNSPEC
             : strcmp(family, "AF_INET") == 0  ? AF_INET
             : strcmp(family, "AF_INET6") == 0 ? AF_INET6
                                               : AF_UNSPEC;
  struct ifaddrs *list;
  if (getifaddrs(&list) != 0)
    return;
  for (const struct ifaddrs *a = list; a; a = a->ifa_next) {
    if (!a->ifa_addr || !(a->ifa_flags & IFF_RUNNING) ||
        (a->ifa_addr->sa_family != AF_INET && a->ifa_addr->sa_family != AF_INET6) ||
        (only != AF_UNSPEC && a->ifa_addr->sa_family != only))
      continue;
    if (a->ifa_addr->sa_family == AF_INET6 &&
        IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)(void *)a->ifa_addr)->sin6_addr))
      continue;
    add_address(f, a);
  }
  freeifaddrs(list);
  for (size_t i = 0; i < f->nccl_count; i++)
    if (strcmp(f->nccl[i].name, "NCCL_SOCKET_IFNAME") == 0 && strlen(f->nccl[i].value) > 1) {
      rule = f->nccl[i].value;
      source = f->nccl[i].source;
    }
  if (rule) {
    snprintf(f->interface_rule, sizeof f->interface_rule, "NCCL_SOCKET_IFNAME=%.40s (%.40s)", rule, source);
    if (!choose_interface(f, rule))
      tagc_findings_note(f, "NCCL_SOCKET_IFNAME=%s matches no running interface with an address: NCCL would fail",
                         rule);
    return;
  }
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (choose_interface(f, rules[i])) {
      snprintf(f->interface_rule, sizeof f->interface_rule, "NCCL's default order, \"%s\"", rules[i]);
      return;
    }
}
