/* SPDX-License-Identifier: BSD-3-Clause
 * The roles of communicators, by the pattern of their calls (volume.h). A wrong name is worse than none: ambiguous
 * patterns are "unknown", and the grounds list the options. The patterns come from these sources:
 *
 *   PyTorch      FSDP1, FSDP2 (torch/distributed/fsdp: gathers a unit's parameters before its forward and its backward
 *                pass, reduce-scatters its gradient; HSDP: all-reduces the shards of gradients between replicas), DDP
 *                (reducer.cpp: buckets of gradients, all-reduced)
 *   DeepSpeed    runtime/zero/stage3.py; stage_1_and_2.py: average_tensor() all-reduces buckets of gradients, or
 *                reduces each part to its owner, and all_gather_dp_groups() gathers parameters once after the step:
 *                no reduce-scatter
 *   Megatron     core/distributed/param_and_grad_buffer.py (reduce-scatters of buckets, a gather each);
 *                core/tensor_parallel: layers.py (all-reduces of activations; with sequence parallel gathers and
 *                reduce-scatters, the input gathered again in the backward pass), cross_entropy.py (a maximum and two
 *                sums over the divided vocabulary); core/pipeline_parallel/p2p_communication.py (sends to both
 *                neighbours); core/transformer/moe/token_dispatcher.py
 *   Activations  keep one count in a step, and one type for gathers and reductions; a model's units differ in size.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/tagc-report/judge/patterns.h"
#include "interpose/tagc-report/judge/volume.h"
#include "interpose/tagc-report/read/format.h"

/* Calls of one count per step: gradients have at most FEW, activations at least MANY. */
enum { FEW = 3, MANY = 8 };
static const double ALMOST = 0.02; /* padding */
static const double MOST = 0.9;    /* of the bytes of a communicator */

__attribute__((format(printf, 3, 4))) static void set_role(struct tagc_sum_comm *comm, enum tagc_sum_role role,
                                                           const char *why, ...) {
  va_list args;
  va_start(args, why);
  vsnprintf(comm->role_text, sizeof comm->role_text, why, args);
  va_end(args);
  comm->role = role;
  comm->role_grounds = comm->role_text;
}

static bool is_near(double a, double b) { return fabs(a - b) <= ALMOST * b; }

static double bytes_of_patterns(const struct tagc_patterns *p) {
  double bytes = 0;
  for (int kind = 0; kind < TAGC_PATTERNS; kind++)
    bytes += p->of[kind].raw_bytes;
  return bytes;
}

static bool has_one_count(const struct tagc_pattern *p) { return p->lines == 1 && p->least_count == p->most_count; }

/* -- reduce-scatters ----------------------------------------------------------------------------------------------- */

/* How often a step gathers each reduced parameter, here and on communicators beside. */
static double allgathers_of(const struct tagc_summary *summary, size_t at, const struct tagc_patterns *p,
                            struct tagc_allgathers *allgathers) {
  const struct tagc_sum_comm *comm = &summary->comms[at];
  const double slots = tagc_slots_parameters(comm),
               reduced = slots > 0 ? slots : p->of[TAGC_PATTERN_REDUCE_SCATTER].elements;
  double gathered = p->of[TAGC_PATTERN_ALL_GATHER].elements * comm->nranks;
  tagc_allgathers_beside(summary, at, allgathers);
  gathered += allgathers->gathered;
  return reduced > 0 ? gathered / reduced : 0;
}

static bool has_several_slots(const struct tagc_sum_comm *comm) {
  const struct tagc_sum_slot *first = NULL;
  for (size_t i = 0; i < comm->slot_count; i++) {
    if (comm->slots[i].lock != comm->last_lock)
      continue;
    first = first ? first : &comm->slots[i];
    if (comm->slots[i].count != first->count)
      return true;
  }
  return false;
}

/* Slots with gradients, per the library, are no activations. ZeRO-3's buckets are not gathered as they are reduced. Two
 * facts identify them: different sizes, and parameters gathered twice (activations once, or one and a half times). */
static bool could_be_activations(const struct tagc_summary *summary, size_t at, const struct tagc_patterns *p,
                                 struct tagc_allgathers *beside) {
  const struct tagc_sum_comm *comm = &summary->comms[at];
  const struct tagc_pattern *reduced = &p->of[TAGC_PATTERN_REDUCE_SCATTER], *gathered = &p->of[TAGC_PATTERN_ALL_GATHER];
  if (comm->gradients || (gathered->main && gathered->main->type != reduced->main->type))
    return false;
  if (p->steps && has_several_slots(comm)) {
    const double allgathers = allgathers_of(summary, at, p, beside);
    return allgathers < 1.7 || allgathers > 2 + ALMOST;
  }
  return !p->steps || reduced->calls > FEW;
}

/* Activations of sequence parallel: one count, gathered as often as reduced, or half as often again. */
static void judge_activations(struct tagc_sum_comm *comm, const struct tagc_patterns *p, bool other_gradients) {
  const struct tagc_pattern *r = &p->of[TAGC_PATTERN_REDUCE_SCATTER], *g = &p->of[TAGC_PATTERN_ALL_GATHER];
  const double ratio = g->main_calls / r->main_calls;
  const bool alike =
    g->main && has_one_count(r) && g->main->least_count == r->least_count && g->main->most_count == r->least_count;
  if (alike && r->main_calls >= FEW &&
      ((ratio > 1.25 && ratio < 1.75) || (ratio > 0.9 && ratio < 1.25 && (p->maxima || other_gradients))))
    set_role(comm, TAGC_ROLE_SEQUENCE,
             "%.0f reduce-scatters and %.0f gathers%s, all of %" PRIu64 " elements: activations%s", r->main_calls,
             g->main_calls, p->steps ? " a step" : "", r->least_count,
             p->maxima ? ", and maxima over a divided vocabulary" : "");
  else
    set_role(comm, TAGC_ROLE_UNKNOWN, "reduce-scatters that may be of gradients or of activations: %s",
             p->beside_steps ? "none is in a step"
             : alike         ? "all have one count, as gathers have"
                             : "no cycle of gradients was found");
}

static void judge_reduced(struct tagc_summary *summary, size_t at, const struct tagc_patterns *p, bool other_gradients,
                          struct tagc_allgathers *beside) {
  struct tagc_sum_comm *comm = &summary->comms[at];
  const double allgathers = allgathers_of(summary, at, p, beside);
  const char *where = beside->beside ? ", in part on another communicator" : "";
  if (could_be_activations(summary, at, p, beside))
    judge_activations(comm, p, other_gradients);
  else if (allgathers > 1 + ALMOST)
    set_role(comm, TAGC_ROLE_SHARDED,
             "gradients are reduce-scattered, and each parameter is gathered %.2f times a step%s", allgathers, where);
  else if (is_near(allgathers, 1))
    set_role(comm, TAGC_ROLE_OPTIMIZER,
             "gradients are reduce-scattered, and each parameter is gathered once a step%s (ZeRO-1, ZeRO-2, a "
             "distributed optimizer, or FSDP that keeps parameters after the forward pass)",
             where);
  else
    set_role(comm, TAGC_ROLE_UNKNOWN,
             allgathers > 0 ? "gradients are reduce-scattered, but only %.2f of the parameters are gathered"
                            : "gradients are reduce-scattered, but nothing (%.0f) is gathered here",
             allgathers);
}

/* -- point to point ------------------------------------------------------------------------------------------------ */

static void judge_messages(struct tagc_sum_comm *comm, const struct tagc_pattern *send) {
  const uint64_t *w = comm->sends, round = w[TAGC_WAY_ROUND_ON] + w[TAGC_WAY_ROUND_BACK];
  const bool on = w[TAGC_WAY_ON] + w[TAGC_WAY_ROUND_ON] > 0, back = w[TAGC_WAY_BACK] + w[TAGC_WAY_ROUND_BACK] > 0;
  const bool one_count = has_one_count(send);
  if (!on && !back && !w[TAGC_WAY_ACROSS])
    set_role(comm, TAGC_ROLE_UNKNOWN, "messages, but who sends to whom is not known");
  else if (w[TAGC_WAY_ACROSS] && !one_count && comm->nranks > 1)
    set_role(comm, TAGC_ROLE_EXPERT,
             "messages of changing sizes from each rank to the others: tokens on the way to experts");
  else if (w[TAGC_WAY_ACROSS])
    set_role(comm, TAGC_ROLE_UNKNOWN,
             "messages of one size between all ranks: experts, or attention that exchanges heads for tokens");
  else if (comm->nranks == 2 && !one_count)
    set_role(comm, TAGC_ROLE_UNKNOWN,
             "messages of changing sizes between two ranks: stages of a pipeline, experts, or keys and values");
  else if (comm->nranks == 2)
    set_role(comm, TAGC_ROLE_PIPELINE, "messages of one size between two neighbours");
  else if (round && on != back)
    set_role(comm, TAGC_ROLE_CONTEXT, "messages go round in one direction: keys and values of a divided context");
  else if (on != back && comm->member_count < (size_t)comm->nranks)
    set_role(comm, TAGC_ROLE_UNKNOWN,
             "messages go in one direction; whether they go round is not known, as traces of ranks are missing");
  else if (!one_count && round)
    set_role(comm, TAGC_ROLE_UNKNOWN,
             "messages of changing sizes, in both directions round: stages of a pipeline, or keys and values");
  else
    set_role(comm, TAGC_ROLE_PIPELINE, "messages go to neighbours alone, %s%s",
             on && back ? "in both directions" : "in one direction",
             round ? ", and from the last rank to the first: stages take turns" : "");
}

/* -- all-reduces --------------------------------------------------------------------------------------------------- */

/* Some of the summary's communicators. */
struct comms {
  size_t *list, count;
};

/* Those for which `holds` is true; none without memory. The caller frees list. */
static struct comms comms_that(const struct tagc_summary *summary, bool (*holds)(const struct tagc_sum_comm *)) {
  struct comms out = {.list = malloc((summary->comm_count + 1) * sizeof *out.list)};
  for (size_t i = 0; i < summary->comm_count && out.list; i++)
    if (holds(&summary->comms[i]))
      out.list[out.count++] = i;
  return out;
}

static bool reduces_gradients(const struct tagc_sum_comm *comm) {
  return comm->role == TAGC_ROLE_SHARDED || comm->role == TAGC_ROLE_OPTIMIZER;
}

/* A communicator whose shards of gradients have the count of these all-reduces, which join its replicas. */
static const struct tagc_sum_comm *shards_like(const struct tagc_summary *summary, const struct tagc_sum_comm *comm,
                                               const struct tagc_pattern *a, const struct comms *reducers) {
  for (size_t i = 0; i < reducers->count; i++) {
    const struct tagc_sum_comm *other = &summary->comms[reducers->list[i]];
    if (other == comm)
      continue;
    for (size_t k = 0; k < other->slot_count; k++)
      if (other->slots[k].lock == other->last_lock && a->main->least_count <= other->slots[k].count &&
          a->main->most_count >= other->slots[k].count)
        return other;
  }
  return NULL;
}

/* Gradients are all-reduced or reduced; parameters come back from their owners. (DDP broadcasts buffers.) */
static bool judge_owners(struct tagc_sum_comm *comm, const struct tagc_patterns *p) {
  const double reduced = p->of[TAGC_PATTERN_ALL_REDUCE].elements + p->of[TAGC_PATTERN_REDUCE].elements;
  const double gathered = p->of[TAGC_PATTERN_ALL_GATHER].elements * comm->nranks,
               told = p->of[TAGC_PATTERN_BROADCAST].elements;
  const double back = gathered + told, times = back > 0 ? round(reduced / back) : 0;
  if (p->of[TAGC_PATTERN_ALL_REDUCE].elements > p->of[TAGC_PATTERN_REDUCE].elements &&
      (!comm->gradients || told > gathered))
    return false;
  if (!p->steps || times < 1 || fabs(reduced / (back * times) - 1) > 2 * ALMOST)
    return false;
  set_role(comm, TAGC_ROLE_OPTIMIZER,
           "gradients are %s, and each parameter %s once a step: an optimizer in parts (DeepSpeed's ZeRO-1 and "
           "ZeRO-2 do so)",
           p->of[TAGC_PATTERN_REDUCE].elements > p->of[TAGC_PATTERN_ALL_REDUCE].elements ? "reduced to their owners"
                                                                                         : "all-reduced",
           gathered > told ? "gathered" : "sent by its owner");
  return true;
}

static void judge_all_reduces(struct tagc_summary *summary, struct tagc_sum_comm *comm, const struct tagc_patterns *p,
                              bool other_gradients, const struct comms *reducers) {
  const struct tagc_pattern *a = &p->of[TAGC_PATTERN_ALL_REDUCE];
  const bool repeated = p->steps && a->main->least_count == a->main->most_count && a->main_calls >= MANY &&
                        a->main_bytes > 0.8 * a->raw_bytes;
  const bool maxima = p->maxima && a->main->least_count % p->maxima_count == 0;
  const struct tagc_sum_comm *shards = shards_like(summary, comm, a, reducers);
  char count[32];
  tagc_format_count((double)a->main->least_count, count);
  if (shards)
    set_role(comm, TAGC_ROLE_DATA,
             "all-reduces of the counts that are the shards of another communicator: its replicas (HSDP)");
  else if (comm->gradients && !maxima)
    set_role(comm, TAGC_ROLE_DATA,
             "%.0f large all-reduce%s a step, which are evidently of gradients: those of replicas", a->calls,
             a->calls > 1.5 ? "s" : "");
  else if (repeated && (maxima || other_gradients))
    set_role(comm, TAGC_ROLE_TENSOR, "%.0f all-reduces a step of %s elements each%s", a->main_calls, count,
             maxima ? ", and maxima over a divided vocabulary" : ": activations, as gradients are reduced elsewhere");
  else if (repeated)
    set_role(comm, TAGC_ROLE_UNKNOWN,
             "%.0f all-reduces a step of %s elements each: activations (tensor parallel), or gradients of layers that "
             "are alike",
             a->main_calls, count);
  else if (maxima)
    set_role(comm, TAGC_ROLE_TENSOR, "maxima over a divided vocabulary beside all-reduces of %s elements", count);
  else
    set_role(comm, TAGC_ROLE_UNKNOWN, "large all-reduces of %s, but %s",
             has_one_count(a) ? "one size" : "several sizes",
             p->steps          ? "gradients and activations may look so"
             : p->beside_steps ? "none is in a step"
                               : "no steps are known");
}

/* -- all together -------------------------------------------------------------------------------------------------- */

static bool is_tensor(const struct tagc_sum_comm *comm) { return comm->role == TAGC_ROLE_TENSOR; }

static bool has_gradients(const struct tagc_sum_comm *comm) { return reduces_gradients(comm) || comm->gradients; }

/* Judges a communicator by itself. All-reduces come later: their role depends on other communicators. */
static bool judge_alone(struct tagc_summary *summary, size_t at, const struct tagc_patterns *p) {
  struct tagc_sum_comm *comm = &summary->comms[at];
  const double all = bytes_of_patterns(p),
               sent = p->of[TAGC_PATTERN_SEND].raw_bytes + p->of[TAGC_PATTERN_RECV].raw_bytes;
  const struct tagc_pattern *exchange = &p->of[TAGC_PATTERN_ALL_TO_ALL];
  if (comm->calls.calls == 0)
    set_role(comm, TAGC_ROLE_IDLE, "no calls");
  else if (comm->nranks == 1)
    set_role(comm, TAGC_ROLE_IDLE, "one rank: nothing is sent");
  else if (all <= 0)
    set_role(comm, p->calls > p->small_calls ? TAGC_ROLE_UNKNOWN : TAGC_ROLE_CONTROL,
             p->calls > p->small_calls ? "no large calls with floating-point numbers"
             : p->steps                ? "no call of %d bytes or more in a step"
                                       : "no call of %d bytes or more",
             TAGC_SMALL_CALL);
  else if (p->of[TAGC_PATTERN_REDUCE_SCATTER].raw_bytes > 0.05 * all)
    return false;
  else if (sent > MOST * all && p->of[TAGC_PATTERN_SEND].main)
    judge_messages(comm, &p->of[TAGC_PATTERN_SEND]);
  else if (exchange->raw_bytes > 0.5 * all)
    set_role(comm, has_one_count(exchange) ? TAGC_ROLE_UNKNOWN : TAGC_ROLE_EXPERT,
             has_one_count(exchange) ? "all-to-alls of one size: experts, or attention that exchanges heads for tokens"
                                     : "all-to-alls of changing sizes");
  else if (judge_owners(comm, p))
    return true;
  else if (p->of[TAGC_PATTERN_ALL_REDUCE].raw_bytes > 0.5 * all)
    return false;
  else
    set_role(comm, TAGC_ROLE_UNKNOWN, "none of the patterns that are known");
  return true;
}

/* A stage of a pipeline may lack logits, and a job without data parallelism gradients: a neighbour may help. */
static void learn_from_others(struct tagc_summary *summary, size_t at, const struct tagc_pattern *a,
                              const struct comms *tensor) {
  struct tagc_sum_comm *comm = &summary->comms[at];
  for (size_t i = 0; i < tensor->count && comm->role == TAGC_ROLE_UNKNOWN && a->main; i++) {
    const struct tagc_sum_comm *other = &summary->comms[tensor->list[i]];
    if (other->nranks != comm->nranks)
      continue;
    const struct tagc_patterns p = tagc_patterns_of(summary, other);
    const struct tagc_sum_line *main = p.of[TAGC_PATTERN_ALL_REDUCE].main;
    if (main && main->least_count == a->main->least_count && main->most_count == a->main->most_count &&
        main->type == a->main->type)
      set_role(comm, TAGC_ROLE_TENSOR,
               "all-reduces of %" PRIu64 " elements, as on another communicator for tensor parallel",
               main->least_count);
  }
}

/* `last`: the communicator marked before; SIZE_MAX: none. */
static void mark_allgathers(struct tagc_summary *summary, size_t at, struct tagc_allgathers *beside, size_t *last) {
  const struct tagc_sum_comm *comm = &summary->comms[at];
  const bool again = !tagc_allgathers_beside(summary, at, beside) && *last != SIZE_MAX;
  if (again && summary->comms[*last].role == comm->role)
    return;
  *last = at;
  for (size_t i = 0; i < beside->count; i++)
    if (beside->list[i] != at && tagc_comm_is_within(&summary->comms[beside->list[i]], comm))
      set_role(&summary->comms[beside->list[i]], comm->role,
               "gathers alone, of parameters whose gradients another communicator of these ranks "
               "reduces");
}

/* Judges all-reduces and reduce-scatters: first gradients, then roles that depend on these. */
static void judge_rest(struct tagc_summary *summary, struct tagc_allgathers *beside) {
  struct comms reducers = comms_that(summary, reduces_gradients);
  size_t gradients = 0;
  for (size_t i = 0; i < summary->comm_count; i++)
    gradients += has_gradients(&summary->comms[i]);
  for (int round = 0; round < 2; round++)
    for (size_t i = 0; i < summary->comm_count; i++) {
      struct tagc_sum_comm *comm = &summary->comms[i];
      if (comm->role != TAGC_ROLES)
        continue;
      const struct tagc_patterns p = tagc_patterns_of(summary, comm);
      const bool reduced = p.of[TAGC_PATTERN_REDUCE_SCATTER].raw_bytes > 0.05 * bytes_of_patterns(&p);
      if (round == 0 && (!reduced || could_be_activations(summary, i, &p, beside)))
        continue;
      gradients -= has_gradients(comm);
      if (reduced)
        judge_reduced(summary, i, &p, gradients > 0, beside);
      else
        judge_all_reduces(summary, comm, &p, gradients > 0, &reducers);
      gradients += has_gradients(comm);
      if (reduces_gradients(comm) && reducers.list)
        reducers.list[reducers.count++] = i;
    }
  free(reducers.list);
}

void tagc_sum_roles(struct tagc_summary *summary) {
  for (size_t i = 0; i < summary->comm_count; i++) {
    const struct tagc_patterns p = tagc_patterns_of(summary, &summary->comms[i]);
    summary->comms[i].role = TAGC_ROLES; /* for the later rounds */
    judge_alone(summary, i, &p);
  }
  struct tagc_allgathers beside = tagc_allgathers_find(summary);
  size_t last = SIZE_MAX;
  judge_rest(summary, &beside);
  const struct comms tensor = comms_that(summary, is_tensor);
  beside.of = SIZE_MAX;
  for (size_t i = 0; i < summary->comm_count; i++) {
    const struct tagc_patterns p = tagc_patterns_of(summary, &summary->comms[i]);
    learn_from_others(summary, i, &p.of[TAGC_PATTERN_ALL_REDUCE], &tensor);
    if (reduces_gradients(&summary->comms[i]) && p.of[TAGC_PATTERN_REDUCE_SCATTER].main)
      mark_allgathers(summary, i, &beside, &last);
  }
  free(beside.list);
  free(tensor.list);
}

const char *tagc_role_words(enum tagc_sum_role role) {
  static const char *const words[TAGC_ROLES] = {[TAGC_ROLE_UNKNOWN] = "unknown",
                                                [TAGC_ROLE_SHARDED] = "FSDP or ZeRO-3 (shards of parameters)",
                                                [TAGC_ROLE_OPTIMIZER] = "ZeRO-1, ZeRO-2 or a distributed optimizer",
                                                [TAGC_ROLE_DATA] = "data parallel (all-reduced gradients)",
                                                [TAGC_ROLE_TENSOR] = "tensor parallel",
                                                [TAGC_ROLE_SEQUENCE] = "tensor parallel with sequence parallel",
                                                [TAGC_ROLE_PIPELINE] = "pipeline parallel",
                                                [TAGC_ROLE_EXPERT] = "expert parallel (all-to-all)",
                                                [TAGC_ROLE_CONTROL] = "small calls alone (norms, losses, barriers)",
                                                [TAGC_ROLE_IDLE] = "idle",
                                                [TAGC_ROLE_CONTEXT] = "context parallel (a ring)"};
  return (unsigned)role < TAGC_ROLES ? words[role] : "unknown";
}
