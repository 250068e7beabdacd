/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/agree/decider.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fact_sheet {
  struct fact_sheet *next;
  uint32_t number; /* from 1 */
  char text[];     /* lines as received, NUL-terminated */
};

struct session {
  struct session *next;
  uint8_t secret[TAGC_AGREE_SECRET];
  uint32_t nranks;              /* 0 until the first report */
  uint32_t reported, confirmed; /* ranks */
  struct fact_sheet *sheets;    /* the different reports: one if all is well */
  uint32_t *sheet_of;           /* a rank's sheet; 0: it has not reported */
  uint64_t *host_of;
  bool *has_confirmed;           /* ranks that confirmed */
  uint32_t *host_number, hosts;  /* made with the decision "on" */
  enum tagc_agree_kind decision; /* TAGC_AGREE_ON, TAGC_AGREE_OFF, or 0 before it */
  bool spoiled;                  /* a report contradicts another one: "off" */
  char *why;                     /* the reason of "off"; before the decision: a fault so far; or NULL */
};

enum {
  LONGEST_WHY = 900, /* a line of the log is about that long */
  VALUES = 8,        /* of a fact are named, and 16 ranges of ranks: enough to look further */
};

struct tagc_agree_decider {
  struct session *sessions;
  size_t open;
  const char *complaint;
};

/* Frees the data of all ranks. */
static void forget_ranks(struct session *s) {
  for (struct fact_sheet *f = s->sheets, *after; f; f = after) {
    after = f->next;
    free(f);
  }
  free(s->sheet_of);
  free(s->host_of);
  free(s->has_confirmed);
  free(s->host_number);
  s->sheets = NULL;
  s->sheet_of = NULL;
  s->host_of = NULL;
  s->has_confirmed = NULL;
  s->host_number = NULL;
}

struct tagc_agree_decider *tagc_agree_decider_create(void) {
  return calloc(1, sizeof(struct tagc_agree_decider));
}

void tagc_agree_decider_destroy(struct tagc_agree_decider *decider) {
  for (struct session *s = decider ? decider->sessions : NULL, *next; s; s = next) {
    next = s->next;
    forget_ranks(s);
    free(s->why);
    free(s);
  }
  free(decider);
}

bool tagc_agree_decider_expect(struct tagc_agree_decider *decider, const uint8_t secret[TAGC_AGREE_SECRET]) {
  struct session *s = calloc(1, sizeof *s);
  if (!s)
    return false;
  memcpy(s->secret, secret, sizeof s->secret);
  s->next = decider->sessions;
  decider->sessions = s;
  decider->open++;
  return true;
}

/* Compares in constant time, so that a stranger does not learn how much of a guess was right. */
static bool same_secret(const uint8_t *a, const uint8_t *b) {
  unsigned differ = 0;
  for (size_t i = 0; i < TAGC_AGREE_SECRET; i++)
    differ |= a[i] ^ b[i];
  return !differ;
}

static struct session *find_session(const struct tagc_agree_decider *decider, const uint8_t *secret) {
  struct session *s = decider->sessions;
  while (s && !same_secret(s->secret, secret))
    s = s->next;
  return s;
}

bool tagc_agree_decider_knows(const struct tagc_agree_decider *decider, const uint8_t secret[TAGC_AGREE_SECRET]) {
  return find_session(decider, secret) != NULL;
}

size_t tagc_agree_decider_open(const struct tagc_agree_decider *decider) { return decider->open; }

const char *tagc_agree_decider_complaint(struct tagc_agree_decider *decider) {
  const char *complaint = decider->complaint;
  decider->complaint = NULL;
  return complaint ? complaint : "";
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* A text that is written in parts, and cut when it is full. */
struct words {
  char *at;
  size_t left; /* with the NUL */
};

__attribute__((format(printf, 2, 3))) static void append_words(struct words *w, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(w->at, w->left, format, args);
  va_end(args);
  size_t used = n < 0 ? 0 : (size_t)n < w->left ? (size_t)n : w->left - 1;
  w->at += used;
  w->left -= used;
}

/* "rank 3" or "ranks 0-2,5": the ranks for which `wanted[sheet_of[rank]]` holds. */
static void say_ranks(struct words *w, const struct session *s, const bool *wanted) {
  uint32_t count = 0, said = 0;
  for (uint32_t r = 0; r < s->nranks; r++)
    count += wanted[s->sheet_of[r]];
  append_words(w, count == 1 ? "rank " : "ranks ");
  for (uint32_t r = 0, first; r < s->nranks; r++) {
    if (!wanted[s->sheet_of[r]])
      continue;
    first = r;
    while (r + 1 < s->nranks && wanted[s->sheet_of[r + 1]])
      r++;
    if (said++ == 2 * VALUES || w->left <= 1) {
      append_words(w, ",...");
      return;
    }
    append_words(w, r > first ? "%s%u-%u" : "%s%u", said > 1 ? "," : "", first, r);
  }
}

/* The value of a fact in a sheet; NULL: none. */
static const char *value_of(const struct fact_sheet *f, const char *name, size_t name_size, size_t *size) {
  for (const char *line = f->text; *line;) {
    size_t length = strcspn(line, "\n");
    if (length > name_size && line[name_size] == '=' && memcmp(line, name, name_size) == 0) {
      *size = length - name_size - 1;
      return line + name_size + 1;
    }
    line += length + (line[length] == '\n');
  }
  *size = 0;
  return NULL;
}

static bool same_value(const struct fact_sheet *a, const struct fact_sheet *b, const char *name, size_t name_size) {
  size_t na, nb;
  const char *va = value_of(a, name, name_size, &na), *vb = value_of(b, name, name_size, &nb);
  return !va == !vb && na == nb && (!va || memcmp(va, vb, na) == 0);
}

/* "TAGC_SPARSITY is 0.8 on ranks 0-2, 0.9 on rank 3; " if the sheets differ in it, in the order of the ranks. `wanted`
 * and `said` have room for all sheets. */
static void say_fact(struct words *w, const struct session *s, const char *name, size_t name_size, bool *wanted,
                     bool *said) {
  bool differs = false;
  for (const struct fact_sheet *f = s->sheets; f; f = f->next) {
    differs |= !same_value(f, s->sheets, name, name_size);
    said[f->number] = false;
  }
  if (!differs)
    return;
  append_words(w, "%.*s is", (int)name_size, name);
  wanted[0] = false;
  for (uint32_t r = 0, values = 0; r < s->nranks && w->left > 1; r++) {
    const struct fact_sheet *f = s->sheets;
    while (f && f->number != s->sheet_of[r])
      f = f->next;
    if (!f || said[f->number])
      continue;
    for (const struct fact_sheet *e = s->sheets; e; e = e->next) {
      wanted[e->number] = same_value(e, f, name, name_size);
      said[e->number] |= wanted[e->number];
    }
    size_t size;
    const char *value = value_of(f, name, name_size, &size);
    if (values == VALUES) {
      append_words(w, " ...");
      break;
    }
    append_words(w, values++ ? ", " : " ");
    if (value)
      append_words(w, "%.*s%s on ", (int)(size < 40 ? size : 40), value, size <= 40 ? "" : "...");
    else
      append_words(w, "unknown to ");
    say_ranks(w, s, wanted);
  }
  append_words(w, "; ");
}

static bool earlier_sheet_has(const struct session *s, const struct fact_sheet *f, const char *name, size_t name_size) {
  size_t size;
  for (const struct fact_sheet *e = s->sheets; e != f; e = e->next)
    if (value_of(e, name, name_size, &size))
      return true;
  return false;
}

/* Explains why the decision is "off": the missing ranks, and the differences. False without memory. */
static bool explain_refusal(struct session *s) {
  uint32_t sheets = 0;
  for (const struct fact_sheet *f = s->sheets; f; f = f->next)
    sheets++;
  bool *wanted = calloc(2 * (sheets + 1), sizeof *wanted);
  char *why = malloc(LONGEST_WHY);
  if (!wanted || !why) {
    free(wanted);
    free(why);
    return false;
  }
  struct words w = {why, LONGEST_WHY};
  *why = '\0';
  if (s->reported < s->nranks) {
    wanted[0] = true;
    say_ranks(&w, s, wanted);
    append_words(&w, " of %u did not report (no library, TAGC_MODE=off, no connection, or few descriptors); ",
                 s->nranks);
  }
  for (const struct fact_sheet *f = s->sheets; f && w.left > 1; f = f->next)
    for (const char *line = f->text; *line;) {
      size_t length = strcspn(line, "\n"), name_size = strcspn(line, "=\n");
      if (name_size && name_size < length && !earlier_sheet_has(s, f, line, name_size))
        say_fact(&w, s, line, name_size, wanted, wanted + sheets + 1);
      line += length + (line[length] == '\n');
    }
  free(wanted);
  if (w.at == why)
    append_words(&w, "they report different things; ");
  if (w.at > why + 2 && w.at[-1] == ' ')
    w.at[-2] = '\0'; /* the last "; " */
  s->why = why;
  return true;
}

/* ---- decisions --------------------------------------------------------------------------------------------------- */

/* Allocates the data of all ranks, at the first report. */
static bool reserve_ranks(struct session *s, uint32_t nranks) {
  if (s->nranks)
    return true;
  s->sheet_of = calloc(nranks, sizeof *s->sheet_of);
  s->host_of = calloc(nranks, sizeof *s->host_of);
  s->has_confirmed = calloc(nranks, sizeof *s->has_confirmed);
  s->host_number = calloc(nranks, sizeof *s->host_number);
  if (!s->sheet_of || !s->host_of || !s->has_confirmed || !s->host_number) {
    forget_ranks(s);
    return false;
  }
  s->nranks = nranks;
  return true;
}

/* The sheet with this text; adds a new one if needed. */
static struct fact_sheet *sheet(struct session *s, const char *text, size_t size) {
  struct fact_sheet *fresh = malloc(sizeof *fresh + size + 1), **at = &s->sheets;
  if (!fresh)
    return NULL;
  for (size_t i = 0; i < size; i++)
    fresh->text[i] = text[i] ? text[i] : '?'; /* no library sends that */
  fresh->text[size] = '\0';
  fresh->number = 1;
  fresh->next = NULL;
  for (; *at; at = &(*at)->next) {
    if (strcmp((*at)->text, fresh->text) == 0) {
      free(fresh);
      return *at;
    }
    fresh->number++;
  }
  return *at = fresh;
}

static bool decide(struct tagc_agree_decider *decider, struct session *s) {
  if (s->decision)
    return true;
  bool on = !s->spoiled && s->reported == s->nranks && !s->sheets->next;
  if (!on && !s->why && !explain_refusal(s))
    return false;
  for (uint32_t r = 0; on && r < s->nranks; r++) {
    uint32_t same = r; /* mostly equal to the previous rank's */
    while (same-- > 0 && s->host_of[same] != s->host_of[r])
      ;
    s->host_number[r] = same == UINT32_MAX ? s->hosts++ : s->host_number[same];
  }
  s->decision = on ? TAGC_AGREE_ON : TAGC_AGREE_OFF;
  if (!on)
    decider->complaint = s->why;
  return true;
}

static size_t reply_with(struct tagc_agree_reply head, const char *text, uint8_t **reply) {
  head.text_size = (uint16_t)strlen(text);
  size_t size = TAGC_AGREE_REPLY_SIZE + (size_t)head.text_size;
  if (!(*reply = malloc(size)))
    return 0;
  tagc_agree_reply_write(*reply, &head);
  memcpy(*reply + TAGC_AGREE_REPLY_SIZE, text, head.text_size);
  return size;
}

static size_t refuse(const char *text, uint8_t **reply) {
  return reply_with((struct tagc_agree_reply){.kind = TAGC_AGREE_REFUSED}, text, reply);
}

/* The fault of a report, or NULL. A fault of one report spoils the decision for all. */
static const char *objection(struct session *s, const struct tagc_agree_request *request, const struct fact_sheet *f) {
  char text[100];
  if (request->nranks != s->nranks)
    snprintf(text, sizeof text, "rank %u reports %u ranks, another one %u", request->rank, request->nranks, s->nranks);
  else if (s->sheet_of[request->rank] && s->sheet_of[request->rank] != f->number)
    snprintf(text, sizeof text, "two processes report as rank %u", request->rank);
  else
    return NULL;
  s->spoiled = true;
  if (!s->why)
    s->why = strdup(text);
  return s->why ? s->why : "no memory";
}

static size_t note_report(struct session *s, const struct tagc_agree_request *request, const char *text,
                          uint8_t **reply) {
  if (s->decision)
    return refuse("the verdict has been given", reply);
  struct fact_sheet *f = reserve_ranks(s, request->nranks) ? sheet(s, text, request->text_size) : NULL;
  if (!f)
    return 0;
  const char *wrong = objection(s, request, f);
  if (wrong)
    return refuse(wrong, reply);
  size_t size = reply_with((struct tagc_agree_reply){.kind = TAGC_AGREE_NOTED}, "", reply);
  if (size && !s->sheet_of[request->rank]) { /* a repeated report counts once */
    s->sheet_of[request->rank] = f->number;
    s->host_of[request->rank] = request->host;
    s->reported++;
  }
  return size;
}

size_t tagc_agree_decider_answer(struct tagc_agree_decider *decider, const struct tagc_agree_request *request,
                                 const char *text, uint8_t **reply) {
  struct session *s = find_session(decider, request->secret);
  if (!s)
    return 0;
  if (request->kind == TAGC_AGREE_REPORT)
    return note_report(s, request, text, reply);
  if (!reserve_ranks(s, request->nranks))
    return 0;
  if (request->nranks != s->nranks)
    return refuse("the communicator has another number of ranks", reply);
  if (!decide(decider, s))
    return 0;
  struct tagc_agree_reply head = {
    .kind = s->decision, .hosts = s->hosts, .host = s->hosts && s->host_number ? s->host_number[request->rank] : 0};
  return reply_with(head, s->why ? s->why : "", reply);
}

void tagc_agree_decider_confirm(struct tagc_agree_decider *decider, const struct tagc_agree_request *request) {
  struct session *s = find_session(decider, request->secret);
  if (!s || !s->decision || request->nranks != s->nranks || !s->sheet_of || !s->sheet_of[request->rank] ||
      s->has_confirmed[request->rank])
    return;
  s->has_confirmed[request->rank] = true;
  if (++s->confirmed == s->reported) {
    forget_ranks(s);
    decider->open--;
  }
}
