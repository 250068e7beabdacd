/* SPDX-License-Identifier: BSD-3-Clause
 * Prints the lists of the manual page from the tables that the library is made of: `print_tables options|reasons|entries`
 * writes mdoc(7) list items to stdout. Run while the manual is built.
 */
#include <stdio.h>
#include <string.h>

#include "env/options.h"

/* Text in lines of at most 78 bytes, as the manual's source has them; `text` ends up with a full stop. */
static void wrapped(const char *text)
{
  size_t column = 0;
  while (*text) {
    size_t word = strcspn(text, " ");
    if (column && column + 1 + word > 77) {
      putchar('\n');
      column = 0;
    } else if (column) {
      putchar(' ');
      column++;
    }
    printf("%.*s", (int)word, text);
    column += word;
    text += word + strspn(text + word, " ");
  }
  printf(".\n");
}

static void item(const char *variable, const char *accepted, const char *preset, const char *help)
{
  printf(".It Ev %s Ns = Ns Ar %s\n", variable, accepted);
  wrapped(help);
  if (*preset)
    printf("Default: %s.\n", preset);
}

/* What an option accepts, as an argument of mdoc(7). */
static const char *accepted(const struct tagc_option *o)
{
  switch (o->kind) {
  case TAGC_OPTION_CHOICE: return o->text;
  case TAGC_OPTION_NUMBER: return "number";
  case TAGC_OPTION_BYTES: return "bytes Ns Op K|M|G";
  case TAGC_OPTION_FRACTION: return "fraction";
  case TAGC_OPTION_INPUT: return "file";
  case TAGC_OPTION_OUTPUT: return "prefix";
  default: return "text";
  }
}

static void options(void)
{
  char preset[TAGC_OPTION_PRESET];
  for (const struct tagc_option *o = tagc_option_table; o < tagc_option_table + TAGC_OPTION_COUNT; o++)
    item(o->variable, accepted(o), tagc_option_preset(o, preset), o->help);
}

static void reasons(void)
{
#define REASON(name, words)                                                                                            \
  if (strcmp(#name, "compressed") != 0)                                                                                \
    printf(".It\n%s\n", words);
#include "interpose/reasons.def"
}

static void entries(void)
{
#define ENTRY(name) printf(".It\n.Fn " #name "\n");
#include "interpose/entries.def"
}

int main(int argc, char **argv)
{
  if (argc == 2 && strcmp(argv[1], "options") == 0)
    options();
  else if (argc == 2 && strcmp(argv[1], "reasons") == 0)
    reasons();
  else if (argc == 2 && strcmp(argv[1], "entries") == 0)
    entries();
  else {
    fprintf(stderr, "usage: print_tables options|reasons|entries\n");
    return 2;
  }
  return 0;
}
