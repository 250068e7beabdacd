/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-report for programs. man/tagc-report.1 lists all members and their units: keep it equal.
 */
#include <inttypes.h>
#include <string.h>

#include "env/program/json.h"
#include "interpose/tagc-report/judge/codecs.h"
#include "interpose/tagc-report/judge/steps.h"
#include "interpose/tagc-report/show/report.h"

static const char *const side_words[TAGC_SUM_SIDES] = {"neither", "plain", "compressed"};

/* The name of a code; null: it has none. */
static void put_name(struct tagc_json *j, const char *name, const struct tagc_summary *s, enum tagc_trace_table table,
                     uint16_t code) {
  tagc_json_text_or_null(j, name, tagc_sum_find_name(s, table, code));
}

/* A number that is never 0; -1: unknown. */
static void put_known(struct tagc_json *j, const char *name, int64_t number) {
  tagc_json_number(j, name, number ? number : -1);
}

static void put_sent(struct tagc_json *j, const char *name, const struct tagc_sum_sent *sent) {
  tagc_json_open(j, name, '{');
  tagc_json_count(j, "inside", sent->inside);
  tagc_json_count(j, "between", sent->between);
  tagc_json_close(j, '}');
}

static void put_json_calls(struct tagc_json *j, const char *name, const struct tagc_sum_calls *c) {
  tagc_json_open(j, name, '{');
  tagc_json_count(j, "calls", c->calls);
  tagc_json_count(j, "compressed", c->compressed);
  tagc_json_count(j, "failed", c->failed);
  tagc_json_count(j, "raw_bytes", c->raw_bytes);
  put_sent(j, "sent", &c->sent);
  put_sent(j, "plain", &c->plain);
  tagc_json_count(j, "host_ns", c->host_ns);
  tagc_json_count(j, "wire_calls", c->wire_calls);
  tagc_json_count(j, "wire_ns", c->wire_ns);
  tagc_json_count(j, "encode_ns", c->encode_ns);
  tagc_json_count(j, "decode_ns", c->decode_ns);
  tagc_json_count(j, "hidden_ns", c->hidden_ns);
  tagc_json_count(j, "packed_wire_calls", c->packed_wire_calls);
  tagc_json_count(j, "packed_wire_ns", c->packed_wire_ns);
  tagc_json_close(j, '}');
}

static void put_health(struct tagc_json *j, const struct tagc_trace_health *h) {
  char version[16];
  snprintf(version, sizeof version, "%u.%u", h->major, h->minor);
  tagc_json_open(j, "file", '{');
  tagc_json_text(j, "format", version);
  tagc_json_count(j, "bytes", h->bytes);
  tagc_json_count(j, "records", h->records);
  tagc_json_count(j, "damaged_chunks", h->damaged_chunks);
  tagc_json_count(j, "skipped_bytes", h->skipped_bytes);
  tagc_json_count(j, "unknown_records", h->unknown_records);
  tagc_json_count(j, "refused_records", h->refused_records);
  tagc_json_count(j, "dropped_records", h->dropped);
  tagc_json_truth(j, "cut", h->cut);
  tagc_json_truth(j, "ended", h->ended);
  tagc_json_truth(j, "bounded", h->bounded);
  tagc_json_close(j, '}');
}

/* `number`: as for --steps; 0: none. */
static void put_step(struct tagc_json *j, const struct tagc_sum_step *s, size_t number) {
  tagc_json_number(j, "number", number ? (int64_t)number : -1);
  tagc_json_count(j, "lock", s->lock);
  tagc_json_count(j, "cycle", s->cycle);
  tagc_json_count(j, "began_ns", s->began_ns);
  tagc_json_count(j, "ns", s->ns);
  tagc_json_text(j, "side", side_words[s->side]);
  tagc_json_truth(j, "whole", s->whole);
  tagc_json_count(j, "calls", s->calls);
  tagc_json_count(j, "raw_bytes", s->raw_bytes);
  put_sent(j, "sent", &s->sent);
  put_sent(j, "plain", &s->plain);
  tagc_json_count(j, "host_ns", s->host_ns);
  tagc_json_count(j, "wire_ns", s->wire_ns);
}

static void put_option(void *j, const char *name, const char *value) { tagc_json_text(j, name, value); }

static void put_json_rank(struct tagc_json *j, const struct tagc_summary *s, const struct tagc_sum_rank *r) {
  tagc_json_number(j, "rank", r->number);
  tagc_json_text(j, "path", r->path);
  tagc_json_text_or_null(j, "host", r->host);
  put_known(j, "pid", r->pid);
  tagc_json_text_or_null(j, "program", r->program);
  tagc_json_text_or_null(j, "version", r->version);
  put_known(j, "nccl_version", r->nccl_version);
  tagc_json_open(j, "options", '{');
  tagc_report_options(r, put_option, j);
  tagc_json_close(j, '}');
  put_known(j, "clock_ns", r->clock_ns);
  put_known(j, "first_ns", (int64_t)r->first_ns);
  put_known(j, "last_ns", (int64_t)r->last_ns);
  tagc_json_truth(j, "blocking", r->blocking);
  put_health(j, &r->health);
  put_json_calls(j, "calls", &r->calls);
  for (size_t i = tagc_json_list(j, "steps"); tagc_json_item(j, i, r->step_count); i++)
    put_step(j, &r->steps[i], tagc_step_number(s, r->steps[i].lock, r->steps[i].cycle));
}

static void put_lines(struct tagc_json *j, const struct tagc_summary *s, const struct tagc_sum_comm *c) {
  for (size_t i = tagc_json_list(j, "lines"); tagc_json_item(j, i, c->line_count); i++) {
    const struct tagc_sum_line *l = &c->lines[i];
    put_name(j, "function", s, TAGC_TRACE_FUNCTIONS, l->function);
    put_name(j, "type", s, TAGC_TRACE_TYPES, l->type);
    put_name(j, "op", s, TAGC_TRACE_OPS, l->op);
    tagc_json_number(j, "size_class", l->size_class);
    tagc_json_count(j, "least_count", l->least_count);
    tagc_json_count(j, "most_count", l->most_count);
    tagc_json_real(j, "per_step", l->per_step);
    put_json_calls(j, "all", &l->calls);
    put_json_calls(j, "in_whole_steps", &l->whole);
  }
}

static void put_choices(struct tagc_json *j, const struct tagc_summary *s, const struct tagc_sum_slot *slot) {
  for (size_t i = tagc_json_list(j, "choices"); tagc_json_item(j, i, slot->choice_count); i++) {
    tagc_json_count(j, "cycle", slot->choices[i].cycle);
    tagc_json_text_or_null(j, "codec", slot->choices[i].codec);
    put_name(j, "reason", s, TAGC_TRACE_REASONS, slot->choices[i].reason);
    put_json_calls(j, "calls", &slot->choices[i].calls);
  }
}

static void put_samples(struct tagc_json *j, const struct tagc_sum_slot *slot) {
  for (size_t i = tagc_json_list(j, "samples"); tagc_json_item(j, i, slot->point_count); i++) {
    tagc_json_count(j, "cycle", slot->points[i].cycle);
    tagc_json_real(j, "error", slot->points[i].error);
    tagc_json_real(j, "residual", slot->points[i].residual);
    tagc_json_real(j, "gradient", slot->points[i].gradient);
  }
}

/* Writes the common members of slots and all-gathers. */
static void put_common(struct tagc_json *j, const struct tagc_summary *s, const struct tagc_sum_slot *slot) {
  tagc_json_text_or_null(j, "name", slot->name);
  tagc_json_text_or_null(j, "kind", slot->parts_known ? tagc_sum_kind(slot->kind) : NULL);
  tagc_json_text_or_null(j, "codec", slot->codec);
  tagc_json_count(j, "unit", slot->unit);
  tagc_json_count(j, "pass", slot->pass);
  tagc_json_count(j, "count", slot->count);
  put_name(j, "type", s, TAGC_TRACE_TYPES, slot->type);
  tagc_json_truth(j, "voted", slot->voted);
  put_name(j, "reason", s, TAGC_TRACE_REASONS, slot->reason);
  put_choices(j, s, slot);
  put_json_calls(j, "calls", &slot->calls);
  put_samples(j, slot);
}

static void put_slot(struct tagc_json *j, const struct tagc_summary *s, const struct tagc_sum_slot *slot) {
  tagc_json_count(j, "lock", slot->lock);
  tagc_json_count(j, "slot", slot->slot);
  tagc_json_text(j, "function", slot->all_reduce ? "ncclAllReduce" : "ncclReduceScatter");
  tagc_json_count(j, "selected", slot->selected);
  tagc_json_open(j, "elements", '{');
  for (int i = 0; slot->parts_known && i < TAGC_TRACE_PARTS; i++)
    tagc_json_count(j, tagc_sum_kind((enum tagc_trace_part)i), slot->part[i]);
  tagc_json_close(j, '}');
  put_common(j, s, slot);
  put_json_calls(j, "gathered", &slot->gathered);
}

static void put_allgather(struct tagc_json *j, const struct tagc_summary *s, const struct tagc_sum_slot *allgather) {
  tagc_json_count(j, "lock", allgather->lock);
  tagc_json_count(j, "allgather", allgather->slot);
  tagc_json_number(j, "slot", allgather->of == UINT32_MAX ? -1 : (int64_t)allgather->of);
  tagc_json_truth(j, "again", allgather->again);
  put_common(j, s, allgather);
}

static void put_json_votes(struct tagc_json *j, const struct tagc_sum_comm *c) {
  for (size_t i = tagc_json_list(j, "votes"); tagc_json_item(j, i, c->vote_count); i++) {
    tagc_json_count(j, "lock", c->votes[i].lock);
    tagc_json_count(j, "vote", c->votes[i].vote);
    tagc_json_count(j, "cycle", c->votes[i].cycle);
    tagc_json_count(j, "at_ns", c->votes[i].at_ns);
    tagc_json_text_or_null(j, "why", c->votes[i].why);
  }
}

static void put_members(struct tagc_json *j, const struct tagc_summary *s, const struct tagc_sum_comm *c) {
  for (size_t i = tagc_json_list(j, "members"); tagc_json_item(j, i, c->member_count); i++) {
    const struct tagc_sum_member *m = &c->members[i];
    tagc_json_number(j, "rank", m->as);
    tagc_json_number(j, "job_rank", s->ranks[m->rank].number);
    tagc_json_count(j, "id", m->id);
    put_known(j, "born_ns", (int64_t)m->born_ns);
    put_name(j, "born_by", s, TAGC_TRACE_FUNCTIONS, m->born_ns ? m->born_by : UINT16_MAX);
    put_known(j, "ended_ns", (int64_t)m->ended_ns);
    put_name(j, "ended_by", s, TAGC_TRACE_FUNCTIONS, m->ended_ns ? m->ended_by : UINT16_MAX);
  }
}

static void put_json_reasons(struct tagc_json *j, const struct tagc_summary *s, const char *name,
                             const uint64_t reasons[256]) {
  tagc_json_open(j, name, '[');
  for (unsigned i = 0; i < 256; i++)
    if (reasons[i]) {
      tagc_json_open(j, NULL, '{');
      put_name(j, "reason", s, TAGC_TRACE_REASONS, (uint16_t)i);
      tagc_json_count(j, "calls", reasons[i]);
      tagc_json_close(j, '}');
    }
  tagc_json_close(j, ']');
}

static void put_json_comm(struct tagc_json *j, const struct tagc_summary *s, const struct tagc_sum_comm *c) {
  char identity[24];
  snprintf(identity, sizeof identity, "%016" PRIx64, c->identity);
  tagc_json_text_or_null(j, "identity", c->identity ? identity : NULL);
  tagc_json_number(j, "number", c->number == UINT32_MAX ? -1 : (int64_t)c->number);
  tagc_json_truth(j, "main", s->has_main && c == s->comms);
  tagc_json_text(j, "role", tagc_role_words(c->role));
  tagc_json_text_or_null(j, "role_grounds", c->role_grounds);
  tagc_json_number(j, "ranks", c->nranks);
  put_known(j, "hosts", c->hosts);
  tagc_json_text_or_null(j, "not_fully_seen", tagc_sum_unseen(s, c));
  const bool known = tagc_sum_layers_known(c);
  tagc_json_text_or_null(j, "layers", known ? c->layers : "");
  tagc_json_text_or_null(j, "or_layers", known ? c->or_layers : "");
  tagc_json_count(j, "confidence", c->confidence);
  tagc_json_truth(j, "gradients", c->gradients);
  tagc_json_count(j, "whole_steps", c->whole_steps);
  put_json_calls(j, "calls", &c->calls);
  put_json_reasons(j, s, "reasons", c->reasons);
  put_json_reasons(j, s, "gather_reasons", c->allgather_reasons);
  put_json_reasons(j, s, "broadcast_reasons", c->broadcast_reasons);
  put_members(j, s, c);
  put_lines(j, s, c);
  for (size_t i = tagc_json_list(j, "slots"); tagc_json_item(j, i, c->slot_count); i++)
    put_slot(j, s, &c->slots[i]);
  for (size_t i = tagc_json_list(j, "allgathers"); tagc_json_item(j, i, c->allgather_count); i++)
    put_allgather(j, s, &c->allgathers[i]);
  put_json_votes(j, c);
}

static void put_json_codecs(struct tagc_json *j, const struct tagc_summary *s) {
  struct tagc_codec_sum sums[TAGC_CODEC_SUMS];
  const size_t count = tagc_codecs_sum(s, sums);
  for (size_t i = tagc_json_list(j, "codecs"); tagc_json_item(j, i, count); i++) {
    tagc_json_text(j, "function", sums[i].function);
    tagc_json_text(j, "codec", sums[i].codec);
    tagc_json_count(j, "slots", sums[i].slots);
    put_json_calls(j, "calls", &sums[i].calls);
    tagc_json_real(j, "hidden_share", tagc_hidden_share(&sums[i].calls));
  }
}

static void put_json_ab(struct tagc_json *j, const struct tagc_ab_result *ab) {
  tagc_json_open(j, "sides", '{');
  tagc_json_text(j, "verdict", tagc_ab_outcome_name(ab->figures.outcome));
  tagc_json_text(j, "words", ab->words);
  tagc_json_count(j, "pairs", ab->figures.pairs);
  tagc_json_real(j, "difference_ms", ab->figures.difference_ms);
  tagc_json_real(j, "low_ms", ab->figures.low_ms);
  tagc_json_real(j, "high_ms", ab->figures.high_ms);
  tagc_json_real(j, "speed", ab->figures.speed);
  tagc_json_real(j, "low_speed", ab->figures.low_speed);
  tagc_json_real(j, "high_speed", ab->figures.high_speed);
  tagc_json_truth(j, "matters", tagc_ab_matters(ab));
  tagc_json_real(j, "coding_ms", ab->coding_ms);
  tagc_json_real(j, "saved_ms", ab->saved_ms);
  for (int i = TAGC_SUM_PLAIN; i < TAGC_SUM_SIDES; i++) {
    tagc_json_open(j, side_words[i], '{');
    tagc_json_count(j, "steps", ab->figures.steps[i]);
    tagc_json_real(j, "mean_ms", ab->figures.mean_ms[i]);
    tagc_json_real(j, "deviation_ms", ab->figures.deviation_ms[i]);
    put_sent(j, "sent", &ab->sent[i]);
    tagc_json_close(j, '}');
  }
  tagc_json_close(j, '}');
}

static void put_stragglers(struct tagc_json *j, const struct tagc_report *r) {
  const struct tagc_stragglers *p = &r->stragglers;
  const struct tagc_sum_rank *ranks = r->summary->ranks;
  tagc_json_open(j, "pace", '{');
  tagc_json_text(j, "words", p->words);
  tagc_json_number(j, "slowest", p->slowest < r->summary->rank_count ? ranks[p->slowest].number : -1);
  tagc_json_real(j, "behind_ms", p->behind_ms);
  tagc_json_real(j, "median_ms", p->median_ms);
  tagc_json_real(j, "p95_ms", p->p95_ms);
  tagc_json_truth(j, "exposed_known", p->exposed_known);
  tagc_json_truth(j, "wire_exact", p->wire_exact);
  const size_t count = p->ranks ? r->summary->rank_count : 0;
  for (size_t i = tagc_json_list(j, "ranks"); tagc_json_item(j, i, count); i++) {
    tagc_json_number(j, "rank", ranks[i].number);
    tagc_json_count(j, "steps", p->ranks[i].steps);
    tagc_json_real(j, "step_ms", p->ranks[i].step_ms);
    tagc_json_real(j, "in_calls_ms", p->ranks[i].in_calls_ms);
    tagc_json_real(j, "wire_ms", p->ranks[i].wire_ms);
    tagc_json_truth(j, "wire_exact", p->ranks[i].wire_exact);
    tagc_json_truth(j, "wire_least", p->ranks[i].wire_least);
    tagc_json_real(j, "network_ms", p->ranks[i].network_ms);
    tagc_json_real(j, "network_bytes", p->ranks[i].network_bytes);
    tagc_json_real(j, "exposed_ms", p->ranks[i].exposed_ms);
    tagc_json_real(j, "hidden_ms", p->ranks[i].hidden_ms);
    tagc_json_real(j, "outside_ms", p->ranks[i].outside_ms);
    tagc_json_real(j, "last_share", p->ranks[i].slowest_share);
  }
  tagc_json_close(j, '}');
}

static void put_json_checks(struct tagc_json *j, const struct tagc_report *r) {
  for (size_t i = tagc_json_list(j, "volume"); tagc_json_item(j, i, r->check_count); i++) {
    const struct tagc_volume_check *c = &r->checks[i];
    tagc_json_count(j, "communicator", c->comm);
    tagc_json_text(j, "what", c->what);
    tagc_json_text(j, "formula", c->formula);
    tagc_json_real(j, "expected", c->expected);
    tagc_json_real(j, "measured", c->measured);
    tagc_json_real(j, "deviation", c->deviation);
    tagc_json_real(j, "sent", c->sent);
    tagc_json_text_or_null(j, "words", c->words);
  }
}

/* -- the characterisation ------------------------------------------------------------------------------------------ */

/* Sums over all ranks become means: of a rank in a whole step, or in the run. */
static void put_traits_means(struct tagc_json *j, const struct tagc_traits *t, double calls, double raw, double plain,
                             double sent) {
  tagc_json_real(j, "calls", calls / t->each);
  tagc_json_real(j, "calls_share", calls / t->all.calls);
  tagc_json_real(j, "raw_bytes", raw / t->each);
  tagc_json_real(j, "plain_bytes", plain / t->each);
  tagc_json_real(j, "plain_share", plain / t->all.plain_bytes);
  tagc_json_real(j, "sent_bytes", sent / t->each);
}

static void put_traits_row(struct tagc_json *j, const struct tagc_traits *t, const struct tagc_traits_row *row) {
  tagc_json_real(j, "least_bytes", row->least);
  tagc_json_real(j, "mean_bytes", tagc_traits_mean(row));
  tagc_json_real(j, "most_bytes", row->most);
  put_traits_means(j, t, row->calls, row->raw_bytes, row->plain_bytes, row->sent_bytes);
}

static void put_traits_share(struct tagc_json *j, const struct tagc_traits *t, const struct tagc_traits_share *share) {
  tagc_json_count(j, "communicators", share->comms);
  tagc_json_number(j, "least_ranks", share->least_ranks);
  tagc_json_number(j, "most_ranks", share->most_ranks);
  put_traits_means(j, t, share->calls, share->raw_bytes, share->plain_bytes, share->sent_bytes);
}

/* Plain and compressed calls are items of their own. */
static void put_traits_times(struct tagc_json *j, const struct tagc_summary *s, const struct tagc_traits *t) {
  tagc_json_open(j, "times", '[');
  for (size_t i = 0; i < 2 * t->times.count; i++) {
    const struct tagc_traits_row *row = &t->times.rows[i / 2];
    const bool packed = i % 2;
    const struct tagc_call_times *times = packed ? &row->packed : &row->plain;
    if (!times->calls || !(times->ns > 0))
      continue;
    tagc_json_open(j, NULL, '{');
    put_name(j, "function", s, TAGC_TRACE_FUNCTIONS, row->function);
    tagc_json_number(j, "ranks", row->nranks);
    tagc_json_number(j, "size_class", row->size_class);
    tagc_json_truth(j, "compressed", packed);
    tagc_json_truth(j, "by_thread", row->by_thread && !packed);
    tagc_json_truth(j, "small", tagc_traits_small(times->bytes / (double)times->calls));
    tagc_json_count(j, "calls", times->calls);
    tagc_json_real(j, "mean_bytes", times->bytes / (double)times->calls);
    tagc_json_real(j, "mean_ns", times->ns / (double)times->calls);
    tagc_json_real(j, "algbw", times->bytes / times->ns);
    tagc_json_real(j, "busbw", times->bytes / times->ns * tagc_busbw_factor(s, row->function, row->nranks));
    tagc_json_close(j, '}');
  }
  tagc_json_close(j, ']');
}

static void put_traits_groups(struct tagc_json *j, const struct tagc_traits *t) {
  for (size_t i = tagc_json_list(j, "groups"); tagc_json_item(j, i, t->group_count); i++) {
    const struct tagc_traits_group *group = &t->groups[i];
    const double groups = (double)group->sum.all.groups;
    tagc_json_text(j, "role", tagc_role_words(group->role));
    tagc_json_number(j, "ranks", group->nranks);
    tagc_json_count(j, "sends", group->sum.sends);
    tagc_json_count(j, "receives", group->sum.receives);
    tagc_json_number(j, "size_class", group->sum.size_class);
    tagc_json_count(j, "groups", group->sum.all.groups);
    tagc_json_real(j, "mean_bytes", (double)group->sum.all.bytes / groups);
    tagc_json_real(j, "mean_ns", (double)group->sum.all.ns / groups);
    tagc_json_count(j, "least_ns", group->sum.all.least_ns);
  }
  tagc_json_real(j, "untimed", t->untimed);
}

/* The tables of --characterise. */
static void put_traits(struct tagc_json *j, const struct tagc_summary *s, const struct tagc_traits *t) {
  double share;
  tagc_json_open(j, "characterisation", '{');
  tagc_json_truth(j, "of_steps", t->steps);
  tagc_json_count(j, "outside", t->outside);
  tagc_json_open(j, "all", '{');
  put_traits_share(j, t, &t->all);
  tagc_json_close(j, '}');
  tagc_json_open(j, "roles", '[');
  for (int role = 0; role < TAGC_ROLES; role++)
    if (t->of[role].calls > 0) {
      tagc_json_open(j, NULL, '{');
      tagc_json_text(j, "role", tagc_role_words((enum tagc_sum_role)role));
      put_traits_share(j, t, &t->of[role]);
      tagc_json_close(j, '}');
    }
  tagc_json_close(j, ']');
  for (size_t i = tagc_json_list(j, "calls"); tagc_json_item(j, i, t->calls.count); i++) {
    const struct tagc_traits_row *row = &t->calls.rows[i];
    tagc_json_text(j, "role", tagc_role_words(row->role));
    tagc_json_number(j, "ranks", row->nranks);
    put_name(j, "function", s, TAGC_TRACE_FUNCTIONS, row->function);
    put_traits_row(j, t, row);
  }
  for (size_t i = tagc_json_list(j, "sizes"); tagc_json_item(j, i, t->sizes.count); i++) {
    tagc_json_number(j, "size_class", t->sizes.rows[i].size_class);
    tagc_json_text(j, "role", tagc_role_words(tagc_traits_main_role(t, &t->sizes.rows[i], &share)));
    tagc_json_real(j, "role_share", share);
    put_traits_row(j, t, &t->sizes.rows[i]);
  }
  put_traits_times(j, s, t);
  put_traits_groups(j, t);
  tagc_json_close(j, '}');
}

void tagc_report_json(const struct tagc_report *r, FILE *to) {
  const struct tagc_summary *s = r->summary;
  struct tagc_json j = {.out = to};
  tagc_json_open(&j, NULL, '{');
  tagc_json_text(&j, "tagc_report", PACKAGE_VERSION);
  tagc_json_open(&j, "problems", '[');
  for (size_t i = 0; i < s->problem_count; i++)
    tagc_json_text(&j, NULL, s->problems[i]);
  tagc_json_close(&j, ']');
  for (size_t i = tagc_json_list(&j, "ranks"); tagc_json_item(&j, i, s->rank_count); i++)
    put_json_rank(&j, s, &s->ranks[i]);
  for (size_t i = tagc_json_list(&j, "communicators"); tagc_json_item(&j, i, s->comm_count); i++)
    put_json_comm(&j, s, &s->comms[i]);
  put_json_codecs(&j, s);
  put_json_ab(&j, &r->ab);
  put_stragglers(&j, r);
  put_json_checks(&j, r);
  put_traits(&j, s, &r->traits);
  tagc_json_open(&j, "advice", '[');
  for (size_t i = 0; i < r->advice.count; i++)
    tagc_json_text(&j, NULL, r->advice.text[i]);
  tagc_json_close(&j, ']');
  tagc_json_close(&j, '}');
  putc('\n', to);
}
