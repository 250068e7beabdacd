/* SPDX-License-Identifier: BSD-3-Clause
 * Starts the ranks of a program on this machine, as torchrun would: see launch --help.
 *
 * One thread, one poll loop: the children's output (a pipe per stream), and signals and deaths through a signalfd.
 * Signals go only to children that have not been waited for, so never to another process. Exit status: the worst of the
 * ranks (128 + number for a signal), without ranks that were ended because another had failed. It is 2 for bad
 * arguments, 126 and 127 as in a shell for a command that cannot be started.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "env/program/command_line.h"
#include "env/program/output.h"
#include "examples/rendezvous.h"
#include "tests/standin/launch_output.h"

#define MOST_RANKS 1024
#define KILL_MS 5000 /* from SIGTERM for the others to SIGKILL */

/* The range of MASTER_PORT and the ports behind it. */
enum { PORTS = 1 + RENDEZVOUS_PORTS, PORTS_BEGIN = 20000, PORTS_END = 32000 };

struct rank {
  pid_t pid; /* 0 once it has been waited for */
  bool ended_by_us;
  struct stream streams[2];
};

struct options {
  int nranks, grace_s;
  bool no_prefix, cuda;
  const char *given_hosts, *rate, *rate_inside, *stats, *preload;
  int *hosts; /* of each rank; NULL: all on this machine */
  char **command;
};

static struct rank *ranks;
static int network_cards = -1; /* memory: a zeroed page per host, shared by the limits of its ranks (rate.c) */
static struct options options;

#define TO(type, field) .kind = TAGC_ARGUMENT_##type, .offset = offsetof(struct options, field)
/* clang-format off */
static const struct tagc_argument rows[] = {
  {.name = "ranks", .letter = 'n', .value = "N", TO(INT, nranks), .accepts = "1 to 1024", .help = "number of ranks"},
  {.name = "hosts", .value = "H", TO(TEXT, given_hosts),
   .help = "play H hosts with as many ranks each, the lowest ranks on the first; or the host of each rank: 0,1,0,1. "
           "Without it, all ranks share this machine; with --rate each of them is a host of its own"},
  {.name = "rate", .value = "RATE", TO(TEXT, rate),
   .help = "limit what the ranks of a host together send to other hosts, as a network card does: 200mbit, 1gbit, or "
           "bytes per second"},
  {.name = "rate-inside", .value = "RATE", TO(TEXT, rate_inside),
   .help = "limit what each rank sends to ranks of its own host"},
  {.name = "cuda", TO(FLAG, cuda),
   .help = "with the stand-in for NCCL that works on device memory, and that for the CUDA driver: every rank has a "
           "device 0 of its own"},
  {.name = "stats", .value = "PREFIX", TO(TEXT, stats),
   .help = "write the calls of each rank and their bytes to PREFIX.RANK"},
  {.name = "preload", .value = "LIB", TO(TEXT, preload),
   .help = "LD_PRELOAD for the ranks, before one that is set already"},
  {.name = "no-prefix", TO(FLAG, no_prefix), .help = "do not put [rank] before each line of output"},
  {.name = "grace", .value = "S", TO(INT, grace_s), .accepts = "0 to 86400", .preset = "1",
   .help = "when a rank has failed, the others get so many seconds to end by themselves"},
};
/* clang-format on */
_Static_assert(MOST_RANKS == 1024, "as the row of --ranks says");

static const struct tagc_command_line command_line = {
  .program = "launch",
  .head = "Usage: launch -n N [options] -- COMMAND [ARGUMENT]...\n"
          "Starts N ranks of COMMAND on this machine with the stand-in for NCCL.\n\n",
  .tail = "\n"
          "The ranks get RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, NCCL_HOSTID\n"
          "where hosts are played, and find the libnccl.so.2 that lies beside this program first (with --cuda\n"
          "those in its folders device/ and cuda/).\n",
  .indent = 18,
  .rows = rows,
  .count = sizeof rows / sizeof *rows,
  .command = true,
};

__attribute__((format(printf, 1, 2), noreturn)) static void refuse(const char *what, ...) {
  va_list args;
  fprintf(stderr, "launch: ");
  va_start(args, what);
  vfprintf(stderr, what, args);
  va_end(args);
  fprintf(stderr, "\nTry launch --help.\n");
  exit(2);
}

/* The forms that the stand-in reads: a limit that it did not understand would silently spoil a measurement. */
static bool is_rate(const char *text) {
  static const char *const units[] = {"", "bit", "kbit", "mbit", "gbit"};
  char *end;
  bool known = false;
  double value = strtod(text, &end);
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
    known |= strcasecmp(end, units[i]) == 0;
  return known && end != text && value > 0 && isfinite(value);
}

static void check_rate(const char *option, const char *text) {
  if (text && !is_rate(text))
    refuse("%s %s: not a rate (200mbit, 1gbit, or bytes per second)", option, text);
}

static void place_evenly(const char *text) {
  char *end = NULL;
  const long hosts = strtol(text, &end, 10);
  if (*end || hosts < 1 || options.nranks % hosts)
    refuse("--hosts %s: %d ranks cannot be shared out evenly; a list such as 0,0,1 says the host of each rank", text,
           options.nranks);
  for (int i = 0; i < options.nranks; i++)
    options.hosts[i] = i / (options.nranks / (int)hosts);
}

/* Reads the host of each rank, separated by commas. */
static void place_by_list(const char *text) {
  const char *at = text;
  for (int i = 0; i < options.nranks; i++) {
    char *end = NULL;
    long host = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : MOST_RANKS;
    if (host >= MOST_RANKS || *end != (i < options.nranks - 1 ? ',' : '\0'))
      refuse("--hosts %s: not a list of %d hosts from 0 to %d", text, options.nranks, MOST_RANKS - 1);
    options.hosts[i] = (int)host;
    at = end + 1;
  }
}

/* `text`: the value of --hosts, or NULL. */
static void place(const char *text) {
  if (!text && !options.rate)
    return;
  if (!text && options.rate_inside)
    refuse("--rate-inside %s: without --hosts every rank is a host of its own", options.rate_inside);
  options.hosts = calloc((size_t)options.nranks, sizeof *options.hosts);
  if (!options.hosts)
    refuse("no memory");
  if (text && strchr(text, ','))
    place_by_list(text);
  else if (text)
    place_evenly(text);
  else
    for (int i = 0; i < options.nranks; i++)
      options.hosts[i] = i;
}

/* The exit status: that, unless output was lost. */
static int end_with(int status, int error) {
  if (!error)
    return status;
  fprintf(stderr, "launch: cannot write: %s\n", strerror(error));
  return status ? status : 1;
}

static void parse(char **argv) {
  tagc_command_line_preset(&command_line, &options);
  const int status = tagc_command_line_parse(&command_line, argv, &options, stdout);
  if (status != TAGC_COMMAND_LINE_GO)
    exit(end_with(status, tagc_output_flush(stdout)));
  if (!options.nranks)
    refuse("-n, the number of ranks, is missing");
  options.command = argv + 1;
  if (!*options.command)
    refuse("there is no command to start");
  check_rate("--rate", options.rate);
  check_rate("--rate-inside", options.rate_inside);
  place(options.given_hosts);
}

/* -- children ---------------------------------------------------------------------------------------------------- */
/* True if a rank may listen there, with the options that ranks use: an earlier listener's TIME_WAIT is no obstacle. */
static bool is_free(int port) {
  struct sockaddr_in address = {
    .sin_family = AF_INET, .sin_port = htons((in_port_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0)
    refuse("no socket: %s", strerror(errno));
  bool good = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
              bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
  close(fd);
  return good;
}

/* The end of the ports for listeners alone. Behind it are the ports of connecting sockets, whose TIME_WAIT does keep
 * others from a port. A range that leaves no port is ignored. */
static int end_of_ports(void) {
  int first = PORTS_END;
  FILE *range = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
  if (range && fscanf(range, "%d", &first) != 1)
    first = PORTS_END;
  if (range)
    fclose(range);
  return first < PORTS_BEGIN + PORTS || first > PORTS_END ? PORTS_END : first;
}

/* A MASTER_PORT that is free together with all ports behind it that ranks may use. Concurrent launchers begin their
 * searches at different ports. */
static int free_port(void) {
  const int places = (end_of_ports() - PORTS_BEGIN) / PORTS;
  for (int i = 0; i < places; i++) {
    int first = PORTS_BEGIN + (getpid() + i) % places * PORTS, count = 0;
    while (count < PORTS && is_free(first + count))
      count++;
    if (count == PORTS)
      return first;
  }
  refuse("no %d free ports in a row from %d on", PORTS, PORTS_BEGIN);
}

static void set_number(const char *name, int value) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  setenv(name, text, 1);
}

/* Sets the variable to `first`, then its former value. */
static void prepend(const char *name, const char *first) {
  const char *old = getenv(name);
  char *joined;
  if (asprintf(&joined, "%s%s%s", first, old && *old ? ":" : "", old ? old : "") < 0)
    refuse("no memory");
  setenv(name, joined, 1);
  free(joined);
}

/* Makes the ranks find the library in that folder first. False: it is not there. */
static bool offer(const char *folder, const char *inner, const char *library) {
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s%s/%s", folder, inner, library) >= (int)sizeof path || access(path, R_OK) != 0)
    return false;
  *strrchr(path, '/') = '\0';
  prepend("LD_LIBRARY_PATH", path);
  return true;
}

static void offer_libraries(void) {
  char self[PATH_MAX];
  ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
  self[size > 0 ? size : 0] = '\0';
  const char *folder = dirname(self);
  offer(folder, "", "libnccl.so.2");
  if (options.cuda && (!offer(folder, "/cuda", "libcuda.so.1") || !offer(folder, "/device", "libnccl.so.2")))
    refuse("--cuda: the folders cuda and device beside %s lack their libraries", folder);
}

/* Sets the variables common to all ranks, without LD_PRELOAD: this program must not run with it. */
static void set_environment(void) {
  offer_libraries();
  set_number("WORLD_SIZE", options.nranks);
  set_number("MASTER_PORT", free_port());
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  if (options.rate)
    setenv("NCCL_STANDIN_RATE", options.rate, 1);
  if (options.rate_inside)
    setenv("NCCL_STANDIN_RATE_INSIDE", options.rate_inside, 1);
  if (options.stats)
    setenv("NCCL_STANDIN_STATS", options.stats, 1);
}

/* Makes one page for each host number. */
static void make_network_cards(void) {
  int most = 0;
  for (int i = 0; i < options.nranks; i++)
    most = options.hosts[i] > most ? options.hosts[i] : most;
  network_cards = memfd_create("network cards", MFD_CLOEXEC);
  if (network_cards < 0 || ftruncate(network_cards, (most + 1) * sysconf(_SC_PAGESIZE)) != 0)
    refuse("no memory for the hosts' network cards: %s", strerror(errno));
}

/* Sets the rank's host and its local place there. */
static void set_place(int rank, pid_t launcher) {
  int before = 0, together = 0;
  char text[64];
  for (int i = 0; i < options.nranks; i++) {
    bool with_it = !options.hosts || options.hosts[i] == options.hosts[rank];
    before += with_it && i < rank;
    together += with_it;
  }
  set_number("RANK", rank);
  set_number("LOCAL_RANK", before);
  set_number("LOCAL_WORLD_SIZE", together);
  if (!options.hosts)
    return;
  snprintf(text, sizeof text, "launch-%ld-%d", (long)launcher, options.hosts[rank]);
  setenv("NCCL_HOSTID", text, 1);
  snprintf(text, sizeof text, "/proc/%ld/fd/%d:%d", (long)launcher, network_cards, options.hosts[rank]);
  setenv("NCCL_STANDIN_NIC", text, 1);
}

__attribute__((noreturn)) static void become(int rank, const int *out, const int *err, const sigset_t *mask,
                                             pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(1);
  set_place(rank, parent);
  if (options.preload)
    prepend("LD_PRELOAD", options.preload);
  if (!options.no_prefix) {
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
  }
  sigprocmask(SIG_SETMASK, mask, NULL);
  execvp(options.command[0], options.command);
  dprintf(STDERR_FILENO, "launch: cannot start %s: %s\n", options.command[0], strerror(errno));
  _exit(errno == ENOENT ? 127 : 126);
}

static void start(int rank, const sigset_t *mask) {
  int out[2] = {-1, -1}, err[2] = {-1, -1};
  pid_t parent = getpid();
  if (!options.no_prefix && (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0))
    refuse("no pipe for rank %d: %s", rank, strerror(errno));
  pid_t pid = fork();
  if (pid < 0)
    refuse("cannot start rank %d: %s", rank, strerror(errno));
  if (pid == 0)
    become(rank, out, err, mask, parent);
  ranks[rank] = (struct rank){
    .pid = pid, .streams = {{.from = out[0], .to = STDOUT_FILENO}, {.from = err[0], .to = STDERR_FILENO}}};
  if (!options.no_prefix) {
    close(out[1]);
    close(err[1]);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(err[0], F_SETFL, O_NONBLOCK);
  }
}

static void signal_ranks(int signal, bool end) {
  for (int i = 0; i < options.nranks; i++)
    if (ranks[i].pid) {
      ranks[i].ended_by_us |= end;
      kill(ranks[i].pid, signal);
    }
}

/* Waits for children that have ended. Returns how many still run; raises *worst. */
static int reap(int *worst, bool *failed) {
  int running = 0;
  for (int i = 0; i < options.nranks; i++) {
    int status;
    if (ranks[i].pid && waitpid(ranks[i].pid, &status, WNOHANG) == ranks[i].pid) {
      ranks[i].pid = 0;
      int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      if (ranks[i].ended_by_us && WIFSIGNALED(status))
        code = 0;
      else if (WIFSIGNALED(status))
        fprintf(stderr, "launch: rank %d was ended by signal %d (%s)\n", i, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
      *worst = code > *worst ? code : *worst;
      *failed |= code != 0;
    }
    running += ranks[i].pid != 0;
  }
  return running;
}

/* -- the loop ---------------------------------------------------------------------------------------------------- */
static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* The terminal sends its signals to the ranks itself; others are passed on. */
static void take_signals(int signals) {
  struct signalfd_siginfo info;
  while (read(signals, &info, sizeof info) == (ssize_t)sizeof info)
    if (info.ssi_signo != SIGCHLD && info.ssi_code != SI_KERNEL)
      signal_ranks((int)info.ssi_signo, false);
}

static void wait_for_events(int signals, int64_t deadline) {
  struct pollfd *fds = calloc(1 + 2 * (size_t)options.nranks, sizeof *fds);
  if (!fds)
    refuse("no memory");
  fds[0] = (struct pollfd){.fd = signals, .events = POLLIN};
  for (int i = 0; i < 2 * options.nranks; i++)
    fds[1 + i] = (struct pollfd){.fd = ranks[i / 2].streams[i % 2].from, .events = POLLIN};
  int64_t left = deadline ? deadline - now_ms() : -1;
  poll(fds, 1 + 2 * (nfds_t)options.nranks, deadline && left < 0 ? 0 : (int)left);
  for (int i = 0; i < 2 * options.nranks; i++)
    if (fds[1 + i].revents)
      launch_read_stream(i / 2, &ranks[i / 2].streams[i % 2]);
  take_signals(signals);
  free(fds);
}

/* After a failure: first time to end on their own, then SIGTERM, then SIGKILL. Returns the next deadline. */
static int64_t press(int64_t deadline, int *stage) {
  if (now_ms() < deadline)
    return deadline;
  signal_ranks(*stage == 0 ? SIGTERM : SIGKILL, true);
  (*stage)++;
  return now_ms() + KILL_MS;
}

static int watch(int signals) {
  int worst = 0, stage = 0;
  int64_t deadline = 0;
  bool failed = false;
  while (reap(&worst, &failed)) {
    if (failed && !deadline)
      deadline = now_ms() + options.grace_s * INT64_C(1000);
    if (deadline)
      deadline = press(deadline, &stage);
    wait_for_events(signals, deadline);
  }
  for (int i = 0; i < 2 * options.nranks; i++) {
    struct stream *stream = &ranks[i / 2].streams[i % 2];
    while (stream->from >= 0 && launch_read_stream(i / 2, stream))
      ;
    if (stream->from >= 0)
      launch_close_stream(i / 2, stream);
  }
  return worst;
}

int main(int argc, char **argv) {
  (void)argc;
  parse(argv);
  ranks = calloc((size_t)options.nranks, sizeof *ranks);
  if (!ranks)
    refuse("no memory");
  set_environment();
  if (options.hosts)
    make_network_cards();
  sigset_t ours, theirs;
  sigemptyset(&ours);
  sigaddset(&ours, SIGINT);
  sigaddset(&ours, SIGTERM);
  sigaddset(&ours, SIGHUP);
  sigaddset(&ours, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ours, &theirs);
  signal(SIGPIPE, SIG_IGN);
  int signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0)
    refuse("no signalfd: %s", strerror(errno));
  for (int i = 0; i < options.nranks; i++)
    start(i, &theirs);
  int status = watch(signals);
  free(ranks);
  free(options.hosts);
  return end_with(status, launch_output_error());
}
