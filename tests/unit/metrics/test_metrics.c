/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_METRICS: the formats, and that a file is whole at every moment, whatever happens to its disk and its process.
 *
 * Each case of files is a separate process, with its own folder.
 */
#include <dirent.h>
#include <errno.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env/files.h"
#include "interpose/entry/start.h"
#include "interpose/metrics/format.h"
#include "interpose/metrics/metrics.h"
#include "interpose/nccl/process.h"
#include "tests/unit/disk.h"
#include "tests/unit/tap.h"

static char folder[] = "/tmp/tagc-test-metrics.XXXXXX", prefix[96], said[4096];

/* ---- memory and threads that run out ----------------------------------------------------------------------------- */

static atomic_bool is_poor, lacks_threads;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
bool __real_tagc_thread_start(void *(*work)(void *), void *argument);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
bool __wrap_tagc_thread_start(void *(*work)(void *), void *argument);

void *__wrap_malloc(size_t size) { return atomic_load(&is_poor) ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return atomic_load(&is_poor) ? NULL : __real_calloc(count, size); }
void *__wrap_realloc(void *memory, size_t size) { return atomic_load(&is_poor) ? NULL : __real_realloc(memory, size); }
bool __wrap_tagc_thread_start(void *(*work)(void *), void *argument) {
  return !atomic_load(&lacks_threads) && __real_tagc_thread_start(work, argument);
}

/* ---- formats ----------------------------------------------------------------------------------------------------- */

static const struct tagc_metrics_family gauge = {"x_ratio", "Help.", TAGC_METRICS_GAUGE},
                                        summary = {"y_seconds", "More help.", TAGC_METRICS_SUMMARY};

/* A gauge with this value and this label, in the format; static memory. */
static const char *written(enum tagc_metrics_format format, const char *value_of_label, double value) {
  static char copy[1024];
  struct tagc_metrics_text text = {.format = format};
  struct tagc_metrics_sample sample = {
    .labels = {{"run", "r"}, {"rank", "3"}, {.name = "layer"}}, .label_count = 3, .value = value, .count = 7};
  snprintf(sample.labels[2].value, sizeof sample.labels[2].value, "%s", value_of_label);
  tagc_metrics_begin(&text, 12.5, "r", 3);
  tagc_metrics_add(&text, &gauge, &sample);
  tagc_metrics_close(&text);
  tagc_metrics_add(&text, &summary, &sample);
  tagc_metrics_add(&text, &summary, &sample);
  tagc_metrics_close(&text);
  tagc_metrics_end(&text);
  snprintf(copy, sizeof copy, "%.*s", (int)text.used, text.at);
  free(text.at);
  return copy;
}

static void has(const char *text, const char *part, const char *what) {
  if (!ok(strstr(text, part) != NULL, "%s", what))
    note_lines(text);
}

static void test_formats(void) {
  static const char in_both[] = "# HELP tagc_x_ratio Help.\n"
                                "# TYPE tagc_x_ratio gauge\n"
                                "tagc_x_ratio{run=\"r\",rank=\"3\",layer=\"a\"} 0.25\n"
                                "# HELP tagc_y_seconds More help.\n"
                                "# TYPE tagc_y_seconds summary\n"
                                "tagc_y_seconds_sum{run=\"r\",rank=\"3\",layer=\"a\"} 0.25\n"
                                "tagc_y_seconds_count{run=\"r\",rank=\"3\",layer=\"a\"} 7\n";
  has(written(TAGC_METRICS_PROMETHEUS, "a", 0.25), in_both, "Prometheus: a family has its help and type once");
  ok(strcmp(written(TAGC_METRICS_JSON, "a", 0.25),
            "{\"time\":12.500,\"run\":\"r\",\"rank\":3,\"tagc_x_ratio\":[{\"layer\":\"a\",\"value\":0.25}],"
            "\"tagc_y_seconds\":[{\"layer\":\"a\",\"sum\":0.25,\"count\":7},{\"layer\":\"a\",\"sum\":0.25,\"count\":7}"
            "]}\n") == 0,
     "JSON: the same in a line");
  has(written(TAGC_METRICS_PROMETHEUS, "a\"b\\c\nd", 1), "layer=\"a\\\"b\\\\c\\nd\"", "Prometheus: labels are escaped");
  has(written(TAGC_METRICS_JSON, "a\"b\\c\nd\x01", 1), "\"layer\":\"a\\\"b\\\\c\\nd?\"", "JSON: likewise");
  has(written(TAGC_METRICS_PROMETHEUS, "\xc3\xa4\xff\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\xf0\x9f\x98\x80\xe2\x82", 1),
      "layer=\"\xc3\xa4" /* one for each wrong byte */ "?"
      "??"
      "???"
      "????"
      "\xf0\x9f\x98\x80"
      "??"
      "\"",
      "bytes that are not UTF-8 become question marks");
  has(written(TAGC_METRICS_PROMETHEUS, "a", 123456789012.0), "} 123456789012\n", "whole numbers have all digits");
  has(written(TAGC_METRICS_PROMETHEUS, "a", __builtin_inf()), "} +Inf\n", "infinity, as Prometheus has it");
  has(written(TAGC_METRICS_JSON, "a", __builtin_inf()), "\"value\":null", "and as JSON lacks it");
  ok(!strstr(written(TAGC_METRICS_PROMETHEUS, "a", __builtin_nan("")), "x_ratio"), "an unknown figure is left out");
}

/* Removes the files; returns how many there were but for the log. */
static int clear_folder(const char *of) {
  int n = 0;
  DIR *files = opendir(of);
  for (const struct dirent *entry; files && (entry = readdir(files));) {
    char name[512];
    snprintf(name, sizeof name, "%s/%s", of, entry->d_name);
    if (strcmp(entry->d_name, "..") == 0 || strcmp(entry->d_name, ".") == 0)
      continue;
    n += strcmp(entry->d_name, "log") != 0;
    if (entry->d_type == DT_DIR)
      n += clear_folder(name);
    unlink(name);
    rmdir(name);
  }
  if (files)
    closedir(files);
  return n;
}

static unsigned lines_of(const char *text) {
  unsigned n = 0;
  for (; *text; text++)
    n += *text == '\n';
  return n;
}

/* ---- what processes do ------------------------------------------------------------------------------------------- */

static struct tagc_ledger *ledger;

/* The figures of a communicator with a slot. */
static void begin(void) {
  static const struct tagc_slot_info slot = {.signature = {.count = 1000}, .name = "unit1"};
  setenv("TAGC_METRICS", prefix, 1);
  setenv("TAGC_REPORT", "0", 1);
  setenv("TAGC_CODEC", "q4", 1);
  tagc_library_start();
  ledger = tagc_ledger_create(0, 2);
  if (!ledger || !tagc_ledger_set_slots(ledger, &slot, 1, NULL))
    _exit(9);
}

static void take(uint64_t cycles) {
  ledger->cycles = cycles;
  ledger->rows[0].calls = cycles;
  errno = 77;
  tagc_metrics_take(ledger);
  if (errno != 77)
    _exit(9);
}

static char path[200], contents[1 << 20];

static const char *read_all(const char *name) {
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "re");
  const size_t n = file ? fread(contents, 1, sizeof contents - 1, file) : 0;
  contents[n] = '\0';
  if (file)
    fclose(file);
  return contents;
}

/* tagc_cycles_total of a file of Prometheus; -1: none. */
static long cycles_in(const char *name) {
  const char *line = strstr(read_all(name), "\ntagc_cycles_total{");
  return line ? strtol(strchr(line, '}') + 1, NULL, 10) : -1;
}

static void wait_for(const char *name, long cycles) {
  while (cycles_in(name) != cycles)
    usleep(1000);
}

static void plainly(void) {
  begin();
  take(1);
  ledger->cycles = 5; /* nobody hands it out: the exit finds it */
}

static void only_prometheus(void) {
  strcat(prefix, ".prom");
  setenv("RANK", "7", 1);
  begin();
  take(3);
}

static void only_lines(void) {
  strcat(prefix, ".jsonl");
  setenv("RANK", "seven", 1);
  setenv("SLURM_PROCID", "4", 1);
  begin();
  take(3);
}

/* A file of lines from an earlier run. */
static void lines_there(void) {
  char name[128];
  snprintf(name, sizeof name, "%s-rank0.jsonl", prefix);
  const int file = tagc_file_create(name);
  if (file < 0 || write(file, "mine", 4) != 4)
    _exit(9);
  begin();
  take(1);
}

/* The temporary file of a process of this number that was killed. */
static void remains(void) {
  char name[160];
  snprintf(path, sizeof path, "%s-rank0.prom", prefix);
  tagc_file_name(name, sizeof name, path, ".new");
  close(tagc_file_create(name));
  begin();
  take(2);
}

/* Calls go on while the disk hangs. */
static void hangs(void) {
  atomic_store(&disk_hangs, true);
  begin();
  for (uint64_t i = 1; i <= 1000; i++)
    take(i);
  while (!atomic_load(&at_disk)) /* the writer has come to it */
    usleep(1000);
  for (uint64_t i = 1001; i <= 2000; i++)
    take(i);
  atomic_store(&disk_hangs, false);
}

static void forks(void) {
  int status = 0;
  begin();
  take(1);
  wait_for("run-rank0.prom", 1);
  for (int i = 0; i < 10 && !status; i++) {
    const pid_t child = fork();
    if (child == 0) {
      take(1000);
      exit(0);
    }
    waitpid(child, &status, 0);
    take(2 + (uint64_t)i);
  }
  if (status || cycles_in("run-rank0.prom") > 11)
    _exit(8);
}

static bool ends_with_line(const char *text) { return *text == '{' && text[strlen(text) - 1] == '\n'; }

/* The disk takes a part of a line, and of a file of Prometheus. */
static void limited(void) {
  struct sigaction action;
  begin();
  take(1);
  while (!ends_with_line(read_all("run-rank0.jsonl")))
    usleep(1000);
  const size_t length = strlen(contents);
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){length + 100, RLIM_INFINITY});
  for (uint64_t i = 2; i < 5; i++) {
    const int before = atomic_load(&at_disk);
    while (atomic_load(&at_disk) < before + 4) { /* two for each file: a part, and an error */
      take(i);
      usleep(1000);
    }
  }
  while (strlen(read_all("run-rank0.jsonl")) != length) /* until the part is gone */
    usleep(1000);
  if (cycles_in("run-rank0.prom") != 1)
    _exit(8);
  sigaction(SIGXFSZ, NULL, &action);
  if (action.sa_handler != SIG_DFL)
    _exit(8);
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
  take(5);
  wait_for("run-rank0.prom", 5);
}

static void full(void) {
  begin();
  take(1);
  while (!ends_with_line(read_all("run-rank0.jsonl")))
    usleep(1000);
  atomic_store(&disk_full, true);
  take(2);
  while (!strstr(read_all("log"), "No space left"))
    usleep(1000);
  if (cycles_in("run-rank0.prom") != 1)
    _exit(8);
  atomic_store(&disk_full, false);
  take(3);
  wait_for("run-rank0.prom", 3);
}

/* The folder is removed, and comes back. */
static void vanishes(void) {
  char there[64];
  snprintf(there, sizeof there, "%s/none", folder);
  snprintf(prefix, sizeof prefix, "%s/none/run", folder);
  if (mkdir(there, 0700) != 0)
    _exit(9);
  begin();
  take(1);
  while (!ends_with_line(read_all("none/run-rank0.jsonl")))
    usleep(1000);
  clear_folder(there);
  if (rmdir(there) != 0)
    _exit(9);
  take(2);
  while (!strstr(read_all("log"), "No such file"))
    usleep(1000);
  if (mkdir(there, 0700) != 0)
    _exit(9);
  take(3);
  wait_for("none/run-rank0.prom", 3);
  take(4);
  while (!ends_with_line(read_all("none/run-rank0.jsonl")))
    usleep(1000);
}

/* The folder comes later. */
static void nowhere(void) {
  char there[64];
  snprintf(there, sizeof there, "%s/none", folder);
  snprintf(prefix, sizeof prefix, "%s/none/run", folder);
  begin();
  take(1);
  while (!strstr(read_all("log"), "No such file"))
    usleep(1000);
  if (mkdir(there, 0700) != 0)
    _exit(9);
  while (cycles_in("none/run-rank0.prom") < 0) {
    take(2);
    usleep(1000);
  }
}

/* A folder has the name of a file, and goes later. */
static void in_the_way(void) {
  char there[64];
  snprintf(there, sizeof there, "%s/run-rank0.prom", folder);
  if (mkdir(there, 0700) != 0)
    _exit(9);
  begin();
  while (lines_of(read_all("run-rank0.jsonl")) < 3) { /* three attempts have failed */
    take(1);
    usleep(1000);
  }
  if (rmdir(there) != 0)
    _exit(9);
  while (cycles_in("run-rank0.prom") < 0) {
    take(2);
    usleep(1000);
  }
}

/* Without memory at first, then for a further communicator, then for its rows. */
static void poor(void) {
  begin();
  atomic_store(&is_poor, true);
  take(1);
  atomic_store(&is_poor, false);
  take(2);
  wait_for("run-rank0.prom", 2);
  atomic_store(&is_poor, true);
  take(3); /* the other one of its copies has no rows yet */
  usleep(1000);
  atomic_store(&is_poor, false);
  take(4);
  wait_for("run-rank0.prom", 4);
}

static void threadless(void) {
  atomic_store(&lacks_threads, true);
  begin();
  take(1);
  take(2);
}

static void exit_now(int signal) {
  (void)signal;
  exit(0);
}

/* Interrupts the copying of rows, under the lock. */
static void interrupted(void) {
  begin();
  take(1);
  wait_for("run-rank0.prom", 1);
  signal(SIGSEGV, exit_now);
  ledger->rows = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  tagc_metrics_take(ledger);
}

/* The program has decimal commas, if this machine knows some. */
static void commas(void) {
  begin();
  if (setlocale(LC_ALL, "de_DE.UTF-8") || setlocale(LC_ALL, "de_DE"))
    fprintf(stderr, "commas\n");
  ledger->steps[1] = (struct tagc_ledger_sum){4, 1250};
  take(1);
}

/* The program traps floating-point exceptions, and so would a thread that it starts. */
static void traps(void) {
  feenableexcept(FE_ALL_EXCEPT);
  begin();
  take(1);
}

static void exposes(void) {
  setenv("TAGC_BROADCAST", "exact", 1);
  begin();
  ledger->plain_calls = (struct tagc_ledger_sum){10, 1000};
  ledger->times = (struct tagc_ledger_times){1, 100, 2, 3, 4, 5, 50};
  ledger->broadcasts->times = (struct tagc_ledger_times){2, 200, 3, 0, 7, 0, 0};
  take(1);
}

/* Half of which end. */
enum { COMMUNICATORS = 200 };

static void *take_more(void *unused) {
  for (int i = 0; i < COMMUNICATORS; i++) {
    struct tagc_ledger *more = tagc_ledger_create(1, 2);
    for (int n = 0; more && n < 3; n++) {
      more->cycles++;
      tagc_metrics_take(more);
      usleep(1000);
    }
    if (i >= COMMUNICATORS / 2 && more && tagc_ledger_may_go(more)) {
      tagc_metrics_forget(more);
      tagc_ledger_free(more);
    }
  }
  return unused;
}

/* Two threads make and end communicators while the figures of others are written. */
static void many(void) {
  pthread_t thread;
  begin();
  take(1);
  for (int i = 1; i < TAGC_LEDGERS_KEPT; i++)
    if (!tagc_ledger_create(1, 2)) /* one that is never written */
      _exit(9);
  pthread_create(&thread, NULL, take_more, NULL);
  take_more(NULL);
  pthread_join(thread, NULL);
}

/* Writes as fast as it can, until the reader has had enough. */
static void busy(void) {
  begin();
  for (uint64_t i = 1; !*read_all("enough"); i++)
    take(i);
}

#if defined __SANITIZE_ADDRESS__
/* A child after fork() has the memory of the writer's thread, but not its stack, and would report a leak. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }
#endif

/* ---- the cases --------------------------------------------------------------------------------------------------- */

static pid_t begin_case(void (*what)(void)) {
  char log[80];
  snprintf(prefix, sizeof prefix, "%s/run", folder);
  snprintf(log, sizeof log, "%s/log", folder);
  fflush(stdout);
  const pid_t child = fork();
  if (child)
    return child;
  if (!freopen(log, "w", stderr))
    _exit(7);
  umask(027);
  what();
  exit(0);
}

/* Waits for its end. Its output is in `said`. */
static int end_case(pid_t child) {
  int status;
  waitpid(child, &status, 0);
  snprintf(said, sizeof said, "%s", read_all("log"));
  return status;
}

static int run(void (*what)(void)) { return end_case(begin_case(what)); }

static unsigned mode_of(const char *name) {
  struct stat about;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return stat(path, &about) == 0 ? (unsigned)about.st_mode & 0777 : 0;
}

/* Every text ends with the last figure of metrics.def. */
static bool is_whole(const char *text) {
  const size_t length = strlen(text);
  const char *last = strstr(text, "\ntagc_layer_nonfinite_values_total{");
  return strncmp(text, "# HELP tagc_build_info ", 23) == 0 && last && strchr(last + 1, '\n') == text + length - 1;
}

static void test_whole(void) {
  enum { STATES = 5 };
  const pid_t child = begin_case(busy);
  unsigned seen = 0, torn = 0, states = 0;
  for (long last = -1; states < STATES; seen++) {
    const long cycles = cycles_in("run-rank0.prom");
    torn += *contents && !is_whole(contents);
    states += cycles != last;
    last = cycles;
  }
  snprintf(path, sizeof path, "%s/enough", folder);
  const int file = tagc_file_create(path);
  const bool told = file >= 0 && write(file, "yes", 3) == 3;
  const int status = end_case(child);
  ok(told && status == 0 && !torn, "a reader sees whole files: %u of %u times not", torn, seen);
  ok(clear_folder(folder) == 3, "and nothing is left beside them");
}

int main(void) {
  if (!mkdtemp(folder))
    return 1;
  unsetenv("RANK");
  test_formats();

  int status = run(plainly);
  ok(status == 0 && !*said && cycles_in("run-rank0.prom") == 5 && is_whole(contents),
     "the last figures are those at exit: %s", said);
  ok(mode_of("run-rank0.prom") == 0640 && mode_of("run-rank0.jsonl") == 0600,
     "collectors may read them, as the umask allows");
  has(read_all("run-rank0.jsonl"), "\"tagc_cycles_total\":[{\"communicator\":\"0\",\"value\":5}]", "as JSON, too");
  ok(clear_folder(folder) == 2, "two files");
  status = run(only_prometheus);
  ok(status == 0 && cycles_in("run-rank7.prom") == 3 && clear_folder(folder) == 1,
     "PREFIX.prom: one file, of the launcher's rank");
  status = run(only_lines);
  ok(status == 0 && lines_of(read_all("run-rank4.jsonl")) >= 1 && clear_folder(folder) == 1, "PREFIX.jsonl: likewise");
  status = run(lines_there);
  ok(status == 0 && strcmp(read_all("run-rank0.jsonl"), "mine") == 0 && lines_of(read_all("run-rank0-2.jsonl")) >= 1,
     "lines of an earlier run stay");
  clear_folder(folder);
  status = run(remains);
  ok(status == 0 && !*said && cycles_in("run-rank0.prom") == 2 && clear_folder(folder) == 2,
     "what a killed process has left beside is replaced");

  status = run(hangs);
  ok(status == 0 && !*said && cycles_in("run-rank0.prom") == 2000,
     "a disk that hangs: calls go on, and the last figures come");
  clear_folder(folder);
  status = run(forks);
  ok(status == 0 && !*said && cycles_in("run-rank0.prom") == 11 && clear_folder(folder) == 2, "children write nothing");

  status = run(limited);
  const char *lines = read_all("run-rank0.jsonl");
  ok(status == 0 && lines_of(said) == 1 && strstr(said, "File too large; the training goes on"),
     "a limit on the size of files: said once, and written again when there is room: %s", said);
  ok(ends_with_line(lines) && lines_of(lines) >= 2 && !strstr(lines, "}{"), "lines are whole");
  clear_folder(folder);
  status = run(full);
  ok(status == 0 && lines_of(said) == 1 && strstr(said, "No space left on device; the training goes on") &&
       cycles_in("run-rank0.prom") == 3 && is_whole(contents),
     "a full disk: said once, and the file is whole at every moment: %s", said);
  ok(ends_with_line(read_all("run-rank0.jsonl")) && !strstr(contents, "}{"), "and so are lines");
  clear_folder(folder);
  status = run(vanishes);
  ok(status == 0 && lines_of(said) == 1 && strstr(said, "No such file or directory; the training goes on"),
     "a folder that vanishes: said once, and both files are there again: %s", said);
  clear_folder(folder);
  status = run(nowhere);
  ok(status == 0 && lines_of(said) == 1 && strstr(said, "none/run-rank0.prom: No such file or directory"),
     "no folder: said once, and written when it is there: %s", said);
  clear_folder(folder);
  status = run(in_the_way);
  ok(status == 0 && lines_of(said) == 1 && strstr(said, "/run-rank0.prom: Is a directory; the training goes on") &&
       clear_folder(folder) == 2,
     "a folder in the place of a file: said once, written when it is gone, and nothing is left beside: %s", said);
  clear_folder(folder);
  status = run(poor);
  ok(status == 0 && lines_of(said) == 1 && strstr(said, "no memory; figures are missing") &&
       cycles_in("run-rank0.prom") == 4 && is_whole(contents),
     "no memory: said once, and all are there later: %s", said);
  clear_folder(folder);
  status = run(threadless);
  ok(status == 0 && lines_of(said) == 1 && strstr(said, "no thread to write them before the end") &&
       cycles_in("run-rank0.prom") == 2,
     "no thread: said once, and the last ones are written at exit: %s", said);
  clear_folder(folder);
  status = run(interrupted);
  ok(status == 0 && lines_of(said) == 1 && strstr(said, "the last ones are missing") &&
       cycles_in("run-rank0.prom") == 1,
     "exit() in the midst of a copy: said once, and the file stays: %s", said);
  clear_folder(folder);
  status = run(commas);
  has(read_all("run-rank0.prom"), "side=\"plain\"} 1.25\n",
      strstr(said, "commas") ? "a program with decimal commas" : "numbers");
  clear_folder(folder);
  status = run(traps);
  ok(status == 0 && !*said && cycles_in("run-rank0.prom") == 1, "a program with traps has its figures: %s", said);
  clear_folder(folder);
  status = run(exposes);
  has(read_all("run-rank0.prom"), "tagc_exposed_seconds_sum{run=\"run\",rank=\"0\",communicator=\"0\"} 1.355\n",
      "all kinds of calls keep a program waiting");
  has(contents, "tagc_exposed_seconds_count{run=\"run\",rank=\"0\",communicator=\"0\"} 26\n", "and are counted");
  clear_folder(folder);
  status = run(many);
  size_t three = 0;
  for (const char *line = read_all("run-rank0.prom"); (line = strstr(line, "\ntagc_cycles_total{")); line++)
    three += strncmp(strchr(line, '}'), "} 3\n", 4) == 0;
  ok(status == 0 && !*said && three == COMMUNICATORS, "communicators of two threads that have not ended: %zu: %s",
     three, said);
  clear_folder(folder);
  test_whole();
  rmdir(folder);
  return tap_done();
}
