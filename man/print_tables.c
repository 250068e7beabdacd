/* SPDX-License-Identifier: BSD-3-Clause
 * Prints the lists of the manual page from the tables that the library is made of: `print_tables options|reasons|entries`
 * writes mdoc(7) list items to stdout. Run while the manual is built.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdint.h>
#include <string.h>

/* The i-th of "a|b|c" into `name`. */
static const char *nth(const char *choices, int i, char name[32])
{
  while (i-- > 0)
    choices += strcspn(choices, "|") + 1;
  snprintf(name, 32, "%.*s", (int)strcspn(choices, "|"), choices);
  return name;
}

static const char *bytes(uint64_t n, char text[32])
{
  static const char units[] = " KMG";
  int unit = 0;
  for (; unit < 3 && n && n % 1024 == 0; unit++)
    n /= 1024;
  snprintf(text, 32, unit ? "%" PRIu64 "%c" : "%" PRIu64, n, units[unit]);
  return text;
}

/* A fraction in parts per million without trailing zeros. */
static const char *fraction(uint32_t ppm, char text[32])
{
  size_t length = (size_t)snprintf(text, 32, "%" PRIu32 ".%06" PRIu32, ppm / 1000000, ppm % 1000000);
  while (text[length - 1] == '0' && text[length - 2] != '.')
    text[--length] = '\0';
  return text;
}

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

static void options(void)
{
  char text[32];
#define CHOICE(field, variable, preset, choices, help) item(#variable, choices, nth(choices, preset, text), help);
#define NUMBER(field, variable, preset, min, max, help)                                                                \
  snprintf(text, sizeof text, "%" PRIu64, (uint64_t)(preset));                                                         \
  item(#variable, "number", text, help);
#define BYTES(field, variable, preset, max, help) item(#variable, "bytes Ns Op K|M|G", bytes(preset, text), help);
#define FRACTION(field, variable, preset, max, help) item(#variable, "fraction", fraction(preset, text), help);
#define TEXT(field, variable, preset, help) item(#variable, "text", preset, help);
#include "env/options.def"
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
