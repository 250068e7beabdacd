/* SPDX-License-Identifier: BSD-3-Clause
 * The command line of tagc-run: its long options are the variables of options.def in other words.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "env/tagc-run/run.h"

enum { WIDTH = 100, INDENT = 6 };

static int refuse(const char *what, const char *argument)
{
  fprintf(stderr, "tagc-run: %s%.200s (tagc-run --help lists the options)\n", what, argument);
  return TAGC_RUN_USAGE;
}

/* The variable that a long option of `length` bytes would be that of. */
static void variable_of(const char *argument, size_t length, char variable[TAGC_RUN_NAME])
{
  snprintf(variable, TAGC_RUN_NAME, "TAGC_%.*s", (int)length - 2, argument + 2);
  for (char *c = variable; *c; c++)
    *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

static bool is_named(const struct tagc_option *option, const char *argument, size_t length)
{
  char name[TAGC_RUN_NAME];
  return strlen(tagc_run_name(option, name)) == length && strncmp(name, argument, length) == 0;
}

/* Where the option had that name once, *old is true, and a warning is printed. */
static const struct tagc_option *find(const char *argument, size_t length, bool *old)
{
  char name[TAGC_RUN_NAME];
  *old = false;
  for (size_t i = 0; i < TAGC_OPTION_COUNT; i++)
    if (is_named(&tagc_option_table[i], argument, length))
      return &tagc_option_table[i];
  for (const struct tagc_option_rename *r = tagc_option_renames; r->old; r++)
    if (is_named(&(struct tagc_option){.variable = r->old}, argument, length)) {
      *old = true;
      fprintf(stderr, "tagc-run: %.*s is called %s now\n", (int)length, argument, tagc_run_name(&tagc_option_table[r->option], name));
      return &tagc_option_table[r->option];
    }
  return NULL;
}

/* Own options, which take no value. */
static const char *const switch_names[] = {"--no-check", "--force", "--print", "--help", "--version", "-h"};

/* That of `length` bytes, or NULL. */
static bool *find_switch(struct tagc_run *run, const char *argument, size_t length)
{
  bool *const values[] = {&run->no_check, &run->force, &run->print, &run->help, &run->version, &run->help};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    if (strlen(switch_names[i]) == length && strncmp(switch_names[i], argument, length) == 0)
      return values[i];
  return NULL;
}

static int refuse_unknown(const char *argument, size_t length)
{
  char variable[TAGC_RUN_NAME], name[TAGC_RUN_NAME], own[TAGC_RUN_NAME], words[240];
  variable_of(argument, length, variable);
  const char *nearest = tagc_options_nearest(variable), *hint = tagc_run_name(tagc_option_find(nearest), name);
  size_t least = tagc_options_distance(variable, nearest);
  for (size_t i = 0; i < sizeof switch_names / sizeof *switch_names - 1; i++) { /* but -h */
    variable_of(switch_names[i], strlen(switch_names[i]), own);
    if (tagc_options_distance(variable, own) < least)
      hint = switch_names[i], least = tagc_options_distance(variable, own);
  }
  snprintf(words, sizeof words, "there is no option %.*s; did you mean %s?", length < 80 ? (int)length : 80, argument, hint);
  return refuse(words, "");
}

/* The value of an option: behind the = at `length`, or the next argument. NULL: none; a -- is none, either. */
static const char *take_value(char ***argv, size_t length)
{
  if ((**argv)[length])
    return **argv + length + 1;
  const char *next = *++*argv;
  return next && strcmp(next, "--") != 0 ? next : NULL;
}

int tagc_run_parse(struct tagc_run *run, char **argv)
{
  for (argv++; *argv && (*argv)[0] == '-' && (*argv)[1]; argv++) {
    const char *argument = *argv;
    if (strcmp(argument, "--") == 0) {
      argv++;
      break;
    }
    const size_t length = strcspn(argument, "=");
    bool *is_on = find_switch(run, argument, length);
    if (is_on && argument[length])
      return refuse("no value goes with ", argument);
    if (is_on) {
      *is_on = true;
      continue;
    }
    bool old;
    const struct tagc_option *option = find(argument, length, &old);
    if (!option)
      return argument[1] == '-' ? refuse_unknown(argument, length) : refuse("there is no option ", argument);
    const char **value = &run->values[option - tagc_option_table], *given = take_value(&argv, length);
    if (!given)
      return refuse("a value is missing behind ", argument);
    if (!old || !*value)            /* the present name counts where both are given */
      *value = given;
  }
  run->command = argv;
  if (!*argv && !run->print && !run->help && !run->version)
    return refuse("which command is to be started?", "");
  return TAGC_RUN_GO;
}

/* Words in lines of WIDTH columns. */
static void put_wrapped(const char *text)
{
  int column = 0;
  while (*text) {
    int word = (int)strcspn(text, " ");
    if (column && column + 1 + word > WIDTH) {
      putchar('\n');
      column = 0;
    }
    column += printf("%*s%.*s", column ? 1 : INDENT, "", word, text);
    text += word + (int)strspn(text + word, " ");
  }
  putchar('\n');
}

static void put_option(const struct tagc_option *option)
{
  char name[TAGC_RUN_NAME], preset[TAGC_OPTION_PRESET];
  tagc_option_preset(option, preset);
  printf("  %s %s%s%s%s\n", tagc_run_name(option, name), tagc_run_value(option), *preset ? "  (" : "", preset,
         *preset ? ")" : "");
  put_wrapped(option->help);
}

void tagc_run_help(void)
{
  puts("usage: tagc-run [OPTION...] [--] COMMAND [ARGUMENT...]\n"
       "       tagc-run [OPTION...] --print\n"
       "Starts a command with libtagc-preload.so in front of NCCL: sets LD_PRELOAD, and a TAGC_ variable\n"
       "for each option; those of the environment stay. Checks first that all this will work, as far as\n"
       "that can be known.\n"
       "\n"
       "  --print\n"
       "      do not start anything: print these variables, as lines for a shell\n"
       "  --no-check\n"
       "      look neither at the program (tagc-doctor) nor at files and folders that options name\n"
       "  --force\n"
       "      look at them, say what is wrong, and start the command all the same\n"
       "  --help, --version\n"
       "\n"
       "Options of the library, with their defaults; a value may also stand behind a =, as in --mode=ab:");
  for (size_t i = 0; i < TAGC_OPTION_COUNT; i++)
    put_option(&tagc_option_table[i]);
  puts("\n"
       "More about them is in libtagc-preload(7).\n"
       "\n"
       "Exit status: that of the command; 127 it was not found; 126 it could not be started; 1 it would\n"
       "not work, or the library was not found; 2 wrong usage, or a value that the library would not\n"
       "understand.");
}
