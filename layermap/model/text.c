/* SPDX-License-Identifier: BSD-3-Clause */
#include "layermap/model/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "env/log.h"

/* The shown length of an offending word. */
enum { SHOWN = 40 };

static char *complain_of_file(struct tagc_complaint *complaint, const char *what, const char *why) {
  *complaint = (struct tagc_complaint){0};
  snprintf(complaint->text, sizeof complaint->text, "%s%s", what, why);
  return NULL;
}

/* Reads until the file ends or is too large: the size of a pipe or of /proc is unknown before. */
static char *read_all(int file, size_t limit, size_t *bytes, struct tagc_complaint *complaint) {
  char *text = NULL;
  for (size_t used = 0, room = 0;;) {
    if (used == room) {
      room = room ? 2 * room : 4096;
      char *larger = realloc(text, room);
      if (!larger) {
        free(text);
        return complain_of_file(complaint, "no memory", "");
      }
      text = larger;
    }
    ssize_t got = read(file, text + used, room - used);
    if (got < 0 && errno == EINTR)
      continue;
    used += got > 0 ? (size_t)got : 0;
    if (got > 0 && used <= limit)
      continue;
    *bytes = used;
    if (got == 0 && used <= limit)
      return text;
    free(text);
    char why[48];
    snprintf(why, sizeof why, "larger than %zu bytes", limit);
    return got < 0 ? complain_of_file(complaint, "cannot be read: ", strerror(errno))
                   : complain_of_file(complaint, why, "");
  }
}

static char *load(const char *path, int flags, size_t limit, size_t *bytes, struct tagc_complaint *complaint) {
  struct stat status;
  char *text = NULL;
  int file = open(path, O_RDONLY | O_CLOEXEC | flags);
  if (file < 0 || fstat(file, &status) != 0)
    complain_of_file(complaint, "cannot be opened: ", strerror(errno));
  else if (flags & O_NONBLOCK && !S_ISREG(status.st_mode))
    complain_of_file(complaint, "not a regular file", "");
  else
    text = read_all(file, limit, bytes, complaint);
  if (file >= 0)
    close(file);
  return text;
}

char *tagc_text_load(const char *path, size_t limit, size_t *bytes, struct tagc_complaint *complaint) {
  return load(path, 0, limit, bytes, complaint);
}

/* Without O_NONBLOCK, opening a pipe would already block. */
char *tagc_text_load_regular(const char *path, size_t limit, size_t *bytes, struct tagc_complaint *complaint) {
  return load(path, O_NONBLOCK | O_NOCTTY, limit, bytes, complaint);
}

void tagc_text_begin(struct tagc_text *text, const char *bytes, size_t count, struct tagc_complaint *complaint) {
  *text = (struct tagc_text){.next = bytes, .end = bytes + count, .complaint = complaint};
  *complaint = (struct tagc_complaint){0};
}

__attribute__((format(printf, 5, 0))) static bool complain_at(struct tagc_text *text, unsigned line, size_t column,
                                                              const char *what, const char *message, va_list args) {
  struct tagc_complaint *complaint = text->complaint;
  text->failed = true;
  complaint->line = line;
  complaint->column = (unsigned)column;
  int length = snprintf(complaint->text, sizeof complaint->text, "%s", what);
  vsnprintf(complaint->text + length, sizeof complaint->text - (size_t)length, message, args);
  return false;
}

/* The word for a message: quoted, printable, shortened. */
static const char *quote(struct tagc_word word, char quoted[SHOWN + 8]) {
  char copy[SHOWN + 1];
  size_t length = word.length < SHOWN ? word.length : SHOWN;
  if (!length)
    return "nothing ";
  memcpy(copy, word.text, length);
  copy[length] = '\0';
  quoted[0] = '"';
  size_t used = 1 + tagc_log_escape(quoted + 1, SHOWN + 1, copy);
  snprintf(quoted + used, SHOWN + 8 - used, "%s\" ", length < word.length ? "..." : "");
  return quoted;
}

bool tagc_text_refuse(struct tagc_text *text, struct tagc_word word, const char *message, ...) {
  char quoted[SHOWN + 8];
  va_list args;
  va_start(args, message);
  complain_at(text, text->number, (size_t)(word.text - text->line) + 1, quote(word, quoted), message, args);
  va_end(args);
  return false;
}

bool tagc_text_fail(struct tagc_text *text, const char *message, ...) {
  va_list args;
  va_start(args, message);
  complain_at(text, text->number, text->number ? 1 : 0, "", message, args);
  va_end(args);
  return false;
}

bool tagc_text_without_memory(struct tagc_text *text) {
  return tagc_text_fail(text, "there is not enough memory for what was read so far");
}

/* Cuts off the next line, and its comment. */
static bool cut(struct tagc_text *text) {
  size_t left = (size_t)(text->end - text->next);
  const char *newline = memchr(text->next, '\n', left), *end = newline ? newline : text->end;
  text->line = text->at = text->next;
  text->next = newline ? newline + 1 : text->end;
  text->number++;
  if (end > text->line && end[-1] == '\r')
    end--;
  size_t length = (size_t)(end - text->line);
  const char *zero = memchr(text->line, '\0', length), *comment = memchr(text->line, '#', length);
  if (length > TAGC_TEXT_LINE)
    return tagc_text_refuse(text, (struct tagc_word){text->line + TAGC_TEXT_LINE, 1},
                            "is one too many; a line has at most %d bytes", TAGC_TEXT_LINE);
  if (zero) {
    text->line_end = zero;
    return tagc_text_refuse(text, (struct tagc_word){zero, 0}, "can be read here: a zero byte; expected is text");
  }
  text->line_end = comment ? comment : end;
  return true;
}

static bool is_space_or_tab(char c) { return c == ' ' || c == '\t'; }

bool tagc_text_line(struct tagc_text *text) {
  while (!text->failed && text->next < text->end) {
    if (!cut(text))
      return false;
    while (text->at < text->line_end && is_space_or_tab(*text->at))
      text->at++;
    if (text->at < text->line_end)
      return true;
  }
  return false;
}

struct tagc_word tagc_text_word(struct tagc_text *text) {
  /* At the end of a line the empty word is behind the last one. */
  const char *last = text->at, *begin = last;
  while (begin < text->line_end && is_space_or_tab(*begin))
    begin++;
  if (begin == text->line_end)
    return (struct tagc_word){last, 0};
  text->at = begin;
  while (text->at < text->line_end && !is_space_or_tab(*text->at))
    text->at++;
  return (struct tagc_word){begin, (size_t)(text->at - begin)};
}

bool tagc_word_is(struct tagc_word word, const char *what) {
  return strlen(what) == word.length && memcmp(word.text, what, word.length) == 0;
}

bool tagc_text_number(struct tagc_text *text, struct tagc_word word, const char *what, uint64_t min, uint64_t max,
                      uint64_t *number) {
  uint64_t value = 0;
  bool fits = word.length > 0;
  for (size_t i = 0; fits && i < word.length; i++) {
    char c = word.text[i];
    fits = c >= '0' && c <= '9' && !__builtin_mul_overflow(value, 10, &value) &&
           !__builtin_add_overflow(value, (uint64_t)(c - '0'), &value);
  }
  *number = value;
  if (fits && value >= min && value <= max)
    return true;
  return tagc_text_refuse(text, word, "is no %s; expected is a number from %" PRIu64 " to %" PRIu64, what, min, max);
}

bool tagc_text_ended(struct tagc_text *text) {
  struct tagc_word word = tagc_text_word(text);
  return !word.length || tagc_text_refuse(text, word, "is one too many; expected is the end of the line");
}

bool tagc_text_version(struct tagc_text *text, const char *keyword, unsigned version) {
  if (!tagc_text_line(text))
    return text->failed ? false : tagc_text_fail(text, "the file is empty; expected is \"%s %u\"", keyword, version);
  struct tagc_word word = tagc_text_word(text);
  uint64_t number;
  if (!tagc_word_is(word, keyword))
    return tagc_text_refuse(text, word, "does not begin such a file; expected is \"%s %u\"", keyword, version);
  return tagc_text_number(text, tagc_text_word(text), "version that is known", version, version, &number) &&
         tagc_text_ended(text);
}
