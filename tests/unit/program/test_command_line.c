/* SPDX-License-Identifier: BSD-3-Clause
 * env/program/command_line: every kind of row, the forms of an option, refusals and their messages, and --help.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "env/append.h"
#include "env/program/command_line.h"
#include "tests/unit/tap.h"

struct values {
  bool flag;
  int number, choice;
  uint64_t length, count, size;
  double real;
  const char *file, *text, *maybe;
  char pair[2];
};

static bool set_pair(void *to, const char *value) {
  struct values *values = to;
  if (strlen(value) != 2)
    return false;
  memcpy(values->pair, value, 2);
  return true;
}

#define TO(type, field) .kind = TAGC_ARGUMENT_##type, .offset = offsetof(struct values, field)
static const char *const names[] = {"red", "green", "blue", NULL};
static const struct tagc_argument rows[] = {
  {.name = "flag", .old = "banner", TO(FLAG, flag), .help = "a flag"},
  {.name = "number",
   .letter = 'n',
   .value = "N",
   TO(INT, number),
   .accepts = "2 to 64",
   .preset = "7",
   .help = "a number"},
  {.name = "count", .value = "N", TO(COUNT, count), .accepts = "1 to 1e18", .help = "a count"},
  {.name = "size",
   .value = "BYTES",
   TO(SIZE, size),
   .accepts = "0 to 18446744073709551615 bytes",
   .preset = "4K",
   .help = "a size"},
  {.help = "Others:"},
  {.name = "real", .value = "X", TO(REAL, real), .accepts = "1e-3 to 0.5", .preset = "0.25", .help = "a fraction"},
  {.name = "colour", .value = "NAME", TO(CHOICE, choice), .names = names, .preset = "blue", .help = "a choice"},
  {.name = "file",
   .value = "FILE",
   TO(FILE, file),
   .help = "a file that has a text of many words, so many that they do not fit one line of it"},
  {.name = "text", .value = "TEXT", TO(TEXT, text), .without = {"count", "real"}, .help = "a text"},
  {.name = "length", .with = "file", .value = "N", TO(COUNT, length), .accepts = "1 to 9", .help = "of the file"},
  {.name = "maybe", .value = "FILE", .optional = true, TO(FILE, maybe), .help = "perhaps a file"},
  {.name = "a-name-that-is-long",
   .value = "PAIR",
   TO(CALL, pair),
   .set = set_pair,
   .accepts = "two letters",
   .help = "a pair"},
};
static struct tagc_command_line line = {.program = "prog",
                                        .head = "usage: prog\n\n",
                                        .tail = "\nThe end.\n",
                                        .indent = 20,
                                        .rows = rows,
                                        .count = sizeof rows / sizeof *rows};
static struct values values;
static char *words[16], said[1000], *shown;

/* Parses words separated by spaces; `said` is the text on stderr, `shown` the text to show. */
static int parse(const char *text) {
  static char copy[500];
  size_t count = 0, size;
  free(shown);
  snprintf(copy, sizeof copy, "prog %s", text);
  for (char *rest = copy, *word; (word = strsep(&rest, " ")) && count < 15;)
    words[count++] = strcmp(word, "''") == 0 ? word + 2 : word;
  words[count] = NULL;
  FILE *out = open_memstream(&shown, &size), *errors = tmpfile();
  const int before = dup(STDERR_FILENO);
  dup2(fileno(errors), STDERR_FILENO);
  const int status = tagc_command_line_parse(&line, words, &values, out);
  dup2(before, STDERR_FILENO);
  close(before);
  rewind(errors);
  said[fread(said, 1, sizeof said - 1, errors)] = '\0';
  fclose(errors);
  fclose(out);
  return status;
}

static bool accepts(const char *text) {
  values = (struct values){0};
  const bool does = parse(text) == TAGC_COMMAND_LINE_GO && !*said && !*shown;
  if (!does)
    note("%s", said);
  return does;
}

/* True if these are the words that are no options. */
static bool left(const char *text) {
  char all[200] = "";
  for (char **word = words + 1; *word; word++)
    tagc_append(all, sizeof all, "%s%s", word == words + 1 ? "" : " ", *word);
  return strcmp(all, text) == 0;
}

static void refused(const char *text, const char *why) {
  char whole[300];
  snprintf(whole, sizeof whole, "prog: %s (prog --help lists the options)\n", why);
  const int status = parse(text);
  const bool is_so = status == TAGC_COMMAND_LINE_USAGE && strcmp(said, whole) == 0 && !*shown;
  ok(is_so, "%s: %.*s", text, (int)strcspn(said, "\n"), said);
}

static void presets(void) {
  tagc_command_line_preset(&line, &values);
  const bool numbers = values.number == 7 && values.size == 4096 && values.real == 0.25;
  ok(numbers && values.choice == 2 && !values.text, "defaults");
}

static void kinds(void) {
  ok(accepts("--flag") && values.flag, "a flag");
  ok(accepts("--number 2 --count=1000000000000000000") && values.number == 2 && values.count == 1000000000000000000,
     "numbers");
  ok(accepts("--size 18446744073709551615") && values.size == UINT64_MAX, "the largest size");
  ok(accepts("--size=3k") && values.size == 3072, "with a unit");
  ok(accepts("--real .5") && values.real == 0.5, "a fraction");
  ok(accepts("--colour green") && values.choice == 1, "a choice");
  ok(accepts("--file=a=b --text ''") && strcmp(values.file, "a=b") == 0 && values.text && !*values.text,
     "a file, and an empty text");
  ok(accepts("--maybe x") && !*values.maybe && left("x"), "what may be left out is not the next word");
  ok(accepts("--maybe=x") && strcmp(values.maybe, "x") == 0, "but stands behind a =");
  ok(accepts("--length 3 x --file y") && values.length == 3 && left("x"), "an option beside the one that it needs");
  ok(accepts("--a-name-that-is-long=ab") && memcmp(values.pair, "ab", 2) == 0, "a call");
  ok(accepts("--number 3 --number 4") && values.number == 4, "the last one counts");
}

static void forms(void) {
  ok(accepts("-n 5") && values.number == 5, "a letter");
  ok(accepts("-n5") && values.number == 5, "and its value at once");
  ok(accepts("a --flag - b") && values.flag && left("a - b"), "words between options, and a dash alone is one");
  ok(accepts("a -- --flag -- b") && !values.flag && left("a --flag -- b"), "a -- ends the options, once");
  ok(accepts("--text -x") && strcmp(values.text, "-x") == 0, "a value may begin with a dash");
  values = (struct values){0};
  ok(parse("--banner") == TAGC_COMMAND_LINE_GO && values.flag &&
       strcmp(said, "prog: --banner is called --flag now\n") == 0,
     "an old name, with a warning");
  line.command = true;
  ok(accepts("--flag a --number 5 -- b") && values.flag && !values.number && left("a --number 5 -- b"),
     "the first word ends them, where a command is meant");
  line.command = false;
  words[0] = NULL;
  ok(tagc_command_line_parse(&line, words, &values, stdout) == TAGC_COMMAND_LINE_GO, "no name of the program, either");
}

static void refusals(void) {
  refused("--flag=1", "--flag takes no value");
  refused("--help=1", "--help takes no value");
  refused("--number", "--number needs a value: 2 to 64");
  refused("--file --", "--file needs a value: FILE");
  refused("--number 1", "--number does not take '1': accepted is 2 to 64");
  refused("--number 65", "--number does not take '65': accepted is 2 to 64");
  refused("--number 4294967298", "--number does not take '4294967298': accepted is 2 to 64");
  refused("--number +4", "--number does not take '+4': accepted is 2 to 64");
  refused("--count 2k", "--count does not take '2k': accepted is 1 to 1e18");
  refused("--count ''", "--count does not take '': accepted is 1 to 1e18");
  refused("--size 18446744073709551616",
          "--size does not take '18446744073709551616': accepted is 0 to 18446744073709551615 bytes");
  refused("--size 17179869184G", "--size does not take '17179869184G': accepted is 0 to 18446744073709551615 bytes");
  refused("--real nan", "--real does not take 'nan': accepted is 1e-3 to 0.5");
  refused("--real 0.2x", "--real does not take '0.2x': accepted is 1e-3 to 0.5");
  refused("--colour gree", "--colour does not take 'gree': accepted is red, green or blue");
  refused("--file=", "--file does not take '': accepted is FILE");
  refused("--maybe=", "--maybe does not take '': accepted is FILE");
  refused("--a-name-that-is-long abc", "--a-name-that-is-long does not take 'abc': accepted is two letters");
  refused("--length 3 --flag x", "--length needs --file");
  refused("--length 3 -- --file", "--length needs --file");
  refused("--text x --count 1", "--text does not go with --count");
  refused("--real .3 --text x", "--text does not go with --real");
  refused("--numbr=3", "there is no option --numbr; did you mean --number?");
  refused("--versoin", "there is no option --versoin; did you mean --version?");
  refused("--frobnicate", "there is no option --frobnicate");
  refused("-x", "there is no option -x");
  refused("---", "there is no option ---");
}

static void shows(void) {
  ok(parse("--version") == 0 && strcmp(shown, "prog " PACKAGE_VERSION "\n") == 0, "--version");
  ok(parse("--flag -h --frob") == 0 && !*said, "-h, whatever comes behind it");
  ok(strcmp(shown, "usage: prog\n\n"
                   "  --flag            a flag\n"
                   "  -n, --number N    a number (2 to 64; default 7)\n"
                   "  --count N         a count (1 to 1e18)\n"
                   "  --size BYTES      a size (0 to 18446744073709551615 bytes; default 4K)\n"
                   "\nOthers:\n"
                   "  --real X          a fraction (1e-3 to 0.5; default 0.25)\n"
                   "  --colour NAME     a choice (red, green or blue; default blue)\n"
                   "  --file FILE       a file that has a text of many words, so many that they do not fit one line "
                   "of\n"
                   "                    it\n"
                   "  --text TEXT       a text\n"
                   "  --length N        of the file (1 to 9)\n"
                   "  --maybe[=FILE]    perhaps a file\n"
                   "  --a-name-that-is-long PAIR\n"
                   "                    a pair (two letters)\n"
                   "  --help, --version\n"
                   "\nThe end.\n") == 0,
     "--help");
  note_lines(shown);
}

int main(void) {
  presets();
  kinds();
  forms();
  refusals();
  shows();
  free(shown);
  return tap_done();
}
