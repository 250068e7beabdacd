/* SPDX-License-Identifier: BSD-3-Clause
 * Random programs, in batches that share their ranks and options: without the library, then with it. See usage() below.
 *
 * It starts each batch under tests/standin/launch, with itself as the ranks. A failing batch continues after the failed
 * program. The report at exit tells whether a program compressed something.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/calls/random_program.h"

enum { MOST_WORDS = 24, MOST_DONE = 1000 };

/* The results of the programs of a shape. */
struct totals {
  int programs, failed, reported, compressing;
  uint64_t compressed, broadcasts;
};

static struct totals totals[2][SHAPES]; /* without the library, and with it */

static struct {
  uint64_t first, last, batch;
  bool seeds;
  const char *named, *describes, *only, *preload, *spoils, *rank;
  unsigned shapes;
  int patience, stop, failures;
} options = {.batch = 20, .shapes = (1u << SHAPES) - 1, .patience = 120, .stop = INT_MAX};

static const char *const shape_names[SHAPES] = {"apart", "alike", "orders", "cuts", "any"};
static char folder[PATH_MAX]; /* of this program */

__attribute__((noreturn)) static void usage(int status) {
  fprintf(status ? stderr : stdout,
          "Usage: random_programs --seeds A-B [options]\n"
          "       random_programs --named NAME|all [options]\n"
          "       random_programs --describe SEED|NAME\n"
          "Runs random NCCL programs on the stand-in, without the library and with it.\n\n"
          "  --seeds A-B      these programs\n"
          "  --named NAME     a program with a name: halves, alone, no-color, ring, cuts, messages,\n"
          "                   defaults, or all\n"
          "  --describe WHAT  print a program and its settings; run nothing\n"
          "  --shapes LIST    of apart, alike, orders, cuts, any: how ranks group; part of what a seed means\n"
          "  --stop N         after so many failures\n"
          "  --batch N        programs that share ranks and options; part of what a seed means (%d)\n"
          "  --only HOW       plain, or library\n"
          "  --patience S     seconds without progress that are a hang (%d)\n"
          "  --preload LIB    the library, instead of this build's\n"
          "  --spoil WHAT     a rank spoils its result, a guard, what it has sent, or it hangs: is that found?\n",
          (int)options.batch, options.patience);
  exit(status);
}

static bool parse_range(const char *text, uint64_t *first, uint64_t *last) {
  char *end;
  *first = *last = strtoull(text, &end, 10);
  if (end != text && *end == '-')
    *last = strtoull(end + 1, &end, 10);
  return end != text && !*end && *first <= *last;
}

static unsigned parse_shapes(const char *text) {
  unsigned shapes = 0;
  for (int i = 0; i < SHAPES; i++)
    shapes |= strstr(text, shape_names[i]) ? 1u << i : 0;
  if (!shapes)
    usage(2);
  return shapes;
}

static const char *shapes_text(void) {
  static char text[64];
  *text = '\0';
  for (int i = 0; i < SHAPES; i++)
    if (options.shapes & 1u << i)
      snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", *text ? "," : "", shape_names[i]);
  return text;
}

/* -- output of a batch --------------------------------------------------------------------------------------------- */
/* Programs that ended well, and the numbers that a rank's report gives to their communicators. */
static struct {
  uint64_t seed;
  int from[MOST_RANKS], to[MOST_RANKS];
  int compressed, broadcasts; /* calls; each communicator is reported by its own rank 0 */
} done[MOST_DONE];
static int ndone, done_of[MOST_RANKS];

static void note_done(const char *line, int rank) {
  const char *colon = strrchr(line, ':'), *seed = strstr(line, "seed ");
  const int k = done_of[rank];
  if (!colon || k == MOST_DONE || sscanf(colon + 1, "%d %d", &done[k].from[rank], &done[k].to[rank]) != 2)
    return;
  done[k].seed = seed && seed < colon ? strtoull(seed + 5, NULL, 10) : 0;
  done_of[rank]++;
  ndone = done_of[0];
}

/* From the report of a communicator. */
static void note_total(const char *line, int rank, int number) {
  const char *at = strstr(line, " compressed="), *broadcasts = strstr(line, " broadcasts_compressed=");
  int calls, more = 0;
  if (broadcasts)
    (void)sscanf(broadcasts, " broadcasts_compressed=%d", &more);
  for (int i = 0; at && i < done_of[rank]; i++)
    if (number >= done[i].from[rank] && number <= done[i].to[rank] && sscanf(at, " compressed=%d", &calls) == 1)
      done[i].compressed += calls, done[i].broadcasts += more;
}

/* Reads the output of a batch. If it failed, shows what the programs said, without the library's report. */
static void read_output(FILE *output, bool good) {
  char *line = NULL;
  size_t room = 0;
  int number[MOST_RANKS] = {0}, told = 0, rank, at;
  memset(done, 0, sizeof done);
  memset(done_of, 0, sizeof done_of);
  ndone = 0;
  while (getline(&line, &room, output) > 0) {
    const bool said = sscanf(line, "[%d] %n", &rank, &at) == 1 && rank >= 0 && rank < MOST_RANKS;
    const char *text = said ? line + at : line;
    if (said && strncmp(text, "done ", 5) == 0)
      note_done(text, rank);
    else if (said && strncmp(text, "tagc-total:", 11) == 0)
      note_total(text, rank, number[rank]);
    else if (said && sscanf(text, "tagc: communicator %d of", &number[rank]) == 1)
      continue;
    else if (!good && *text != ' ' && strncmp(text, "tagc", 4) != 0 && told++ < 12)
      printf("# %s", text);
  }
  free(line);
}

/* -- a batch ------------------------------------------------------------------------------------------------------- */
/* Programs that run in the same processes. */
struct batch {
  const struct setting *setting;
  uint64_t first, last;
  const char *named; /* or NULL, and then these seeds */
  bool plain;
};

static void add_word(char **words, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_word(char **words, const char *format, ...) {
  va_list args;
  int n = 0;
  while (words[n])
    n++;
  va_start(args, format);
  if (n == MOST_WORDS - 1 || vasprintf(&words[n], format, args) < 0)
    exit(1);
  va_end(args);
}

static void make_command(const struct batch *b, char **words) {
  add_word(words, "%s/../../standin/launch", folder);
  add_word(words, "-n%d", b->setting->nranks);
  add_word(words, "--hosts=%s", b->setting->hosts);
  if (!b->plain)
    add_word(words, "--preload=%s", options.preload);
  add_word(words, "--");
  add_word(words, "%s/random_programs", folder);
  add_word(words, "--rank=%s", b->plain ? "plain" : "library");
  if (b->named)
    add_word(words, "--named=%s", b->named);
  else
    add_word(words, "--seeds=%" PRIu64 "-%" PRIu64, b->first, b->last);
  add_word(words, "--batch=%" PRIu64, options.batch);
  add_word(words, "--shapes=%s", shapes_text());
  add_word(words, "--patience=%d", options.patience);
  if (options.spoils)
    add_word(words, "--spoil=%s", options.spoils);
}

__attribute__((noreturn)) static void become_launch(const struct batch *b, int output) {
  char *words[MOST_WORDS] = {NULL};
  make_command(b, words);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  setenv("TAGC_REPORT", "1", 1);
  for (int i = 0; i < b->setting->noptions && !b->plain; i++)
    putenv((char *)b->setting->options[i]);
  execv(words[0], words);
  fprintf(stderr, "random_programs: cannot start %s: %s\n", words[0], strerror(errno));
  _exit(127);
}

/* Runs a batch, and reads its output. True if it succeeded. */
static bool launch(const struct batch *b) {
  int status = -1;
  const int output = memfd_create("output", 0);
  const pid_t pid = output < 0 ? -1 : fork();
  if (pid == 0)
    become_launch(b, output);
  FILE *said = pid < 0 ? NULL : fdopen(output, "r");
  if (!said) {
    fprintf(stderr, "random_programs: %s\n", strerror(errno));
    exit(1);
  }
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
    ;
  rewind(said);
  read_output(said, status == 0);
  fclose(said);
  return status == 0;
}

/* The program of a seed, or of a name. */
static const struct program *program_of(const struct setting *setting, uint64_t seed, const char *name) {
  static struct program program;
  if (name)
    make_named(&program, name);
  else
    make_program(&program, seed, setting->nranks, options.shapes);
  return &program;
}

static void tell_failure(const struct setting *setting, const struct program *program, uint64_t first, bool plain) {
  options.failures++;
  printf("failed: %s, %s: %s%s%s;", program->name, plain ? "plain" : "with the library", shape_names[program->shape],
         program->nonblocking ? ", non-blocking" : "", program->threads ? ", two threads" : "");
  for (int i = 0; i < setting->noptions && !plain; i++)
    printf(" %s", setting->options[i]);
  printf(" on hosts %s\n", setting->hosts);
  if (options.named)
    printf("again: tests/e2e/calls/random_programs --named %s\n", program->name);
  else
    printf("again: tests/e2e/calls/random_programs --shapes %s --seeds %" PRIu64 ", or %" PRIu64 "-%" PRIu64 "\n",
           shapes_text(), program->seed, first, program->seed);
  fflush(stdout);
}

/* Adds the programs that succeeded. Only a successful batch tells what they compressed. */
static void add_totals(const struct setting *setting, const char *name, bool plain, bool good) {
  for (int i = 0; i < ndone; i++) {
    struct totals *t = &totals[!plain][program_of(setting, done[i].seed, name)->shape];
    t->programs++;
    t->reported += good;
    t->compressing += good && done[i].compressed > 0;
    t->compressed += good ? (uint64_t)done[i].compressed : 0;
    t->broadcasts += good ? (uint64_t)done[i].broadcasts : 0;
  }
}

/* Runs the programs of one batch, until all have run. */
static void run_batch(const struct setting *setting, uint64_t first, uint64_t last, bool plain) {
  while (first <= last && options.failures < options.stop) {
    const bool good = launch(&(struct batch){setting, first, last, .plain = plain});
    add_totals(setting, NULL, plain, good);
    if (good)
      return;
    const uint64_t failed = ndone ? done[ndone - 1].seed + 1 : first;
    const struct program *program = program_of(setting, failed, NULL);
    totals[!plain][program->shape].failed++;
    tell_failure(setting, program, first, plain);
    first = failed + 1;
  }
}

static void run_named(bool plain) {
  const char *name;
  for (int i = 0, nranks; (name = named_program(i, &nranks)); i++) {
    struct setting setting;
    if (strcmp(options.named, "all") != 0 && strcmp(options.named, name) != 0)
      continue;
    named_setting(&setting, name, nranks);
    const bool good = launch(&(struct batch){&setting, .named = name, .plain = plain});
    add_totals(&setting, name, plain, good);
    if (good) {
      printf("%s: %s, %d calls compressed\n", name, plain ? "plain" : "with the library", done[0].compressed);
    } else {
      const struct program *program = program_of(&setting, 0, name);
      totals[!plain][program->shape].failed++;
      tell_failure(&setting, program, 0, plain);
    }
  }
}

static void run_all(bool plain) {
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

/* Prints a line per shape. Returns the number of failed programs. */
static int tell_totals(void) {
  int failed = 0;
  for (int with = 0; with < 2; with++)
    for (int s = 0; s < SHAPES; s++) {
      const struct totals *t = &totals[with][s];
      failed += t->failed;
      if (t->programs + t->failed)
        printf("total: %s %s programs=%d failed=%d reported=%d compressing=%d calls=%" PRIu64 " broadcasts=%" PRIu64
               "\n",
               with ? "library" : "plain", shape_names[s], t->programs + t->failed, t->failed, t->reported,
               t->compressing, t->compressed, t->broadcasts);
    }
  return failed;
}

static int describe_one(const char *what) {
  static struct program program;
  struct setting setting;
  char *end;
  const uint64_t seed = strtoull(what, &end, 10);
  if (*end) {
    if (!make_named(&program, what))
      usage(2);
    named_setting(&setting, what, program.nranks);
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

static int run_rank(bool plain) {
  struct setting setting;
  const char *nranks = getenv("WORLD_SIZE");
  if (options.named)
    named_setting(&setting, options.named, nranks ? (int)strtol(nranks, NULL, 10) : 0);
  else
    make_setting(&setting, options.first / options.batch);
  return run_programs(&(struct orders){.setting = &setting,
                                       .named = options.named,
                                       .first = options.first,
                                       .last = options.last,
                                       .shapes = options.shapes,
                                       .plain = plain,
                                       .patience = options.patience,
                                       .spoils = options.spoils});
}

static void find_folder(void) {
  static char library[PATH_MAX + 40];
  const ssize_t size = readlink("/proc/self/exe", folder, sizeof folder - 1);
  folder[size > 0 ? size : 0] = '\0';
  dirname(folder);
  snprintf(library, sizeof library, "%s/../../../libtagc-preload.so", folder);
  options.preload = library;
}

static int number(const char *text, int most) {
  char *end;
  const long value = strtol(text, &end, 10);
  if (end == text || *end || value < 1 || value > most)
    usage(2);
  return (int)value;
}

static void parse(int argc, char **argv) {
  static const struct option known[] = {{"seeds", required_argument, NULL, 's'},
                                        {"named", required_argument, NULL, 'n'},
                                        {"describe", required_argument, NULL, 'd'},
                                        {"shapes", required_argument, NULL, 'f'},
                                        {"batch", required_argument, NULL, 'b'},
                                        {"only", required_argument, NULL, 'o'},
                                        {"patience", required_argument, NULL, 'p'},
                                        {"stop", required_argument, NULL, 'e'},
                                        {"preload", required_argument, NULL, 'l'},
                                        {"spoil", required_argument, NULL, 'x'},
                                        {"rank", required_argument, NULL, 'r'},
                                        {"help", no_argument, NULL, 'h'},
                                        {0}};
  for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;)
    switch (option) {
    case 's': options.seeds = parse_range(optarg, &options.first, &options.last); break;
    case 'n': options.named = optarg; break;
    case 'd': options.describes = optarg; break;
    case 'f': options.shapes = parse_shapes(optarg); break;
    case 'b': options.batch = (uint64_t)number(optarg, MOST_DONE); break;
    case 'o': options.only = optarg; break;
    case 'p': options.patience = number(optarg, 86400); break;
    case 'e': options.stop = number(optarg, INT_MAX); break;
    case 'l': options.preload = optarg; break;
    case 'x': options.spoils = optarg; break;
    case 'r': options.rank = optarg; break;
    case 'h': usage(0);
    default: usage(2);
    }
  const bool known_only = !options.only || strcmp(options.only, "plain") == 0 || strcmp(options.only, "library") == 0;
  if (optind < argc || !known_only || (!options.seeds && !options.named && !options.describes))
    usage(2);
}

int main(int argc, char **argv) {
  find_folder();
  parse(argc, argv);
  if (options.rank)
    return run_rank(strcmp(options.rank, "plain") == 0);
  if (options.describes)
    return describe_one(options.describes);
  if (!options.only || strcmp(options.only, "plain") == 0)
    run_all(true);
  if (!options.only || strcmp(options.only, "library") == 0)
    run_all(false);
  return tell_totals() > 0;
}
