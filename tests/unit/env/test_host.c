/* SPDX-License-Identifier: BSD-3-Clause
 * env/host: variables of NCCL that a user has set in a file of NCCL, which sets them itself at its first call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "env/conf.h"
#include "env/host.h"
#include "tests/unit/tap.h"

#define SHARES "NCCL_COMM_SPLIT_SHARE_RESOURCES"

/* From 2.30 on NCCL takes the home of the user from HOME, and lines may end as on Windows. */
static void homes(void) {
  static const char text[] = SHARES "=17\r\nNCCL_NAME=it\r\n";
  char folder[] = "/tmp/tagc-home.XXXXXX", path[64], value[16];
  ok(mkdtemp(folder) != NULL, "a home");
  snprintf(path, sizeof path, "%s/.nccl.conf", folder);
  FILE *file = fopen(path, "w");
  ok(file && fputs(text, file) >= 0 && fclose(file) == 0, "with a file of NCCL");
  setenv("NCCL_CONF_FILE", "", 1);
  setenv("HOME", folder, 1);
  unsetenv(SHARES);
  tagc_conf_set_version(23003);
  ok(tagc_conf_find("NCCL_NAME", value, sizeof value) && strcmp(value, "it") == 0, "NCCL 2.30 reads it");
  tagc_conf_set_version(22907);
  ok(tagc_host_nccl_number(SHARES) != 17, "2.29 asks the system for the home");
  setenv("NCCL_CONF_FILE", path, 1);
  ok(tagc_conf_find("NCCL_NAME", value, sizeof value) && strcmp(value, "it\r") == 0, "and keeps what is in a line");
  tagc_conf_set_version(22203);
  ok(!tagc_conf_find("NCCL_NAME", value, sizeof value), "2.22 knows no NCCL_CONF_FILE");
  tagc_conf_set_version(0);
  ok(tagc_conf_find("NCCL_NAME", value, sizeof value) && strcmp(value, "it") == 0, "an unknown one counts as new");
  unsetenv("HOME");
  setenv("NCCL_CONF_FILE", "", 1);
  ok(!tagc_conf_find("NCCL_NAME", value, sizeof value), "without HOME there is none");
  unlink(path);
  rmdir(folder);
}

int main(void) {
  char path[] = "/tmp/tagc-conf.XXXXXX";
  static const char text[] = "# comment\nNCCL_HOSTID=of the file\n" SHARES "=1\nNCCL_COMM_ID=there:1\n";
  const int file = mkstemp(path);
  setenv("NCCL_CONF_FILE", "/dev/null", 1);
  unsetenv("NCCL_HOSTID");
  unsetenv("NCCL_COMM_ID");
  unsetenv(SHARES);
  const uint64_t usual = tagc_host_id();
  ok(tagc_host_nccl_number(SHARES) == -1 && !tagc_host_ids_are_fixed(), "nothing is set");

  ok(file >= 0 && write(file, text, sizeof text - 1) == sizeof text - 1, "a file of NCCL");
  setenv("NCCL_CONF_FILE", path, 1);
  const uint64_t early = tagc_host_id();
  ok(early != usual, "its NCCL_HOSTID counts before NCCL has read it");
  ok(tagc_host_nccl_number(SHARES) == 1 && tagc_host_ids_are_fixed(), "and so do other variables");
  ok(tagc_conf_set("NCCL_HOSTID", "of the file") && tagc_host_id() == early, "it is the same when NCCL has set it");
  setenv("NCCL_HOSTID", "of the environment", 1);
  ok(tagc_host_id() != early && tagc_host_id() != usual, "the environment comes first");
  setenv("NCCL_HOSTID", "", 1);
  ok(tagc_host_id() != early && tagc_host_id() != usual, "an empty one is one, too");
  setenv(SHARES, "", 1);
  ok(tagc_host_nccl_number(SHARES) == -1, "an empty number is none");
  unlink(path);
  homes();
  return tap_done();
}
