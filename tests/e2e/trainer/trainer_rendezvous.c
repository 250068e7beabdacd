/* SPDX-License-Identifier: BSD-3-Clause
 * Ranks find rank 0 through taken ports, silent strangers and late starts. Each rank is a child process.
 */
#include <arpa/inet.h>
#include <signal.h>
#include <sys/wait.h>

#include "examples/rendezvous.h"
#include "tests/unit/tap.h"

#define BYTES 128

/* A listener on a port of the system's choice, or on `port`; -1 if it is taken. */
static int listen_on(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 16) == 0)
    return fd;
  close(fd);
  return -1;
}

static int port_of(int fd) {
  struct sockaddr_in address;
  socklen_t size = sizeof address;
  getsockname(fd, (struct sockaddr *)&address, &size);
  return ntohs(address.sin_port);
}

/* Starts a rank after a delay; its exit status is 0 if it ends up with rank 0's bytes. */
static pid_t start_rank(const struct rendezvous *world, int rank, int delay_ms) {
  pid_t child = fork();
  if (child != 0)
    return child;
  struct rendezvous me = *world;
  char why[256] = "";
  unsigned char data[BYTES], expected[BYTES];
  me.rank = rank;
  memset(expected, 0x5a, sizeof expected);
  memset(data, rank == 0 ? 0x5a : 0, sizeof data);
  poll(NULL, 0, delay_ms);
  bool good = rendezvous_share(&me, data, sizeof data, why, sizeof why) && memcmp(data, expected, BYTES) == 0;
  if (!good)
    fprintf(stderr, "# rank %d: %s\n", rank, why);
  _exit(good ? 0 : 1);
}

static bool ends_well(pid_t child) {
  int status;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Runs all ranks, rank r after delay_ms[r]. Returns the number of those that got the bytes. */
static int run_ranks(const struct rendezvous *world, const int *delay_ms) {
  pid_t children[8];
  int good = 0;
  for (int rank = 0; rank < world->nranks; rank++)
    children[rank] = start_rank(world, rank, delay_ms[rank]);
  for (int rank = 0; rank < world->nranks; rank++)
    good += ends_well(children[rank]);
  return good;
}

static void test_environment(void) {
  struct rendezvous r;
  char why[256];
  unsetenv("RANK");
  unsetenv("WORLD_SIZE");
  ok(rendezvous_from_env(&r, why, sizeof why) && r.rank == 0 && r.nranks == 1, "without variables: one rank");
  ok(rendezvous_share(&r, NULL, 0, why, sizeof why), "which waits for nobody");
  setenv("WORLD_SIZE", "4", 1);
  ok(!rendezvous_from_env(&r, why, sizeof why) && strstr(why, "RANK is not set"), "WORLD_SIZE without RANK: %s", why);
  setenv("RANK", "3", 1);
  setenv("MASTER_PORT", "70000", 1);
  ok(!rendezvous_from_env(&r, why, sizeof why) && strstr(why, "MASTER_PORT=70000"), "a port out of range: %s", why);
  setenv("MASTER_PORT", "65535", 1);
  setenv("MASTER_ADDR", "localhost", 1);
  ok(rendezvous_from_env(&r, why, sizeof why) && r.rank == 3 && r.nranks == 4, "as torchrun sets them");
  ok(rendezvous_port(&r, 0) == 1024, "the ports behind 65535 start again at 1024");
}

static void test_meetings(void) {
  int agent = listen_on(0), stranger = listen_on(port_of(agent) + 1);
  struct rendezvous world = {
    .nranks = 4, .address = "127.0.0.1", .port = port_of(agent), .job = "test", .timeout_s = 20.0};
  ok(run_ranks(&world, (int[]){0, 0, 0, 0}) == 4, "four ranks, MASTER_PORT taken by an agent, the next by a stranger%s",
     stranger < 0 ? " of its own" : "");
  close(stranger);
  ok(run_ranks(&world, (int[]){300, 0, 0, 0}) == 4, "rank 0 starts late");
  ok(run_ranks(&world, (int[]){0, 0, 200, 400}) == 4, "other ranks start late");
  struct rendezvous named = world;
  char why[256];
  named.address = "localhost";
  if (rendezvous_has_address(&named, why, sizeof why))
    ok(run_ranks(&named, (int[]){0, 0, 0, 0}) == 4, "an address by its name");
  else /* a system without /etc/hosts */
    skip("an address by its name", why);
  /* The last one comes after rank 0 has gone; the others have enough time before that. */
  pid_t there[2] = {start_rank(&world, 1, 0), start_rank(&world, 2, 0)};
  world.timeout_s = 5;
  bool served = ends_well(start_rank(&world, 0, 0));
  world.timeout_s = 0.1;
  served |= ends_well(start_rank(&world, 3, 0));
  bool waited = ends_well(there[0]);
  waited &= ends_well(there[1]);
  ok(waited && !served, "a rank that comes after the timeout: it and rank 0 fail");
  close(agent);
}

/* The name of no host (RFC 6761). Ranks other than 0 wait for it to appear. */
static void test_unknown_name(void) {
  struct rendezvous world = {.nranks = 2, .address = "nobody.invalid", .port = 29500, .job = "test", .timeout_s = 0.1};
  for (world.rank = 0; world.rank < 2; world.rank++) {
    char why[256] = "", data[BYTES] = "";
    ok(!rendezvous_share(&world, data, sizeof data, why, sizeof why) &&
         strstr(why, "no address of MASTER_ADDR=nobody.invalid: "),
       "a name that nobody has: %s", why);
  }
}

/* Two jobs with one MASTER_PORT at the same time: the key keeps them apart. */
static void test_two_jobs(void) {
  int agent = listen_on(0);
  struct rendezvous one = {.nranks = 2, .address = "127.0.0.1", .port = port_of(agent), .timeout_s = 20.0}, two = one;
  one.job = "one";
  two.job = "two";
  pid_t first = start_rank(&one, 0, 0), second = start_rank(&two, 0, 50);
  pid_t third = start_rank(&two, 1, 100), fourth = start_rank(&one, 1, 100);
  pid_t all[] = {first, second, third, fourth};
  int good = 0;
  for (int i = 0; i < 4; i++)
    good += ends_well(all[i]);
  ok(good == 4, "two jobs with the same MASTER_PORT");
  close(agent);
}

int main(void) {
  test_environment();
  test_meetings();
  test_two_jobs();
  test_unknown_name();
  return tap_done();
}
