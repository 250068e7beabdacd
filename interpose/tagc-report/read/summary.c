/* SPDX-License-Identifier: BSD-3-Clause
 * A summary of traces, and their problems; see summary.h.
 */
#include "interpose/tagc-report/read/summary.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env/program/terminal.h"
#include "interpose/tagc-report/read/merge.h"

uint8_t tagc_sum_code(const struct tagc_sum_rank *rank, enum tagc_trace_table table, uint16_t code) {
  return rank->code[table][code < 256 ? code : 255];
}

const char *tagc_sum_find_name(const struct tagc_summary *s, enum tagc_trace_table table, uint16_t code) {
  return code < 256 && table <= TAGC_TRACE_OPS ? s->names.text[table][code] : NULL;
}

const char *tagc_sum_name(const struct tagc_summary *s, enum tagc_trace_table table, uint16_t code) {
  const char *text = tagc_sum_find_name(s, table, code);
  return text ? text : "?";
}

size_t tagc_sum_hosts(const struct tagc_summary *s) {
  size_t hosts = 0;
  for (size_t i = 0; i < s->rank_count; i++)
    hosts += s->ranks[i].host_index == i;
  for (size_t i = 0; i < s->comm_count; i++)
    hosts = s->comms[i].hosts > hosts ? s->comms[i].hosts : hosts;
  return hosts;
}

const struct tagc_sum_choice *tagc_sum_choice_of(const struct tagc_sum_slot *slot, uint64_t cycle) {
  size_t i = slot->choice_count;
  while (i > 0 && slot->choices[i - 1].cycle > cycle)
    i--;
  return i ? &slot->choices[i - 1] : NULL;
}

const char *tagc_sum_kind(enum tagc_trace_part kind) {
  static const char *const kinds[TAGC_TRACE_PARTS] = {"embed", "attn", "mlp", "norm", "head", "other"};
  return kinds[kind];
}

/* "bfloat16", "float8e4m3", "uint32": the first number counts bits. */
unsigned tagc_sum_element(const char *type) {
  const char *digits = strpbrk(type, "123456789");
  const long bits = digits ? strtol(digits, NULL, 10) : 0;
  return bits >= 8 && bits <= 64 ? (unsigned)bits / 8 : 0;
}

const char *tagc_sum_function(const struct tagc_summary *s, uint16_t function) {
  const char *name = tagc_sum_name(s, TAGC_TRACE_FUNCTIONS, function);
  return strncmp(name, "nccl", 4) == 0 && name[4] ? name + 4 : name;
}

bool tagc_sum_same(enum tagc_trace_table table, const char *text, const char *name) {
  const size_t length = strlen(name);
  return strncmp(text, name, length) == 0 &&
         (!text[length] || (table == TAGC_TRACE_FUNCTIONS && strcmp(text + length, "Config") == 0));
}

bool tagc_sum_is(const struct tagc_summary *s, enum tagc_trace_table table, uint16_t code, const char *name) {
  return tagc_sum_same(table, tagc_sum_name(s, table, code), name);
}

bool tagc_sum_complain(struct tagc_summary *s, const char *format, ...) {
  char *text = NULL;
  va_list args;
  va_start(args, format);
  int length = vasprintf(&text, format, args);
  va_end(args);
  if (length < 0 || !TAGC_SUM_ROOM(s->problems, s->problem_count)) {
    if (length >= 0)
      free(text);
    return false;
  }
  tagc_tame(text, '\0'); /* file names may hold anything */
  s->problems[s->problem_count++] = text;
  return true;
}

/* -- problems ------------------------------------------------------------------------------------------------------ */

static bool note_damage(struct tagc_summary *s, const struct tagc_part *part) {
  const struct tagc_trace_health *h = &part->rank.health;
  const char *path = part->rank.path;
  bool done = true;
  if (h->damaged_chunks)
    done &= tagc_sum_complain(s,
                              "%s: chunks that are damaged or missing: %" PRIu64 " (%" PRIu64
                              " bytes are skipped); what they held is "
                              "in no sum",
                              path, h->damaged_chunks, h->skipped_bytes);
  if (h->refused_records || part->absurd)
    done &= tagc_sum_complain(s, "%s: records that make no sense, and are left out: %" PRIu64, path,
                              h->refused_records + part->absurd);
  if (h->unknown_records)
    done &= tagc_sum_complain(s,
                              "%s: records of kinds that are not known here: %" PRIu64
                              " (the trace has version %u.%u of the format, "
                              "this program knows %d.%d)",
                              path, h->unknown_records, h->major, h->minor, TAGC_TRACE_MAJOR, TAGC_TRACE_MINOR);
  if (h->dropped)
    done &=
      tagc_sum_complain(s, "%s: records that there was no room for, and that are lost: %" PRIu64 " (TAGC_TRACE_BUFFER)",
                        path, h->dropped);
  if (part->backwards)
    done &= tagc_sum_complain(s, "%s: cycles that do not follow those before them, and are left out: %" PRIu64, path,
                              part->backwards);
  if (!h->records)
    done &= tagc_sum_complain(s, "%s: nothing in it can be read", path);
  else if (h->cut || !h->ended)
    done &= tagc_sum_complain(s, "%s ends early%s: the process was killed, or runs still", path,
                              h->cut ? ", inside a chunk" : "");
  else if (h->bounded)
    done &= tagc_sum_complain(
      s, "%s ends early: it was as long as it might be (TAGC_TRACE_MAX), and its process went on", path);
  if (h->records && !part->realtime_ns)
    done &= tagc_sum_complain(s, "%s does not say which process wrote it: its beginning is lost", path);
  return done;
}

/* "0-3, 7": the ranks for which `has` holds. */
static void list_ranks(char *text, size_t size, const unsigned char *has, int count) {
  size_t used = 0;
  text[0] = '\0';
  for (int i = 0; i < count && used < size - 40; i++) {
    int end = i;
    if (!has[i])
      continue;
    while (end + 1 < count && has[end + 1])
      end++;
    used += (size_t)snprintf(text + used, size - used, end > i ? "%s%d-%d" : "%s%d", used ? ", " : "", i, end);
    i = end;
  }
  if (used >= size - 40)
    snprintf(text + used, size - used, ", ...");
}

/* Reports ranks of the main communicator (else the largest) that have no trace, or more than one. */
static bool complain_of_missing(struct tagc_summary *s) {
  const struct tagc_sum_comm *c = NULL;
  char missing[200];
  for (size_t i = 0; i < s->comm_count; i++)
    if (!c || s->comms[i].nranks > c->nranks)
      c = &s->comms[i];
  if (!c || c->nranks < 1)
    return true;
  unsigned char *there = calloc((size_t)c->nranks, 1);
  bool done = there != NULL, some = false;
  size_t twice = SIZE_MAX;
  for (size_t i = 0; done && i < c->member_count; i++)
    if (c->members[i].as >= 0 && c->members[i].as < c->nranks) {
      if (there[c->members[i].as]++)
        twice = i;
    } else
      some = true; /* a member of unknown rank */
  if (done && twice != SIZE_MAX)
    done = tagc_sum_complain(s, "rank %d of %d has more than one trace, and is counted as often: %s and %s",
                             c->members[twice].as, c->nranks, s->ranks[c->members[twice - 1].rank].path,
                             s->ranks[c->members[twice].rank].path);
  size_t lacking = 0;
  for (int i = 0; done && i < c->nranks; i++)
    lacking += (there[i] = !there[i]);
  if (done && lacking && !some) {
    list_ranks(missing, sizeof missing, there, c->nranks);
    done = tagc_sum_complain(s, "no trace of %s %s of %d: sums are of the other%s", lacking > 1 ? "ranks" : "rank",
                             missing, c->nranks, c->nranks - (int)lacking > 1 ? "s" : "");
  }
  free(there);
  return done;
}

/* Reports the first two processes that differ in a text that should be equal. */
static bool complain_of_texts(struct tagc_summary *s, size_t offset, const char *what) {
  for (size_t i = 1; i < s->rank_count; i++) {
    const char *a = *(char *const *)((const char *)&s->ranks[0] + offset),
               *b = *(char *const *)((const char *)&s->ranks[i] + offset);
    if (*a && *b && strcmp(a, b) != 0)
      return tagc_sum_complain(s, "ranks differ in %s: %s on rank %d, %s on rank %d", what, a, s->ranks[0].number, b,
                               s->ranks[i].number);
  }
  return true;
}

static bool complain_of_nccl(struct tagc_summary *s) {
  for (size_t i = 1; i < s->rank_count; i++) {
    uint32_t a = s->ranks[0].nccl_version, b = s->ranks[i].nccl_version;
    if (a && b && a != b)
      return tagc_sum_complain(s, "ranks differ in the version of NCCL: %" PRIu32 " on rank %d, %" PRIu32 " on rank %d",
                               a, s->ranks[0].number, b, s->ranks[i].number);
  }
  return true;
}

/* How much later than the first rank a rank began their first common step, by the clocks of their hosts. */
static double later_ns(const struct tagc_sum_rank *first, const struct tagc_sum_rank *rank) {
  for (size_t i = 0, j = 0; i < first->step_count && j < rank->step_count;) {
    const struct tagc_sum_step *a = &first->steps[i], *b = &rank->steps[j];
    if (a->lock == b->lock && a->cycle == b->cycle)
      return (double)b->began_ns - (double)a->began_ns + (double)rank->clock_ns - (double)first->clock_ns;
    if (a->lock < b->lock || (a->lock == b->lock && a->cycle < b->cycle))
      i++;
    else
      j++;
  }
  return 0;
}

/* Steps are matched by number, and times use a rank's own clock: clocks matter only for views across hosts. */
static bool complain_of_clocks(struct tagc_summary *s) {
  for (size_t i = 1; i < s->rank_count; i++) {
    double seconds = later_ns(&s->ranks[0], &s->ranks[i]) / 1e9;
    if (s->ranks[i].host_index == i && (seconds > 1 || seconds < -1))
      return tagc_sum_complain(s, "the clocks of hosts %s and %s differ by %.1f s: timelines show it, no sum does",
                               s->ranks[0].host, s->ranks[i].host, seconds < 0 ? -seconds : seconds);
  }
  return true;
}

const char *tagc_sum_unseen(const struct tagc_summary *s, const struct tagc_sum_comm *c) {
  if (c->unknown)
    return "calls of some functions of its NCCL went past the library (its log names them)";
  for (size_t i = 0; i < c->line_count; i++)
    if (tagc_sum_is(s, TAGC_TRACE_FUNCTIONS, c->lines[i].function, "ncclDevCommCreate"))
      return "kernels of the program send on it, too (ncclDevCommCreate)";
  return NULL;
}

static bool complain_of_unseen(struct tagc_summary *s) {
  size_t unseen = 0;
  const char *why = NULL;
  for (size_t i = 0; i < s->comm_count; i++) {
    const char *one = tagc_sum_unseen(s, &s->comms[i]);
    why = why ? why : one;
    unseen += one != NULL;
  }
  return !unseen || tagc_sum_complain(s, "%zu of %zu communicators not fully seen: %s", unseen, s->comm_count, why);
}

static bool complain_of_job(struct tagc_summary *s) {
  return complain_of_missing(s) &&
         complain_of_texts(s, offsetof(struct tagc_sum_rank, version), "the version of the library") &&
         complain_of_nccl(s) && complain_of_unseen(s) && complain_of_clocks(s);
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

static bool read_file(struct tagc_summary *s, struct tagc_part *parts, size_t *count, const char *path,
                      const struct tagc_placement *placement) {
  char why[TAGC_TRACE_WHY];
  struct tagc_trace_file *file = tagc_trace_open(path, why);
  if (!file)
    return tagc_sum_complain(s, "%s", why);
  struct tagc_part *part = &parts[*count];
  part->rank.path = strdup(path);
  bool done = part->rank.path && tagc_part_load(part, file, &s->names, placement) && note_damage(s, part);
  tagc_trace_close(file);
  if (done && !part->rank.health.records)
    tagc_part_free(part);
  else
    ++*count;
  return done;
}

struct tagc_summary *tagc_sum_read(char *const *paths, size_t count) {
  struct tagc_summary *s = calloc(1, sizeof *s);
  struct tagc_part *parts = calloc(count + 1, sizeof *parts);
  struct tagc_placement *placement = tagc_placement_read(paths, count);
  size_t read = 0;
  bool done = s && parts && placement;
  for (size_t i = 0; done && i < count; i++)
    done = read_file(s, parts, &read, paths[i], placement);
  tagc_placement_free(placement);
  if (done)
    done = tagc_parts_merge(s, parts, read) && complain_of_job(s);
  else
    for (size_t i = 0; parts && i < read; i++)
      tagc_part_free(&parts[i]);
  free(parts);
  if (done)
    return s;
  tagc_sum_free(s);
  return NULL;
}

/* -- the end ------------------------------------------------------------------------------------------------------- */

void tagc_sum_slot_free(struct tagc_sum_slot *slot) {
  for (size_t i = 0; i < slot->choice_count; i++)
    free(slot->choices[i].codec);
  free(slot->choices);
  free(slot->name);
  free(slot->codec);
  free(slot->points);
}

void tagc_sum_comm_free(struct tagc_sum_comm *c) {
  for (size_t i = 0; i < c->slot_count; i++)
    tagc_sum_slot_free(&c->slots[i]);
  for (size_t i = 0; i < c->allgather_count; i++)
    tagc_sum_slot_free(&c->allgathers[i]);
  for (size_t i = 0; i < c->vote_count; i++)
    free(c->votes[i].why);
  free(c->slots);
  free(c->allgathers);
  free(c->votes);
  free(c->members);
  free(c->lines);
  free(c->groups);
  free(c->layers);
  free(c->or_layers);
  *c = (struct tagc_sum_comm){0};
}

void tagc_sum_rank_free(struct tagc_sum_rank *r) {
  free(r->path);
  free(r->host);
  free(r->program);
  free(r->version);
  free(r->options);
  free(r->steps);
  *r = (struct tagc_sum_rank){0};
}

void tagc_sum_free(struct tagc_summary *s) {
  if (!s)
    return;
  for (size_t i = 0; i < s->rank_count; i++)
    tagc_sum_rank_free(&s->ranks[i]);
  for (size_t i = 0; i < s->comm_count; i++)
    tagc_sum_comm_free(&s->comms[i]);
  for (int table = 0; table <= TAGC_TRACE_OPS; table++)
    for (int code = 0; code < 256; code++)
      free(s->names.text[table][code]);
  for (size_t i = 0; i < s->problem_count; i++)
    free(s->problems[i]);
  free(s->ranks);
  free(s->comms);
  free(s->problems);
  free(s);
}
