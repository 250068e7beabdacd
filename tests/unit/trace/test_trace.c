/* SPDX-License-Identifier: BSD-3-Clause
 * The writer of traces: only counted records are lost, and a file is complete whatever happens to its process.
 * Also the bytes that calls send.
 *
 * Each case is a separate process, with its own folder, and is read back as in tagc-report.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interpose/calls/traced.h"
#include "interpose/comm/call.h"
#include "interpose/entry/start.h"
#include "interpose/nccl/process.h"
#include "interpose/tagc-report/read/records.h"
#include "tests/unit/disk.h"
#include "tests/unit/tap.h"

static char folder[] = "/tmp/tagc-test-trace.XXXXXX", prefix[64], said[4096];

static bool refuses_madvise;
int __real_madvise(void *memory, size_t size, int advice);
int __wrap_madvise(void *memory, size_t size, int advice);

int __wrap_madvise(void *memory, size_t size, int advice) {
  if (!refuses_madvise)
    return __real_madvise(memory, size, advice);
  errno = EINVAL;
  return -1;
}

/* ---- what processes do ------------------------------------------------------------------------------------------- */

static void begin(const char *buffer) {
  setenv("TAGC_TRACE", prefix, 1);
  setenv("TAGC_TRACE_BUFFER", buffer, 1);
  tagc_library_start();
  errno = 77;
  if (!tagc_trace_begin() || errno != 77)
    _exit(9);
}

static void add(uint32_t comm, uint64_t number);

/* Begins, and waits until the writer has written a record of `comm` 1: then its thread has completed its start. A child
 * forked earlier would find the locks of the address sanitizer's allocator taken forever, and wait for them at exit. */
static void begin_and_write(void) {
  begin("1M");
  const int before = atomic_load(&at_disk);
  add(1, 1);
  while (atomic_load(&at_disk) < before + 3) /* the head, a chunk and its records */
    usleep(1000);
}

/* Easily identified records: `comm` names the owner, `call` is the number. */
static void add(uint32_t comm, uint64_t number) {
  const struct tagc_trace_times record = {{TAGC_TRACE_TIMES, sizeof record, comm}, .call = number};
  tagc_trace_add(&record.record);
}

enum { MANY = 20000 };

static void *add_many(void *comm) {
  for (uint64_t i = 1; i <= MANY; i++)
    add((uint32_t)(uintptr_t)comm, i);
  return NULL;
}

static void threads(void) {
  pthread_t thread[2];
  begin("64M");
  for (uintptr_t i = 0; i < 2; i++)
    pthread_create(&thread[i], NULL, add_many, (void *)(i + 1));
  for (int i = 0; i < 2; i++)
    pthread_join(thread[i], NULL);
}

/* The caller continues while the disk hangs. */
static void full(void) {
  atomic_store(&disk_hangs, true);
  begin("1"); /* at least 64K */
  for (uint64_t i = 1; i <= MANY; i++)
    add(1, i);
  atomic_store(&disk_hangs, false);
}

static atomic_bool adds, over;

static void *add_on(void *unused) {
  (void)unused;
  atomic_store(&adds, true);
  for (uint64_t i = 1; i < 1000000 && !atomic_load(&over); i++)
    add(3, i);
  return NULL;
}

/* Meanwhile a thread that the child lacks holds the lock most of the time. */
static void forks(void) {
  pthread_t thread;
  begin_and_write();
  pthread_create(&thread, NULL, add_on, NULL);
  while (!atomic_load(&adds))
    usleep(1000);
  for (int i = 0; i < 20; i++) {
    const pid_t child = fork();
    if (child == 0) {
      if (i == 0)
        exit(0); /* never called anything */
      if (tagc_trace_begin())
        add(2, 1);
      exit(0);
    }
    waitpid(child, NULL, 0);
  }
  atomic_store(&over, true);
  pthread_join(thread, NULL);
}

/* A child that finds its parent's trace does not touch it. */
static void unwiped(void) {
  int status;
  refuses_madvise = true;
  begin_and_write();
  const pid_t child = fork();
  if (child == 0)
    exit(tagc_trace_begin() || tagc_trace_on());
  waitpid(child, &status, 0);
  if (status)
    _exit(8);
}

static void exit_now(int signal) {
  (void)signal;
  exit(0);
}

/* Interrupts the adding of a record: the signal comes where the copy of it begins. */
static void interrupted(void) {
  struct tagc_trace_times *nowhere_ = NULL;
  begin("1M");
  add(1, 1);
  signal(SIGSEGV, exit_now);
  void *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  nowhere_ = (void *)((char *)page + 4096 - 16);
  nowhere_->record = (struct tagc_trace_record){TAGC_TRACE_TIMES, sizeof *nowhere_, 1};
  mprotect((char *)page + 4096, 4096, PROT_NONE);
  tagc_trace_add(&nowhere_->record);
}

static void limited(void) {
  struct sigaction action;
  begin("1M");
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){100000, 100000});
  for (uint64_t i = 1; tagc_trace_on(); i++) /* until the writer has met the limit */
    add(1, i);
  add(1, 1); /* nothing happens */
  sigaction(SIGXFSZ, NULL, &action);
  if (action.sa_handler != SIG_DFL)
    _exit(8);
}

/* The program continues. */
static void bounded(void) {
  setenv("TAGC_TRACE_MAX", "1", 1); /* at least 1M */
  begin("64M");
  for (uint64_t i = 1; i <= 5 * MANY; i++)
    add(1, i);
  while (tagc_trace_on()) /* until the writer has met the bound */
    usleep(1000);
}

static void nowhere(void) {
  strcat(prefix, "/none/t");
  begin("1M");
  while (tagc_trace_on())
    add(1, 1);
}

static void there(void) {
  char path[200], host[64];
  gethostname(host, sizeof host);
  snprintf(path, sizeof path, "%s-%s-pid%d.trace", prefix, host, (int)getpid());
  FILE *file = fopen(path, "we");
  fputs("mine", file);
  fclose(file);
  begin("1M");
  add(1, 1);
}

static void add_late(void) { add(1, 2); }

static void late(void) {
  atexit(add_late); /* after the trace's own end */
  begin("1M");
  add(1, 1);
}

/* The writer runs on its own. */
static void killed(void) {
  begin_and_write();
  raise(SIGKILL);
}

/* ---- what is read ------------------------------------------------------------------------------------------------ */

struct found {
  unsigned files, mine, processes, names, ends, others;
  unsigned of[4], out_of_order; /* TIMES records by comm */
  uint64_t dropped, last_dropped, bytes;
  bool bad, ended, cut, bounded;
};

static void read_file(const char *path, struct found *found) {
  char why[TAGC_TRACE_WHY];
  uint64_t last[4] = {0};
  struct tagc_trace_file *file = tagc_trace_open(path, why);
  const struct tagc_trace_record *record;
  if (!file) {
    FILE *plain = fopen(path, "re");
    char text[8] = "";
    found->mine += plain && fgets(text, sizeof text, plain) && strcmp(text, "mine") == 0;
    if (plain)
      fclose(plain);
    return;
  }
  while ((record = tagc_trace_next(file))) {
    const struct tagc_trace_times *times = (const void *)record;
    const struct tagc_trace_end *end = (const void *)record;
    switch (record->kind) {
    case TAGC_TRACE_PROCESS: found->processes++; break;
    case TAGC_TRACE_NAME: found->names++; break;
    case TAGC_TRACE_END:
      found->ends++;
      found->last_dropped = end->dropped;
      break;
    case TAGC_TRACE_TIMES:
      found->of[record->comm % 4]++;
      found->out_of_order += times->call <= last[record->comm % 4];
      last[record->comm % 4] = times->call;
      break;
    default: found->others++;
    }
  }
  const struct tagc_trace_health *health = tagc_trace_health(file);
  found->files++;
  found->bad |= health->damaged_chunks || health->skipped_bytes || health->unknown_records || health->refused_records;
  found->cut |= health->cut;
  found->ended = health->ended;
  found->bounded |= health->bounded;
  found->dropped += health->dropped;
  found->bytes += health->bytes;
  tagc_trace_close(file);
}

enum { MOST = 64 << 20 }; /* limit of any file, whatever goes wrong */

/* Runs a case, and reads its files; its output is in `said`. Returns its status. */
static int run(void (*what)(void), struct found *found) {
  char log[80], path[400];
  int status;
  memset(found, 0, sizeof *found);
  snprintf(prefix, sizeof prefix, "%s/t", folder);
  snprintf(log, sizeof log, "%s/log", folder);
  const pid_t child = fork();
  if (child == 0) {
    if (!freopen(log, "w", stderr) || setrlimit(RLIMIT_FSIZE, &(struct rlimit){MOST, MOST}) != 0)
      _exit(7);
    what();
    exit(0);
  }
  waitpid(child, &status, 0);
  DIR *files = opendir(folder);
  for (const struct dirent *entry; (entry = readdir(files));) {
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (strstr(entry->d_name, ".trace")) {
      struct stat about;
      if (stat(path, &about) != 0 || (about.st_mode & 0777 & ~0600))
        found->bad |= about.st_size != 4; /* the file that we made ourselves */
      read_file(path, found);
      unlink(path);
    }
  }
  closedir(files);
  FILE *file = fopen(log, "re");
  said[fread(said, 1, sizeof said - 1, file)] = '\0';
  fclose(file);
  return status;
}

static unsigned lines(void) {
  unsigned n = 0;
  for (const char *c = said; *c; c++)
    n += *c == '\n';
  return n;
}

/* The number of times that the text was logged. A slow disk may add messages about lost records. */
static unsigned times(const char *text) {
  unsigned n = 0;
  for (const char *c = said; (c = strstr(c, text)); c++)
    n++;
  return n;
}

/* ---- what calls send --------------------------------------------------------------------------------------------- */

static void test_sent(void) {
  /* The sum over the ranks, in elements, for n = 12 and W = 4; a host, two hosts, four. */
  static const struct {
    enum tagc_entry entry;
    const char *name;
    uint64_t all, between[3];
  } table[] = {
    {TAGC_ENTRY_ncclReduceScatter, "ReduceScatter", 4 * 3 * 12, {0, 72, 144}},
    {TAGC_ENTRY_ncclAllGather, "AllGather", 4 * 3 * 12, {0, 72, 144}},
    {TAGC_ENTRY_ncclAllReduce, "AllReduce", 2 * 3 * 12, {0, 36, 72}},
    {TAGC_ENTRY_ncclBroadcast, "Broadcast", 3 * 12, {0, 18, 36}},
    {TAGC_ENTRY_ncclBcast, "Bcast", 3 * 12, {0, 18, 36}},
    {TAGC_ENTRY_ncclReduce, "Reduce", 3 * 12, {0, 18, 36}},
    {TAGC_ENTRY_ncclAlltoAll, "AlltoAll", 4 * 3 * 12, {0, 96, 144}},
    {TAGC_ENTRY_ncclGather, "Gather", 3 * 12, {0, 24, 36}},
    {TAGC_ENTRY_ncclScatter, "Scatter", 3 * 12, {0, 24, 36}},
    {TAGC_ENTRY_ncclSend, "Send", 3 * 12, {0, 24, 36}}, /* each of the others to rank 2 */
    {TAGC_ENTRY_ncclRecv, "Recv", 0, {0, 0, 0}},
  };
  static const struct tagc_hosts hosts[] = {{4, 1, 4}, {4, 2, 2}, {4, 4, 1}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    for (int j = 0; j < 3; j++) {
      struct tagc_call call = {.entry = table[i].entry, .count = 12, .type = ncclFloat32, .root = 2};
      struct tagc_traffic sum = {0};
      for (int rank = 0; rank < 4; rank++) {
        const struct tagc_traffic sent = tagc_trace_sent(&call, rank, &hosts[j]);
        sum.inside += sent.inside;
        sum.between += sent.between;
      }
      ok(sum.inside + sum.between == 4 * table[i].all && sum.between == 4 * table[i].between[j],
         "%s, 4 ranks on %d hosts: %llu, %llu "
         "between",
         table[i].name, hosts[j].hosts, (unsigned long long)(sum.inside + sum.between) / 4,
         (unsigned long long)sum.between / 4);
    }
  struct tagc_call call = {.entry = TAGC_ENTRY_ncclAllReduce, .count = 12, .type = ncclFloat32};
  const struct tagc_hosts alone = {1, 1, 1}, unknown = {0};
  ok(tagc_trace_sent(&call, 0, &alone).inside == 0 && tagc_trace_sent(&call, -1, &unknown).inside == 0,
     "one rank, or an unknown number: nothing");
}

int main(void) {
  struct found f;
  if (!mkdtemp(folder))
    return 1;
  int status = run(threads, &f);
  ok(status == 0 && f.files == 1 && !f.bad && !f.cut && f.ended && !f.dropped,
     "two threads: a whole file, with its end");
  ok(f.of[1] == MANY && f.of[2] == MANY && !f.out_of_order, "all records of both are in it, in their order");
  ok(f.processes == 1 && f.names > 80 && f.others == 1 && f.ends == 1,
     "behind those of the process, %u names and its options", f.names);
  ok(!*said, "nothing is said: %s", said);

  status = run(full, &f);
  ok(status == 0 && f.files == 1 && !f.bad && !f.cut && f.ended,
     "a disk that hangs: the program goes on, and the file is whole");
  ok(f.dropped > 0 && f.of[1] + f.dropped == MANY && f.last_dropped == f.dropped,
     "%u records are in it, and %llu counted as lost", f.of[1], (unsigned long long)f.dropped);
  ok(lines() == 1 && strstr(said, "TAGC_TRACE_BUFFER") && strstr(said, "65536 bytes"), "which is said, once: %s", said);

  status = run(forks, &f);
  ok(status == 0 && f.files == 20 && !f.bad && !f.cut,
     "19 of 20 children that called something have files of their own: %u files", f.files);
  ok(f.processes == 20 && f.of[2] == 19 && f.of[1] == 1 && f.ends == 20 && !f.out_of_order,
     "each with its own records alone");

  status = run(unwiped, &f);
  ok(status == 0 && f.files == 1 && f.of[1] == 1 && f.ended,
     "where memory cannot be wiped at a fork, a child is not traced");
  status = run(interrupted, &f);
  ok(status == 0 && lines() == 1 && strstr(said, "its end is missing"),
     "exit() in the midst of a record: said once: %s", said);

  status = run(limited, &f);
  ok(status == 0 && f.files == 1 && !f.bad && !f.cut && !f.ended && f.of[1] > 0 && f.bytes <= 100000,
     "a limit on the size of files: %llu bytes of whole chunks", (unsigned long long)f.bytes);
  ok(times("File too large; the trace of this process ends here") == 1, "which is said, once: %s", said);

  status = run(bounded, &f);
  ok(status == 0 && f.files == 1 && !f.bad && !f.cut && f.ended && f.bounded && f.ends == 1 && f.of[1] > 10000 &&
       !f.out_of_order && f.bytes <= 1 << 20,
     "TAGC_TRACE_MAX: %u records in %llu bytes, and an end that says so", f.of[1], (unsigned long long)f.bytes);
  ok(times("the file would grow beyond 1048576 bytes (TAGC_TRACE_MAX)") == 1, "which is said, once: %s", said);

  status = run(nowhere, &f);
  ok(status == 0 && f.files == 0 && lines() == 1 && strstr(said, "No such file or directory"),
     "no folder: said once: %s", said);
  status = run(there, &f);
  ok(status == 0 && f.files == 1 && f.mine == 1 && f.of[1] == 1 && f.ended && !f.bad && lines() == 0,
     "a file that is there stays, and the trace gets a name of its own");

  status = run(late, &f);
  ok(status == 0 && !f.bad && f.of[1] == 2 && f.ends == 2 && !f.out_of_order,
     "a record that comes late at exit is in the file, with an end behind it");

  status = run(killed, &f);
  ok(WIFSIGNALED(status) && f.files == 1 && !f.bad && f.of[1] == 1 && !f.ended,
     "a process that is killed leaves what was written");

  test_sent();
  snprintf(said, sizeof said, "%s/log", folder);
  unlink(said);
  rmdir(folder);
  return tap_done();
}
