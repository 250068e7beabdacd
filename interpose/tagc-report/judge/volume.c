/* SPDX-License-Identifier: BSD-3-Clause
 * See volume.h. roles.c sets the roles.
 */
#include "interpose/tagc-report/judge/volume.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/tagc-report/judge/patterns.h"
#include "interpose/tagc-report/read/format.h"

static const double EXACT = 1e-9;   /* rounding of sums */
static const double PADDING = 0.02; /* at most */

/* How the job divides its model. The user's facts are those of the whole model. */
struct parts {
  int tensor, stages; /* ranks; 1: not divided so, or unclear */
  bool sequence;      /* tensor parallelism divides activations, too */
  bool unclear;       /* its communicators tell several numbers */
};

/* The output and input of checks. */
struct work {
  const struct tagc_summary *summary;
  const struct tagc_volume_facts *facts;
  struct parts parts;
  struct tagc_volume_check *out;
  size_t most, count;
  size_t at; /* the communicator */
  const struct tagc_sum_comm *comm;
  struct tagc_patterns p;
  struct tagc_allgathers allgathers;
};

__attribute__((format(printf, 3, 4))) static void put_formula(char *text, size_t size, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(text, size, format, args);
  va_end(args);
}

/* -- parts of the model -------------------------------------------------------------------------------------------- */

/* The ranks of each communicator of these roles, 1 if there are none. 0: their numbers differ, or a rank has several
 * such communicators with others, as stages that send to each neighbour on one of its own. */
static int ranks_of_role(const struct tagc_summary *summary, enum tagc_sum_role role, enum tagc_sum_role or_role) {
  const struct tagc_sum_comm **of_rank = calloc(summary->rank_count + 1, sizeof *of_rank);
  int ranks = 1;
  for (size_t i = 0; i < summary->comm_count && ranks && of_rank; i++) {
    const struct tagc_sum_comm *comm = &summary->comms[i];
    if (comm->nranks <= 1 || (comm->role != role && comm->role != or_role))
      continue;
    ranks = ranks == 1 || ranks == comm->nranks ? comm->nranks : 0;
    for (size_t k = 0; k < comm->member_count && ranks; k++) {
      const struct tagc_sum_comm **other = &of_rank[comm->members[k].rank];
      if (*other && !tagc_comm_is_within(comm, *other))
        ranks = 0;
      *other = comm;
    }
  }
  free(of_rank);
  return ranks;
}

static struct parts parts_of(const struct tagc_summary *summary) {
  const int tensor = ranks_of_role(summary, TAGC_ROLE_TENSOR, TAGC_ROLE_SEQUENCE),
            stages = ranks_of_role(summary, TAGC_ROLE_PIPELINE, TAGC_ROLE_PIPELINE);
  struct parts parts = {.tensor = 1, .stages = 1, .unclear = !tensor || !stages};
  if (parts.unclear)
    return parts;
  parts.tensor = tensor;
  parts.stages = stages;
  for (size_t i = 0; i < summary->comm_count; i++)
    parts.sequence |= summary->comms[i].role == TAGC_ROLE_SEQUENCE;
  return parts;
}

/* True if the user's number of parameters is. */
static bool is_divided(const struct work *w) {
  return w->facts->parameters && (w->parts.tensor > 1 || w->parts.stages > 1);
}

/* The user's number of parameters, of one rank; 0: not told. */
static double told_parameters(const struct work *w) {
  return (double)w->facts->parameters / w->parts.tensor / w->parts.stages;
}

/* The elements of activations by the user's numbers, before sequence parallelism divides them; 0: not told. */
static double told_activations(const struct work *w) { return (double)w->facts->tokens * (double)w->facts->hidden; }

static void say_uneven(const struct work *w, struct tagc_volume_check *c) {
  put_formula(c->words, sizeof c->words, "Ranks hold unequal parts: %s. Padding and frozen parameters count, too.",
              w->parts.stages == 1   ? "norms are on all ranks of tensor parallelism"
              : w->parts.tensor == 1 ? "embedding and head are on one stage each"
                                     : "embedding and head are on one stage each, norms on all ranks of tensor "
                                       "parallelism");
}

/* -- checks -------------------------------------------------------------------------------------------------------- */

/* Begins a check of calls of one pattern; the caller fills in the expectation. Always returns a writable place. */
static struct tagc_volume_check *begin_check(struct work *w, const char *what, const struct tagc_pattern *measured) {
  static struct tagc_volume_check beyond; /* nobody reads it */
  struct tagc_volume_check *c = w->count < w->most ? &w->out[w->count] : &beyond;
  w->count++;
  *c = (struct tagc_volume_check){.comm = w->at,
                                  .expected = NAN,
                                  .deviation = NAN,
                                  .measured = w->p.steps ? measured->plain_bytes : NAN,
                                  .sent = w->p.steps ? measured->sent_bytes : NAN};
  put_formula(c->what, sizeof c->what, "%s", what);
  if (!w->p.steps)
    put_formula(c->words, sizeof c->words,
                w->p.beside_steps ? "No whole step has these calls." : "No whole step is in the trace.");
  return c;
}

/* True if a deviation needs words. */
static bool finish(struct tagc_volume_check *c, double expected) {
  c->expected = expected;
  c->deviation = expected > 0 ? c->measured / expected - 1 : NAN;
  return c->words[0] == '\0' && fabs(c->deviation) > EXACT;
}

static double ring(const struct tagc_sum_comm *comm) { return (double)(comm->nranks - 1) / comm->nranks; }

static double element(const struct work *w, const struct tagc_pattern *p) {
  return p->main ? tagc_line_element(w->summary, p->main) : 0;
}

/* -- parameters and gradients -------------------------------------------------------------------------------------- */

/* The parameters that the communicator's ranks share: the user's number, else the slots', else those a step reduces. */
static double parameters_of(const struct work *w, const char **from) {
  const double slots = tagc_slots_parameters(w->comm);
  if (w->facts->parameters)
    return *from = "", told_parameters(w);
  if (slots > 0)
    return *from = "", slots;
  return *from = "P is what the calls themselves carry.", w->p.of[TAGC_PATTERN_REDUCE_SCATTER].elements;
}

static void say_padding(struct tagc_volume_check *c) {
  put_formula(c->words, sizeof c->words, "Padding to the ranks: %.2g%%.", 100 * c->deviation);
}

/* True for whole multiples, "x3". */
static bool is_multiple(double value, double *times) {
  *times = round(value);
  return *times >= 2 && fabs(value - *times) < PADDING * *times;
}

static void check_reduced(struct work *w, double parameters, const char *from) {
  const struct tagc_pattern *r = &w->p.of[TAGC_PATTERN_REDUCE_SCATTER];
  const double e = element(w, r);
  const int ranks = w->comm->nranks;
  struct tagc_volume_check *c = begin_check(w, "reduce-scatter of gradients", r);
  char count[32];
  double times;
  put_formula(c->formula, sizeof c->formula, "(W-1)/W P e = %d/%d x %s x %g B", ranks - 1, ranks,
              tagc_format_count(parameters, count), e);
  if (!finish(c, ring(w->comm) * parameters * e)) {
    if (c->words[0] == '\0')
      put_formula(c->words, sizeof c->words, "%s", from);
    return;
  }
  if (is_multiple(c->deviation + 1, &times))
    put_formula(c->words, sizeof c->words, "x%.0f: gradients are reduced %.0f times a step, in each microbatch.", times,
                times);
  else if (is_divided(w))
    say_uneven(w, c);
  else if (w->facts->parameters && c->deviation > 0 && c->deviation < PADDING)
    say_padding(c);
  else
    put_formula(c->words, sizeof c->words,
                c->deviation < 0
                  ? "Fewer gradients than parameters: frozen ones, or ones that are reduced elsewhere."
                  : "More than once for each parameter: some of them are reduced in several microbatches, or in "
                    "several types.");
}

/* The number of microbatches in the gathers, and the slot that is kept: gathered less than twice in each. The others
 * are most of the parameters, so that gathers exceed one a microbatch. */
struct allgathers {
  unsigned microbatches, kept_times;
  const struct tagc_sum_slot *kept; /* NULL: none */
};

static bool explains(const struct tagc_sum_comm *comm, const struct tagc_sum_slot *slot, double missing,
                     struct allgathers *out) {
  const double times = missing / ((double)slot->count * comm->nranks);
  const bool whole = times > 0.5 && times < 2 * out->microbatches - 0.5 && fabs(times - round(times)) < EXACT;
  if (slot->lock != comm->last_lock || slot->pass != 0 || !whole)
    return false;
  out->kept = slot;
  out->kept_times = 2 * out->microbatches - (unsigned)round(times);
  return true;
}

static bool find_allgathers(const struct tagc_sum_comm *comm, double gathered, double parameters,
                            struct allgathers *out) {
  for (out->microbatches = 1; out->microbatches * parameters < gathered && out->microbatches <= 64;
       out->microbatches++) {
    const double missing = 2 * out->microbatches * parameters - gathered;
    if (fabs(missing) < 0.5)
      return true;
    for (size_t i = 0; missing > 0 && i < comm->slot_count; i++)
      if (explains(comm, &comm->slots[i], missing, out))
        return true;
  }
  return false;
}

static void say_allgathers(const struct work *w, struct tagc_volume_check *c, const struct allgathers *found) {
  char count[32], kept[80] = "", times[24] = "once";
  if (found->kept)
    put_formula(kept, sizeof kept, "'%.24s' (%s parameters)", found->kept->name ? found->kept->name : "?",
                tagc_format_count((double)found->kept->count * w->comm->nranks, count));
  if (found->kept_times > 1)
    put_formula(times, sizeof times, "%u times", found->kept_times);
  if (found->microbatches == 1)
    put_formula(c->words, sizeof c->words, "%s is gathered once: it is kept after the forward pass.", kept);
  else if (found->kept)
    put_formula(c->words, sizeof c->words,
                "As for %u microbatches, or for fewer with activations that are computed again; %s is gathered %s.",
                found->microbatches, kept, times);
  else
    put_formula(c->words, sizeof c->words,
                "As for %u microbatches, or for fewer with activations that are computed again.", found->microbatches);
}

static void explain_allgathers(struct work *w, struct tagc_volume_check *c, double gathered, double parameters,
                               unsigned usual) {
  const double rate = gathered / parameters;
  struct allgathers found = {0};
  char count[32];
  if (is_divided(w) && rate < 1.5 * usual)
    say_uneven(w, c);
  else if (w->facts->parameters && fabs(c->deviation) < PADDING && rate > usual)
    say_padding(c);
  else if (usual == 2 && find_allgathers(w->comm, gathered, parameters, &found))
    say_allgathers(w, c, &found);
  else if (rate < usual && rate > 1)
    put_formula(c->words, sizeof c->words,
                "%s of the parameters are gathered once less: they are kept after the forward pass, or not trained.",
                tagc_format_count(usual * parameters - gathered, count));
  else
    put_formula(c->words, sizeof c->words,
                "Each parameter is gathered %.2f times a step: for several microbatches, or frozen ones, too.", rate);
}

/* Checks gathers here and on communicators beside. Fewer ranks do the second gather, before the backward pass. */
static void check_gathered(struct work *w, double parameters, unsigned usual) {
  struct tagc_pattern all = {0};
  double gathered = w->p.of[TAGC_PATTERN_ALL_GATHER].elements * w->comm->nranks, rings = usual * ring(w->comm);
  const int ranks = w->comm->nranks;
  char count[32], times[32] = "", numbers[48] = "";
  tagc_pattern_add(&all, &w->p.of[TAGC_PATTERN_ALL_GATHER]);
  tagc_allgathers_beside(w->summary, w->at, &w->allgathers);
  tagc_pattern_add(&all, &w->allgathers.all);
  gathered += w->allgathers.gathered;
  const int fewer = w->allgathers.least_ranks < ranks ? w->allgathers.least_ranks : 0;
  if (usual == 2 && fewer) {
    rings = ring(w->comm) + (double)(fewer - 1) / fewer;
    put_formula(times, sizeof times, "((W-1)/W + (V-1)/V)");
    put_formula(numbers, sizeof numbers, "(%d/%d + %d/%d)", ranks - 1, ranks, fewer - 1, fewer);
  } else {
    put_formula(times, sizeof times, "(W-1)/W%s", usual == 2 ? " 2" : "");
    put_formula(numbers, sizeof numbers, "%d/%d%s", ranks - 1, ranks, usual == 2 ? " x 2" : "");
  }
  const double e = element(w, &all);
  struct tagc_volume_check *c = begin_check(w, "all-gather of parameters", &all);
  put_formula(c->formula, sizeof c->formula, "%s P e = %s x %s x %g B", times, numbers,
              tagc_format_count(parameters, count), e);
  if (finish(c, rings * parameters * e))
    explain_allgathers(w, c, gathered, parameters, usual);
}

/* Checks gradients that go to all, or to their owners. P comes from the user, or from the gathers. */
static void check_owners(struct work *w) {
  const struct tagc_pattern *a = &w->p.of[TAGC_PATTERN_ALL_REDUCE], *r = &w->p.of[TAGC_PATTERN_REDUCE];
  const bool to_all = a->elements >= r->elements;
  const double gathered = w->p.of[TAGC_PATTERN_ALL_GATHER].elements * w->comm->nranks;
  const double parameters = w->facts->parameters ? told_parameters(w)
                            : gathered > 0       ? gathered
                                                 : w->p.of[TAGC_PATTERN_BROADCAST].elements;
  const int ranks = w->comm->nranks;
  double times;
  char count[32];
  struct tagc_volume_check *c =
    begin_check(w, to_all ? "all-reduce of gradients" : "reduction of gradients to their owners", to_all ? a : r);
  put_formula(c->formula, sizeof c->formula, "%s(W-1)/W P e = %s%d/%d x %s x %g B", to_all ? "2 " : "",
              to_all ? "2 x " : "", ranks - 1, ranks, tagc_format_count(parameters, count), element(w, to_all ? a : r));
  if (finish(c, (to_all ? 2 : 1) * ring(w->comm) * parameters * element(w, to_all ? a : r))) {
    if (is_multiple(c->deviation + 1, &times))
      put_formula(c->words, sizeof c->words, "x%.0f: gradients are reduced %.0f times a step, in each microbatch.",
                  times, times);
    else if (is_divided(w))
      say_uneven(w, c);
    else if (fabs(c->deviation) < PADDING)
      put_formula(c->words, sizeof c->words, "Padding of the parameters that are gathered: %.2g%%.",
                  fabs(100 * c->deviation));
    else
      put_formula(c->words, sizeof c->words,
                  "Parameters and gradients differ in number: some are frozen, or reduced elsewhere.");
  }
  if (gathered > 0)
    check_gathered(w, parameters, 1);
}

/* Replicas of shards reduce as many gradients as the shards have. */
static double replicated_shards(const struct work *w) {
  for (size_t i = 0; i < w->summary->comm_count; i++) {
    const struct tagc_sum_comm *other = &w->summary->comms[i];
    const double shards = other->nranks > 0 ? tagc_slots_parameters(other) / other->nranks : 0;
    if (i != w->at && shards > 0 && fabs(w->p.of[TAGC_PATTERN_ALL_REDUCE].elements / shards - 1) < 0.5)
      return shards;
  }
  return 0;
}

static void check_data(struct work *w) {
  const struct tagc_pattern *a = &w->p.of[TAGC_PATTERN_ALL_REDUCE];
  const double shards = replicated_shards(w), told = told_parameters(w),
               known = shards > 0                          ? shards
                       : told > 0 || !w->comm->all_reduces ? told
                                                           : tagc_slots_parameters(w->comm);
  const double parameters = known > 0 ? known : a->elements, e = element(w, a);
  const int ranks = w->comm->nranks;
  double times;
  char count[32];
  struct tagc_volume_check *c =
    begin_check(w, shards > 0 ? "all-reduce of shards of gradients" : "all-reduce of gradients", a);
  put_formula(c->formula, sizeof c->formula, "2 (W-1)/W P e = 2 x %d/%d x %s x %g B", ranks - 1, ranks,
              tagc_format_count(parameters, count), e);
  if (known <= 0 && w->p.steps)
    put_formula(c->words, sizeof c->words,
                "P is what the calls themselves carry: not checked. The number of parameters that are trained can be "
                "told (--parameters).");
  if (known <= 0 || !finish(c, 2 * ring(w->comm) * parameters * e))
    return;
  if (is_multiple(c->deviation + 1, &times))
    put_formula(c->words, sizeof c->words,
                "x%.0f: gradients are all-reduced in each microbatch (no_sync() would do so once).", times);
  else if (shards <= 0 && is_divided(w))
    say_uneven(w, c);
  else if (shards <= 0 && told <= 0 && c->deviation != 0)
    put_formula(c->words, sizeof c->words, "P is that of the slots; other large all-reduces are among these.");
  else
    put_formula(c->words, sizeof c->words,
                c->deviation < 0 ? "Fewer gradients than parameters: frozen ones, or ones that are reduced elsewhere."
                : c->deviation < PADDING ? "Padding of the buckets."
                                         : "More gradients than parameters: buffers, or a second model.");
}

/* -- activations --------------------------------------------------------------------------------------------------- */

/* The layers of a rank: the user's number over the stages, else the blocks among the names of the main communicator's
 * slots. */
static double layers_of(const struct work *w) {
  unsigned blocks = 0;
  const struct tagc_sum_comm *main = w->summary->comms;
  for (size_t i = 0; w->summary->comm_count && i < main->slot_count; i++)
    if (main->slots[i].lock == main->last_lock && main->slots[i].pass == 0 && main->slots[i].name &&
        strncmp(main->slots[i].name, "block.", 6) == 0)
      blocks++;
  return w->facts->layers ? (double)w->facts->layers / w->parts.stages : blocks;
}

/* Explains more calls per step than 4 a layer and microbatch. */
static void explain_activations(struct tagc_volume_check *c, double calls, double layers, uint64_t microbatches) {
  const double one = layers * (double)microbatches, more = calls - 4 * one;
  if (fabs(more - 2 * one) < 0.5)
    put_formula(c->words, sizeof c->words, "x1.5: activations are computed again in the backward pass.");
  else if (more > 0.5 && more < 2 * one && fabs(fmod(more, (double)microbatches)) < 0.01)
    put_formula(c->words, sizeof c->words,
                "%.0f more a microbatch: embedding, head, or layers that are computed again.",
                more / (double)microbatches);
  else if (more < 0)
    put_formula(c->words, sizeof c->words,
                "Fewer than four a layer and microbatch: some of the layers are on other stages, or are not divided.");
  else
    put_formula(c->words, sizeof c->words, "%.1f a layer and microbatch instead of 4.", calls / one);
}

/* Without the number of microbatches: finds numbers that fit. */
static void guess_microbatches(struct tagc_volume_check *c, double calls, double layers) {
  static const struct {
    unsigned a_layer, beside;
    const char *words;
  } fits[] = {{4, 0, "4 a layer"},
              {4, 2, "4 a layer, embedding and head"},
              {4, 1, "4 a layer, and embedding or head"},
              {6, 0, "6 a layer: computed again"},
              {6, 2, "6 a layer: computed again; embedding and head"}};
  for (size_t i = 0; layers > 0 && i < sizeof fits / sizeof *fits; i++) {
    const double m = calls / (fits[i].a_layer * layers + fits[i].beside);
    if (m >= 0.99 && fabs(m - round(m)) < 0.01) {
      put_formula(
        c->words, sizeof c->words,
        "%.0f calls a step fit %.0f microbatch%s of %g layers (%s); their number can be told (--microbatches).", calls,
        m, m > 1.5 ? "es" : "", layers, fits[i].words);
      return;
    }
  }
  put_formula(c->words, sizeof c->words,
              "%.0f calls a step; to check that, layers and microbatches are needed (--layers, --microbatches).",
              calls);
}

/* `p`: its main line has the activations; `factor`: a ring's share of them. */
static void check_activations(struct work *w, const char *what, const struct tagc_pattern *p, double factor,
                              const char *letters, double whole) {
  const double layers = layers_of(w);
  const uint64_t m = w->facts->microbatches;
  const double told = told_activations(w), bsh = told > 0 ? told : whole;
  const double one = factor * bsh * element(w, p);
  const struct tagc_sum_calls *calls = &p->main->whole;
  const double ranks = w->comm->whole_steps ? (double)w->comm->whole_steps : 1;
  const struct tagc_pattern main = {.plain_bytes = (double)tagc_sent_all(&calls->plain) / ranks,
                                    .sent_bytes = (double)tagc_sent_all(&calls->sent) / ranks};
  struct tagc_volume_check *c = begin_check(w, what, &main);
  char count[32], factors[48] = "4 L m";
  if (layers > 0 && m)
    put_formula(factors, sizeof factors, "4 x %g x %llu", layers, (unsigned long long)m);
  put_formula(c->formula, sizeof c->formula, "%s(W-1)/W b s h e x 4 L m = %s%d/%d x %s x %g B x %s", letters,
              factor > 1 ? "2 x " : "", w->comm->nranks - 1, w->comm->nranks, tagc_format_count(bsh, count),
              element(w, p), factors);
  if (!w->p.steps)
    return;
  if (layers <= 0 || !m)
    guess_microbatches(c, p->main_calls, layers);
  else if (finish(c, one * 4 * layers * (double)m)) {
    if (told > 0 && fabs(told / whole - 1) > EXACT)
      put_formula(c->words, sizeof c->words, "The calls have %s elements, and not b s h.",
                  tagc_format_count(whole, count));
    else
      explain_activations(c, p->main_calls, layers, m);
  }
}

static void check_tensor(struct work *w) {
  const struct tagc_pattern *a = &w->p.of[TAGC_PATTERN_ALL_REDUCE];
  check_activations(w, "all-reduce of activations", a, 2 * ring(w->comm), "2 ", (double)a->main->least_count);
}

static void check_sequence(struct work *w) {
  const struct tagc_pattern *r = &w->p.of[TAGC_PATTERN_REDUCE_SCATTER], *g = &w->p.of[TAGC_PATTERN_ALL_GATHER];
  const double whole = (double)r->main->least_count * w->comm->nranks;
  check_activations(w, "reduce-scatter of activations", r, ring(w->comm), "", whole);
  if (!g->main)
    return;
  check_activations(w, "all-gather of activations", g, ring(w->comm), "", whole);
  struct tagc_volume_check *c = w->count <= w->most ? &w->out[w->count - 1] : NULL;
  if (c && fabs(c->deviation - 0.5) < 0.1)
    put_formula(c->words, sizeof c->words,
                "x%.2f: inputs are gathered again in the backward pass, instead of being kept.", c->deviation + 1);
}

/* W stages have W-1 borders; m activations cross each, and m gradients back: a mean of 2 (W-1)/W m a rank. */
static void check_pipeline(struct work *w) {
  const struct tagc_pattern *s = &w->p.of[TAGC_PATTERN_SEND];
  const uint64_t m = w->facts->microbatches;
  const double told = told_activations(w) / (w->parts.sequence ? w->parts.tensor : 1),
               bsh = told > 0  ? told
                     : s->main ? (double)s->main->least_count
                               : 0;
  const double times = 2 * ring(w->comm) * (double)m;
  struct tagc_volume_check *c = begin_check(w, "activations and their gradients to neighbours", s);
  char count[32], factor[32] = "m";
  if (m)
    put_formula(factor, sizeof factor, "%llu", (unsigned long long)m);
  put_formula(c->formula, sizeof c->formula, "2 (W-1)/W b s h e m = 2 x %d/%d x %s x %g B x %s", w->comm->nranks - 1,
              w->comm->nranks, tagc_format_count(bsh, count), element(w, s), factor);
  if (!w->p.steps)
    return;
  if ((size_t)w->comm->nranks != w->comm->member_count)
    put_formula(c->words, sizeof c->words, "Not all stages have a trace: %.1f messages a rank and step.", s->calls);
  else if (!m)
    put_formula(c->words, sizeof c->words,
                "%.2f messages a rank and step fit %.1f microbatches; their number can be told (--microbatches).",
                s->calls, s->calls / (2 * ring(w->comm)));
  else if (finish(c, times * bsh * element(w, s)))
    put_formula(
      c->words, sizeof c->words,
      told > 0 && s->main && told > 1.5 * (double)s->main->least_count
        ? "Messages hold a part of b s h: sequences or tokens are divided, too."
      : c->deviation > 0
        ? "More than one message a border and microbatch: stages take turns (interleaved), or they are sent in parts."
        : "Fewer: some stages or microbatches send nothing.");
}

/* -- all together -------------------------------------------------------------------------------------------------- */

/* Says behind the words of a check of the communicator how the user's numbers are divided for it. */
static void say_parts(const struct work *w, struct tagc_volume_check *c) {
  const enum tagc_sum_role role = w->comm->role;
  const bool layers = role == TAGC_ROLE_TENSOR || role == TAGC_ROLE_SEQUENCE, messages = role == TAGC_ROLE_PIPELINE,
             has_shards = role == TAGC_ROLE_DATA && replicated_shards(w) > 0; /* P is theirs */
  const size_t used = strlen(c->words), size = sizeof c->words - used;
  const char *const before = used ? " " : "";
  char *const to = c->words + used;
  if (layers ? !w->facts->layers : messages ? told_activations(w) <= 0 : !w->facts->parameters || has_shards)
    return;
  if (w->parts.unclear)
    put_formula(to, size,
                "%sCommunicators for tensor or pipeline parallelism differ in their ranks: the numbers of one rank are "
                "needed, not those of the model.",
                before);
  else if (layers && w->parts.stages > 1)
    put_formula(to, size, "%sL is that of the model over %d stages.", before, w->parts.stages);
  else if (messages && w->parts.sequence)
    put_formula(to, size, "%sb s h is over %d ranks of sequence parallelism.", before, w->parts.tensor);
  else if (!layers && !messages && is_divided(w))
    put_formula(to, size, "%sP is that of the model over %d x %d (tensor, pipeline).", before, w->parts.tensor,
                w->parts.stages);
}

static void check_comm(struct work *w) {
  const char *from;
  const double parameters = parameters_of(w, &from);
  const bool reduces = w->p.of[TAGC_PATTERN_REDUCE_SCATTER].main != NULL;
  switch (w->comm->role) {
  case TAGC_ROLE_SHARDED:
  case TAGC_ROLE_OPTIMIZER:
    if (reduces) {
      check_reduced(w, parameters, from);
      check_gathered(w, parameters, w->comm->role == TAGC_ROLE_SHARDED ? 2 : 1);
    } else if (w->p.of[TAGC_PATTERN_ALL_REDUCE].main || w->p.of[TAGC_PATTERN_REDUCE].main)
      check_owners(w);
    return;
  case TAGC_ROLE_DATA: check_data(w); return;
  case TAGC_ROLE_TENSOR: check_tensor(w); return;
  case TAGC_ROLE_SEQUENCE: check_sequence(w); return;
  case TAGC_ROLE_PIPELINE: check_pipeline(w); return;
  default: return;
  }
}

size_t tagc_volume_checks(const struct tagc_summary *summary, const struct tagc_volume_facts *facts,
                          struct tagc_volume_check *out, size_t most) {
  struct work w = {.summary = summary,
                   .facts = facts,
                   .parts = parts_of(summary),
                   .out = out,
                   .most = most,
                   .allgathers = tagc_allgathers_find(summary)};
  for (w.at = 0; w.at < summary->comm_count; w.at++) {
    w.comm = &summary->comms[w.at];
    w.p = tagc_patterns_of(summary, w.comm);
    const size_t first = w.count;
    if (w.comm->nranks > 1)
      check_comm(&w);
    for (size_t i = first; i < w.count && i < most; i++)
      say_parts(&w, &out[i]);
  }
  free(w.allgathers.list);
  return w.count;
}

static void print_check(FILE *to, const struct tagc_volume_check *c) {
  char expected[16], measured[16], sent[16], deviation[24] = "-";
  if (!isnan(c->deviation))
    snprintf(deviation, sizeof deviation, fabs(c->deviation) < EXACT ? "exactly" : "%+.2f%%", 100 * c->deviation);
  fprintf(to, "    %-46s expected %10s  measured %10s  %9s  sent %10s\n", c->what,
          tagc_format_bytes(c->expected, expected), tagc_format_bytes(c->measured, measured), deviation,
          tagc_format_bytes(c->sent, sent));
  tagc_format_print(to, 6, c->formula);
  if (c->words[0])
    tagc_format_print(to, 6, c->words);
}

void tagc_volume_print(FILE *to, const struct tagc_summary *summary, const struct tagc_volume_check *checks,
                       size_t count) {
  char line[400];
  fprintf(to, "What communicators are for, and what formulas say a rank sends in a step\n");
  for (size_t i = 0; i < summary->comm_count; i++) {
    const struct tagc_sum_comm *comm = &summary->comms[i];
    snprintf(line, sizeof line, "communicator %zu, %d ranks: %s: %s", i, comm->nranks, tagc_role_words(comm->role),
             comm->role_grounds ? comm->role_grounds : "");
    tagc_format_print(to, 2, line);
    for (size_t k = 0; k < count; k++)
      if (checks[k].comm == i)
        print_check(to, &checks[k]);
  }
}
