/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/host.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "env/conf.h"
#include "env/hash.h"
#include "env/units.h"

uint64_t tagc_host_id(void) {
  char given[1024], name[256] = "", boot[64]; /* NCCL cuts it to as many */
  if (tagc_conf_find("NCCL_HOSTID", given, sizeof given))
    return tagc_hash_add(TAGC_HASH_START, given, strlen(given));
  gethostname(name, sizeof name - 1);
  uint64_t hash = tagc_hash_add(TAGC_HASH_START, name, strlen(name));
  int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  ssize_t size = fd < 0 ? 0 : read(fd, boot, sizeof boot);
  if (fd >= 0)
    close(fd);
  return tagc_hash_add(hash, boot, size > 0 ? (size_t)size : 0);
}

void tagc_host_name(char name[TAGC_HOST_NAME]) {
  static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
  memset(name, 0, TAGC_HOST_NAME);
  if (gethostname(name, TAGC_HOST_NAME - 1) != 0 || !*name)
    strcpy(name, "host");
  for (char *c = name; *(c += strspn(c, allowed)); c++)
    *c = '_';
}

int tagc_host_job_rank(void) {
  static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *text = getenv(names[i]), *end;
    uint64_t rank;
    if (text && tagc_units_read(text, false, &rank, &end) && !*end && rank <= INT_MAX)
      return (int)rank;
  }
  return -1;
}

bool tagc_host_ids_are_fixed(void) {
  char some[2];
  return tagc_conf_find("NCCL_COMM_ID", some, sizeof some);
}

long long tagc_host_nccl_number(const char *variable) {
  char value[64];
  return tagc_conf_find(variable, value, sizeof value) && *value ? strtoll(value, NULL, 0) : -1;
}

const char *tagc_host_lacks(void) {
  const char *given = secure_getenv(TAGC_HOST_LACKS);
  return given && *given ? given : NULL;
}
