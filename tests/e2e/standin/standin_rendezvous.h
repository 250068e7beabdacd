/* SPDX-License-Identifier: BSD-3-Clause
 * Shares a few bytes among the ranks of a test before they have a communicator. Rank 0 serves them on
 * MASTER_ADDR:MASTER_PORT to WORLD_SIZE - 1 connections; the others ask until it answers. Header-only, single-threaded;
 * functions return 0, or -1 with a message.
 */
#ifndef TESTS_E2E_STANDIN_RENDEZVOUS_H
#define TESTS_E2E_STANDIN_RENDEZVOUS_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Reads RANK and WORLD_SIZE; without them the process is alone. */
static inline int rendezvous_world(int *rank, int *nranks) {
  const char *rank_text = getenv("RANK"), *size_text = getenv("WORLD_SIZE");
  *rank = rank_text ? atoi(rank_text) : 0;
  *nranks = size_text ? atoi(size_text) : 1;
  if (*nranks >= 1 && *rank >= 0 && *rank < *nranks)
    return 0;
  fprintf(stderr, "RANK=%s WORLD_SIZE=%s make no sense\n", rank_text, size_text);
  return -1;
}

static inline int rendezvous_socket(struct sockaddr_in *address) {
  const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
  *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((in_port_t)(port ? atoi(port) : 0))};
  if (!port || inet_pton(AF_INET, host ? host : "127.0.0.1", &address->sin_addr) != 1) {
    fprintf(stderr, "MASTER_ADDR or MASTER_PORT is missing\n");
    return -1;
  }
  return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static inline int rendezvous_serve(const void *data, size_t size, int nranks) {
  struct sockaddr_in address;
  int one = 1, listener = rendezvous_socket(&address);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
      listen(listener, nranks) != 0) {
    perror("rank 0 cannot listen on MASTER_PORT");
    return -1;
  }
  for (int i = 1; i < nranks; i++) {
    int fd = accept(listener, NULL, NULL);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
      perror("rank 0 cannot answer");
      return -1;
    }
    close(fd);
  }
  close(listener);
  return 0;
}

static inline int rendezvous_ask(void *data, size_t size) {
  for (int attempt = 0; attempt < 6000; attempt++) {
    struct sockaddr_in address;
    int fd = rendezvous_socket(&address);
    if (fd < 0)
      return -1;
    int got = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
              recv(fd, data, size, MSG_WAITALL) == (ssize_t)size;
    close(fd);
    if (got)
      return 0;
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
  fprintf(stderr, "rank 0 does not answer on MASTER_PORT\n");
  return -1;
}

/* Copies rank 0's bytes to all ranks. */
static inline int rendezvous_share(void *data, size_t size) {
  int rank, nranks;
  if (rendezvous_world(&rank, &nranks) != 0)
    return -1;
  return rank == 0 ? rendezvous_serve(data, size, nranks) : rendezvous_ask(data, size);
}

#endif
