/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/host.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* FNV-1a, continued. */
static uint64_t add(uint64_t hash, const char *text, size_t size)
{
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
  return hash;
}

uint64_t tagc_host_id(void)
{
  const uint64_t start = UINT64_C(0xcbf29ce484222325);
  const char *given = getenv("NCCL_HOSTID");
  if (given)
    return add(start, given, strlen(given));
  char name[256] = "", boot[64];
  gethostname(name, sizeof name - 1);
  uint64_t hash = add(start, name, strlen(name));
  int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  ssize_t size = fd < 0 ? 0 : read(fd, boot, sizeof boot);
  if (fd >= 0)
    close(fd);
  return add(hash, boot, size > 0 ? (size_t)size : 0);
}

bool tagc_host_ids_are_fixed(void) { return getenv("NCCL_COMM_ID") != NULL; }
