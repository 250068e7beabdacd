/* SPDX-License-Identifier: BSD-3-Clause
 * The network of the stand-in, as far as programs see it.
 *
 *   standin_network address   prints the address in a new id, or the result of asking for one
 *   standin_network meet      all ranks make a communicator, add up once, and leave
 */
#include "tests/e2e/standin/standin_check.h"

#include <arpa/inet.h>

static int print_address(void) {
  ncclUniqueId id;
  char text[INET6_ADDRSTRLEN] = "?";
  ncclResult_t result = ncclGetUniqueId(&id);
  if (result != ncclSuccess) {
    printf("result %d\n", (int)result);
    return 0;
  }
  union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
  } address;
  memcpy(&address, id.internal + 8, sizeof address);
  if (address.any.sa_family == AF_INET)
    inet_ntop(AF_INET, &address.v4.sin_addr, text, sizeof text);
  else if (address.any.sa_family == AF_INET6)
    inet_ntop(AF_INET6, &address.v6.sin6_addr, text, sizeof text);
  printf("%s\n", text);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "address") == 0)
    return print_address();
  if (argc != 2 || strcmp(argv[1], "meet") != 0) {
    fprintf(stderr, "usage: standin_network address|meet\n");
    return 2;
  }
  ncclComm_t comm = check_world();
  int one = 1, sum = 0;
  NEED(ncclAllReduce(&one, &sum, 1, ncclInt32, ncclSum, comm, NULL));
  check(sum == check_nranks, "%d ranks add up", check_nranks);
  NEED(ncclCommDestroy(comm));
  return check_done();
}
