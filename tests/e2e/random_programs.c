/* SPDX-License-Identifier: BSD-3-Clause
 * Random programs, in batches that share their ranks and options: without the library, then with it. See usage() below.
 *
 * It starts each batch under tests/standin/launch, with itself as the ranks. A batch that fails goes on behind the program that
 * failed. Whether a program compressed something is read from the report at exit.
 */
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/random_program.h"

enum { MOST_ARGUMENTS = 32 };

/* What came of the programs of a shape. */
struct totals {
  int programs, failed, reported, compressing;
  uint64_t compressed;
};

static struct totals totals[2][SHAPES];       /* without the library, and with it */

static struct {
  uint64_t first, last, batch, describe;
  const char *named;
  unsigned shapes;
  bool plain, library, describes, all_named;
  int patience;
  const char *preload, *spoils;
} options = {.batch = 20, .shapes = 15, .plain = true, .library = true, .patience = 120};

static const char *const shape_names[SHAPES] = {"apart", "alike", "orders", "cuts"};
static char folder[PATH_MAX];       /* of this program */

__attribute__((noreturn)) static void usage(int status)
{
  fprintf(status ? stderr : stdout,
          "Usage: random_programs --seeds A-B [options]\n"
          "       random_programs --named NAME|all [options]\n"
          "       random_programs --describe SEED|NAME\n"
          "Runs random NCCL programs on the stand-in, without the library and with it.\n\n"
          "  --seeds A-B      these programs\n"
          "  --named NAME     a program with a name: halves, alone, no-color, ring, or all of them\n"
          "  --describe WHAT  print a program and its settings; run nothing\n"
          "  --shapes LIST    of apart (no groups), alike (ranks group alike), orders (each orders its groups), cuts (each groups as it likes)\n"
          "  --batch N        programs that share ranks and options; part of what a seed means (%d)\n"
          "  --only HOW       plain, or library\n"
          "  --patience S     seconds without progress that are a hang (%d)\n"
          "  --preload LIB    the library, instead of this build's\n"
          "  --spoil WHAT     a rank spoils its result, a guard, what it has sent, or hangs: to see that this is found\n", (int)options.batch, options.patience);
  exit(status);
}

static bool parse_range(const char *text, uint64_t *first, uint64_t *last)
{
  char *end;
  *first = *last = strtoull(text, &end, 10);
  if (end != text && *end == '-')
    *last = strtoull(end + 1, &end, 10);
  return end != text && !*end && *first <= *last;
}

static unsigned parse_shapes(const char *text)
{
  unsigned shapes = 0;
  for (int i = 0; i < SHAPES; i++)
    shapes |= strstr(text, shape_names[i]) ? 1u << i : 0;
  if (!shapes)
    usage(2);
  return shapes;
}

static const char *shapes_text(void)
{
  static char text[64];
  *text = '\0';
  for (int i = 0; i < SHAPES; i++)
    if (options.shapes & 1u << i)
      snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", *text ? "," : "", shape_names[i]);
  return text;
}

/* -- output of a batch --------------------------------------------------------------------------------------------- */
static struct {
  uint64_t seed;
  int from, to;                     /* numbers of its communicators in the report */
} done[1000];
static int ndone;

static void note_done(const char *line)
{
  const char *colon = strrchr(line, ':'), *seed = strstr(line, "seed ");
  if (!colon || ndone == (int)(sizeof done / sizeof *done))
    return;
  done[ndone].seed = seed && seed < colon ? strtoull(seed + 5, NULL, 10) : 0;
  if (sscanf(colon + 1, "%d %d", &done[ndone].from, &done[ndone].to) == 2)
    ndone++;
}

/* Reads what a batch has said. Returns the calls that each program compressed in `compressed`. */
static void read_output(FILE *output, bool good, int *compressed)
{
  char *line = NULL;
  size_t room = 0;
  int number = -1, calls, told = 0;
  ndone = 0;
  memset(compressed, 0, sizeof done / sizeof *done * sizeof *compressed);
  rewind(output);
  while (getline(&line, &room, output) > 0) {
    const char *at;
    if (strncmp(line, "done ", 5) == 0)
      note_done(line);
    else if (sscanf(line, "tagc: communicator %d of", &number) == 1)
      continue;
    else if (strncmp(line, "tagc-total:", 11) == 0 && (at = strstr(line, " compressed=")) && sscanf(at, " compressed=%d", &calls) == 1) {
      for (int i = 0; i < ndone; i++)
        compressed[i] += number >= done[i].from && number <= done[i].to ? calls : 0;
    } else if (!good && told < 12 && strncmp(line, "tagc", 4) != 0 && line[0] != ' ') {
      told++;
      printf("# %s", line);
    } else if (!good && strncmp(line, "tagc[", 5) == 0 && told < 12) {
      told++;
      printf("# %s", line);
    }
  }
  free(line);
}

/* -- a batch ------------------------------------------------------------------------------------------------------- */
__attribute__((noreturn)) static void become_launch(const struct setting *setting, char **command, int output, bool plain)
{
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  setenv("TAGC_REPORT", "1", 1);
  for (int i = 0; i < setting->noptions && !plain; i++)
    putenv((char *)setting->options[i]);
  execv(command[0], command);
  fprintf(stderr, "random_programs: cannot start %s: %s\n", command[0], strerror(errno));
  _exit(127);
}

static bool launch(const struct setting *setting, uint64_t first, uint64_t last, const char *named, bool plain, int *compressed)
{
  char self[PATH_MAX + 32], launcher[PATH_MAX + 32], ranks[16], seeds[64], batch[24], shapes[16], patience[16];
  char *command[MOST_ARGUMENTS] = {launcher, "-n", ranks, "--hosts", (char *)setting->hosts, "--no-prefix"};
  int n = 6, status;
  if (!plain) {
    command[n++] = "--preload";
    command[n++] = (char *)options.preload;
  }
  const char *rest[] = {"--", self, "--rank", plain ? "plain" : "library", named ? "--named" : "--seeds", named ? named : seeds,
                        "--batch", batch, "--shapes-bits", shapes, "--patience", patience};
  for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
    command[n++] = (char *)rest[i];
  if (options.spoils) {
    command[n++] = "--spoil";
    command[n++] = (char *)options.spoils;
  }
  snprintf(self, sizeof self, "%s/random_programs", folder);
  snprintf(launcher, sizeof launcher, "%s/../standin/launch", folder);
  snprintf(ranks, sizeof ranks, "%d", setting->nranks);
  snprintf(seeds, sizeof seeds, "%" PRIu64 "-%" PRIu64, first, last);
  snprintf(batch, sizeof batch, "%" PRIu64, options.batch);
  snprintf(shapes, sizeof shapes, "%u", options.shapes);
  snprintf(patience, sizeof patience, "%d", options.patience);
  const int output = memfd_create("output", 0);
  const pid_t pid = fork();
  if (output < 0 || pid < 0) {
    fprintf(stderr, "random_programs: %s\n", strerror(errno));
    exit(1);
  }
  if (pid == 0)
    become_launch(setting, command, output, plain);
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
    ;
  FILE *said = fdopen(output, "r");
  const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  read_output(said, good, compressed);
  fclose(said);
  return good;
}

/* The program of a seed, or of a name. */
static const struct program *program_of(const struct setting *setting, uint64_t seed, const char *name)
{
  static struct program program;
  if (name)
    make_named(&program, name);
  else
    make_program(&program, seed, setting->nranks, options.shapes);
  return &program;
}

static void tell_failure(const struct setting *setting, const struct program *program, uint64_t first, bool plain)
{
  printf("failed: %s, %s: %s%s%s;", program->name, plain ? "plain" : "with the library", shape_names[program->shape],
         program->nonblocking ? ", non-blocking" : "", program->threads ? ", two threads" : "");
  for (int i = 0; i < setting->noptions && !plain; i++)
    printf(" %s", setting->options[i]);
  printf(" on hosts %s\n", setting->hosts);
  if (options.named)
    printf("again: tests/e2e/random_programs --named %s\n", program->name);
  else
    printf("again: tests/e2e/random_programs --shapes %s --seeds %" PRIu64 ", or %" PRIu64 "-%" PRIu64 "\n", shapes_text(),
           program->seed, first, program->seed);
  fflush(stdout);
}

/* Of the programs that ended well. What they compressed is known where their batch did. */
static void add_totals(const struct setting *setting, const char *name, const int *compressed, bool plain, bool good)
{
  for (int i = 0; i < ndone; i++) {
    struct totals *t = &totals[!plain][program_of(setting, done[i].seed, name)->shape];
    t->programs++;
    t->reported += good;
    t->compressing += good && compressed[i] > 0;
    t->compressed += good ? (uint64_t)compressed[i] : 0;
  }
}

/* Programs of one batch, until all have run. */
static void run_batch(const struct setting *setting, uint64_t first, uint64_t last, bool plain)
{
  static int compressed[sizeof done / sizeof *done];
  while (first <= last) {
    const bool good = launch(setting, first, last, NULL, plain, compressed);
    add_totals(setting, NULL, compressed, plain, good);
    if (good)
      return;
    const uint64_t failed = ndone ? done[ndone - 1].seed + 1 : first;
    const struct program *program = program_of(setting, failed, NULL);
    totals[!plain][program->shape].failed++;
    tell_failure(setting, program, first, plain);
    first = failed + 1;
  }
}

static void named_setting(struct setting *setting, int nranks)
{
  *setting = (struct setting){.nranks = nranks, .hosts = "0,1,2", .codec = "none", .gather = "off", .noptions = 5,
                              .options = {"TAGC_WARMUP=0", "TAGC_MIN_BYTES=0", "TAGC_CODEC=none", "TAGC_ASSUME=gradients",
                                          "TAGC_SCOPE=flat"}};
  if (nranks == 4)
    strcpy(setting->hosts, "0,1,2,3");
}

static void run_named(bool plain)
{
  static int compressed[sizeof done / sizeof *done];
  const char *name;
  for (int i = 0, nranks; (name = named_program(i, &nranks)); i++) {
    struct setting setting;
    if (strcmp(options.named, "all") != 0 && strcmp(options.named, name) != 0)
      continue;
    named_setting(&setting, nranks);
    const bool good = launch(&setting, 0, 0, name, plain, compressed);
    add_totals(&setting, name, compressed, plain, good);
    if (good) {
      printf("%s: %s, %d calls compressed\n", name, plain ? "plain" : "with the library", compressed[0]);
    } else {
      totals[!plain][SHAPE_ALIKE].failed++;
      tell_failure(&setting, program_of(&setting, 0, name), 0, plain);
    }
  }
}

static void run_all(bool plain)
{
  if (options.named)
    run_named(plain);
  for (uint64_t first = options.first; !options.named && first <= options.last;) {
    struct setting setting;
    const uint64_t batch = first / options.batch, end = (batch + 1) * options.batch - 1;
    make_setting(&setting, batch);
    run_batch(&setting, first, end < options.last ? end : options.last, plain);
    first = end + 1;
  }
}

/* A line a shape, and how many programs failed. */
static int tell_totals(void)
{
  int failed = 0;
  for (int with = 0; with < 2; with++)
    for (int s = 0; s < SHAPES; s++) {
      const struct totals *t = &totals[with][s];
      failed += t->failed;
      if (t->programs + t->failed)
        printf("total: %s %s programs=%d failed=%d reported=%d compressing=%d calls=%" PRIu64 "\n", with ? "library" : "plain",
               shape_names[s], t->programs + t->failed, t->failed, t->reported, t->compressing, t->compressed);
    }
  return failed;
}

static int describe_one(const char *what)
{
  static struct program program;
  struct setting setting;
  char *end;
  const uint64_t seed = strtoull(what, &end, 10);
  if (*end) {
    if (!make_named(&program, what))
      usage(2);
    named_setting(&setting, program.nranks);
  } else {
    make_setting(&setting, seed / options.batch);
    make_program(&program, seed, setting.nranks, options.shapes);
  }
  printf("on hosts %s:", setting.hosts);
  for (int i = 0; i < setting.noptions; i++)
    printf(" %s", setting.options[i]);
  printf("\n");
  describe(&program, stdout);
  return 0;
}

static int run_rank(bool plain)
{
  struct setting setting;
  int nranks = options.shapes ? (int)strtol(getenv("WORLD_SIZE") ? getenv("WORLD_SIZE") : "0", NULL, 10) : 0;
  if (options.named)
    named_setting(&setting, nranks);
  else
    make_setting(&setting, options.first / options.batch);
  return run_programs(&(struct orders){.setting = &setting, .named = options.named, .first = options.first, .last = options.last,
                                       .shapes = options.shapes, .plain = plain, .patience = options.patience,
                                       .spoils = options.spoils});
}

static void find_folder(void)
{
  static char library[PATH_MAX + 40];
  const ssize_t size = readlink("/proc/self/exe", folder, sizeof folder - 1);
  folder[size > 0 ? size : 0] = '\0';
  dirname(folder);
  snprintf(library, sizeof library, "%s/../../libtagc-preload.so", folder);
  options.preload = library;
}

int main(int argc, char **argv)
{
  const char *role = NULL, *what = NULL;
  bool seeds = false;
  find_folder();
  for (int i = 1; i < argc; i += 2) {
    const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (strcmp(option, "--help") == 0)
      usage(0);
    else if (!value)
      usage(2);
    else if (strcmp(option, "--seeds") == 0)
      seeds = parse_range(value, &options.first, &options.last);
    else if (strcmp(option, "--named") == 0)
      options.named = value;
    else if (strcmp(option, "--describe") == 0)
      what = value;
    else if (strcmp(option, "--shapes") == 0)
      options.shapes = parse_shapes(value);
    else if (strcmp(option, "--shapes-bits") == 0)
      options.shapes = (unsigned)strtoul(value, NULL, 10);
    else if (strcmp(option, "--batch") == 0)
      options.batch = strtoull(value, NULL, 10);
    else if (strcmp(option, "--patience") == 0)
      options.patience = (int)strtol(value, NULL, 10);
    else if (strcmp(option, "--preload") == 0)
      options.preload = value;
    else if (strcmp(option, "--only") == 0)
      options.plain = !(options.library = strcmp(value, "library") == 0) ;
    else if (strcmp(option, "--spoil") == 0)
      options.spoils = value;
    else if (strcmp(option, "--rank") == 0)
      role = value;
    else
      usage(2);
  }
  if (!options.batch || options.batch > 500 || options.patience < 1 || (!seeds && !options.named && !what))
    usage(2);
  if (role)
    return run_rank(strcmp(role, "plain") == 0);
  if (what)
    return describe_one(what);
  if (options.plain)
    run_all(true);
  if (options.library)
    run_all(false);
  return tell_totals() > 0;
}
