/* SPDX-License-Identifier: BSD-3-Clause
 * Globs over names; see glob.h. A glob is a row of tokens. At a mismatch the last star takes one character more, and
 * the tokens behind it are tried again. (Earlier stars need no retry: their successors matched as early as possible.)
 */
#include "layermap/model/glob.h"

#include <stdint.h>
#include <string.h>

enum kind { LITERAL, ANY, SET, RANGE, STAR, BAD };

struct token {
  enum kind kind;
  const char *text, *end; /* of a set: the text between the brackets; of others all of it */
  char literal;
  uint32_t first, last; /* of a range */
  const char *why;      /* BAD */
};

bool tagc_glob_number(const char **at, const char *end, uint32_t *number) {
  uint64_t value = 0;
  const char *begin = *at;
  for (; *at < end && tagc_is_digit(**at); ++*at) {
    value = value * 10 + (uint64_t)(**at - '0');
    if (value > UINT32_MAX)
      return false;
  }
  *number = (uint32_t)value;
  return *at > begin;
}

/* The end of a part "0-3" that begins at `at`; NULL: not one. Does not check its numbers. */
static const char *end_of_range(const char *at, const char *end) {
  const char *begin = at;
  while (at < end && tagc_is_digit(*at))
    at++;
  if (at == begin || at == end || *at != '-')
    return NULL;
  begin = ++at;
  while (at < end && tagc_is_digit(*at))
    at++;
  return at > begin && (at == end || *at == '.') ? at : NULL;
}

/* The end of the bracket expression at `at`, or `end` if it is unclosed. */
static const char *end_of_set(const char *at, const char *end) {
  at++;
  if (at < end && (*at == '!' || *at == '^'))
    at++;
  for (const char *first = at; at < end && (*at != ']' || at == first); at++)
    if (*at == '\\' && at + 1 < end)
      at++;
  return at;
}

static struct token bad(const char *why) { return (struct token){.kind = BAD, .why = why}; }

static struct token range_token(const char *at, const char *range_end) {
  struct token token = {.kind = RANGE, .end = range_end};
  const char *dash = memchr(at, '-', (size_t)(range_end - at));
  if (!tagc_glob_number(&at, dash, &token.first) || (at = dash + 1, !tagc_glob_number(&at, range_end, &token.last)))
    return bad("a number is too large");
  return token.first > token.last ? bad("a range runs backwards") : token;
}

/* The token at `at` < end; its `end` is the start of the next. `starts`: a part begins here. */
static struct token next_token(const char *at, const char *end, bool starts) {
  const char *range_end = starts ? end_of_range(at, end) : NULL;
  if (range_end)
    return range_token(at, range_end);
  if (*at == '*')
    return (struct token){.kind = STAR, .end = at + 1};
  if (*at == '?')
    return (struct token){.kind = ANY, .end = at + 1};
  if (*at == '[') {
    const char *set_end = end_of_set(at, end);
    return set_end == end ? bad("unbalanced [") : (struct token){.kind = SET, .text = at + 1, .end = set_end + 1};
  }
  if (*at == '\\' && ++at == end)
    return bad("a backslash quotes nothing");
  return (struct token){.kind = LITERAL, .literal = *at, .end = at + 1};
}

/* Reads a character of a set, with an optional backslash. */
static unsigned char set_character(const char **at) {
  if (**at == '\\')
    ++*at;
  return (unsigned char)*(*at)++;
}

static bool in_set(const struct token *token, char character) {
  unsigned char c = (unsigned char)character;
  const char *at = token->text, *end = token->end - 1;
  bool negated = *at == '!' || *at == '^', found = false;
  at += negated;
  while (at < end) {
    unsigned char first = set_character(&at), last = first;
    if (at + 1 < end && *at == '-') {
      at++;
      last = set_character(&at);
    }
    found |= first <= c && c <= last;
  }
  return found != negated;
}

/* The end of the part of the name at `at` if it lies in the range, or NULL. */
static const char *match_range(const struct token *token, const char *name, const char *at) {
  uint32_t first, last;
  const char *end = at + strcspn(at, ".");
  if ((at > name && at[-1] != '.') || !tagc_glob_number(&at, end, &first))
    return NULL;
  last = first;
  if (at < end && *at == '-') {
    at++;
    if (!tagc_glob_number(&at, end, &last))
      return NULL;
  }
  return at == end && token->first <= first && last <= token->last ? end : NULL;
}

/* The rest of the name behind the token's match, or NULL. */
static const char *match_token(const struct token *token, const char *name, const char *at) {
  if (token->kind == RANGE)
    return match_range(token, name, at);
  bool matches = *at && (token->kind == ANY || (token->kind == LITERAL && *at == token->literal) ||
                         (token->kind == SET && in_set(token, *at)));
  return matches ? at + 1 : NULL;
}

const char *tagc_glob_check(const char *glob, size_t length) {
  const char *end = glob + length;
  for (const char *at = glob; at < end;) {
    struct token token = next_token(at, end, at == glob || at[-1] == '.');
    if (token.kind == BAD)
      return token.why;
    at = token.end;
  }
  return NULL;
}

bool tagc_glob_matches(const char *glob, size_t length, const char *name) {
  const char *end = glob + length, *at = glob, *in_name = name, *after_star = NULL, *star_name = NULL;
  for (;;) {
    if (at == end && (*in_name == '\0' || *in_name == '.'))
      return true;
    struct token token = at < end ? next_token(at, end, at == glob || at[-1] == '.') : bad("");
    if (token.kind == BAD && at < end)
      return false;
    if (token.kind == STAR) {
      after_star = at = token.end;
      star_name = in_name;
      continue;
    }
    const char *next = token.kind == BAD ? NULL : match_token(&token, name, in_name);
    if (next) {
      at = token.end;
      in_name = next;
      continue;
    }
    if (!after_star || !*star_name)
      return false;
    at = after_star;
    in_name = ++star_name;
  }
}
