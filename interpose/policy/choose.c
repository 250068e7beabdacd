/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/policy/choose.h"

#include <string.h>

#include "interpose/policy/chunk_count.h"
#include "kernels/allgather/support.h"

static const char *const names[TAGC_CANDIDATES] = {"bf16", "q8", "q4", "sparse", "lhc", "q3", "q2"};

static const double WORTH_IT = 0.95; /* of the plain time, or of the alternative's */

/* The least gain of a call. No estimate includes the additional exchange and the host's work for it. On a busy machine
 * even the best of a few measurements varies by as much. */
static const double LEAST_GAIN_NS = 50e3;

bool tagc_choose_is_worth_it(double ns, double plain_ns) {
  return ns <= WORTH_IT * plain_ns && ns <= plain_ns - LEAST_GAIN_NS;
}

bool tagc_choose_is_open(const struct tagc_options *options, int candidate) {
  enum { Q3 = TAGC_CANDIDATES - 2 };
  return candidate < Q3 || options->budget.kind != TAGC_BUDGET_NONE;
}

void tagc_choose_candidates(const struct tagc_options *options, struct tagc_candidate candidates[TAGC_CANDIDATES]) {
  for (int i = 0; i < TAGC_CANDIDATES; i++) {
    const struct tagc_codec *codec = tagc_choose_is_open(options, i) ? tagc_codec_find(names[i]) : NULL;
    candidates[i] = (struct tagc_candidate){codec, codec ? tagc_plan_storage(options, codec) : TAGC_STORAGE_NONE};
  }
}

const char *tagc_choose_name(int candidate) { return names[candidate]; }

/* The line through two times, each of `steps` steps one after another, each of which sends `parts` times the bytes. */
static struct tagc_link fit(const struct tagc_probe *probe, enum tagc_route route, double steps, double parts) {
  const double small = probe->ns[route][0] / steps, large = probe->ns[route][1] / steps;
  const double slope = (large - small) / (parts * (double)(probe->bytes[1] - probe->bytes[0]));
  struct tagc_link link = {.ns_per_byte = slope > 0 ? slope : 0};
  link.latency_ns = small - parts * (double)probe->bytes[0] * link.ns_per_byte;
  if (!(link.latency_ns > 0))
    link.latency_ns = 0;
  return link;
}

struct tagc_wire tagc_choose_wire(const struct tagc_hosts *hosts, bool two_levels, const struct tagc_probe *probe) {
  const double peers = two_levels ? hosts->hosts - 1 : hosts->nranks - 1;
  struct tagc_wire wire = {.plain = fit(probe, TAGC_ROUTE_PLAIN, hosts->nranks - 1, 1)};
  wire.ring = wire.plain;
  if (two_levels) {
    wire.ring = fit(probe, TAGC_ROUTE_RING, peers, 1);
    wire.inside = fit(probe, TAGC_ROUTE_INSIDE, hosts->local - 1, 1);
  }
  wire.all_to_all = probe->ns[TAGC_ROUTE_ALL_TO_ALL][1] <= WORTH_IT * probe->ns[TAGC_ROUTE_SENDS][1];
  wire.exchange = fit(probe, wire.all_to_all ? TAGC_ROUTE_ALL_TO_ALL : TAGC_ROUTE_SENDS, 1, peers);
  return wire;
}

/* The time for uncompressed elements, whatever the codec: the wire of the rest, packing and unpacking. */
static double time_of_parts(const struct tagc_slot_question *q, const struct tagc_wire *wire, double copy_ns) {
  const struct tagc_shape rest = tagc_plan_rest(q);
  return q->rest_count
           ? tagc_plain_wire_ns(&rest, &wire->ring) + copy_ns * (double)q->shard_count * (q->packed.nranks + 1)
           : 0;
}

/* The estimate of the gradient codec that resembles a codec of gathered sums; NULL: they are gathered plainly. */
static const struct tagc_codec_estimate *measured_of(const struct tagc_allgather_codec *codec,
                                                     const struct tagc_gradient_stats *gradient) {
  for (int i = 0; i < TAGC_CANDIDATES && codec; i++)
    if (strcmp(names[i], codec->name) == 0)
      return &gradient->of[i];
  return NULL;
}

/* The bytes that the nonzero values of the sums may take: those of all ranks. 0: too many, and the other
 * sums are sent, too. */
static uint64_t bytes_of_support(const struct tagc_allgather_phase *phase, const struct tagc_gradient_stats *gradient) {
  const double density = gradient->density * phase->shape.nranks, n = (double)phase->shape.n;
  const uint64_t bytes =
    tagc_support_bytes(phase->shape.n, phase->shape.dtype, density < 1 ? (uint64_t)(n * density) : phase->shape.n);
  return bytes <= phase->support.payload_bytes ? bytes : 0;
}

/* The second half of an all-reduce: a ring of all ranks' payloads. Each rank encodes one and decodes all of them. The
 * times are taken from the gradient codec that resembles q8 or bf16; nonzero values take less than q8. If these may be
 * sent, the ranks tell their bytes first, and there is one chunk. */
static double time_of_allgather_phase(const struct tagc_slot_question *q, const struct tagc_gradient_stats *gradient,
                                      const struct tagc_wire *wire) {
  const struct tagc_allgather_phase phase = tagc_plan_allgather_phase(q);
  const double n = (double)phase.shape.n, steps = q->hosts.nranks - 1;
  const uint64_t support = bytes_of_support(&phase, gradient);
  const double bytes = support       ? (double)support
                       : phase.codec ? (double)phase.layout.payload_bytes
                                     : n * (double)tagc_dtype_size(phase.shape.dtype);
  const double latency_ns = steps * wire->plain.latency_ns, asked_ns = phase.support.payload_bytes ? latency_ns : 0;
  struct tagc_call_times times = {.wire_ns = latency_ns + steps * bytes * wire->plain.ns_per_byte,
                                  .latency_ns = latency_ns};
  if (!phase.codec && !support)
    return asked_ns + times.wire_ns;
  const struct tagc_codec_estimate *like = measured_of(support ? &tagc_allgather_q8 : phase.codec, gradient);
  if (like) {
    times.encode_ns = n * like->encode_ns;
    times.decode_ns = n * q->hosts.nranks * like->decode_ns;
    times.chunk_ns = like->call_ns / 2;
  }
  return asked_ns +
         tagc_call_ns(&times, support ? 1 : tagc_chunk_count_allgather(q->options, &phase.shape, &phase.layout));
}

double tagc_choose_error(const struct tagc_slot_question *slot, const struct tagc_gradient_stats *gradient,
                         int candidate) {
  struct tagc_candidate candidates[TAGC_CANDIDATES];
  const double error = gradient->of[candidate].error;
  struct tagc_slot_question q = *slot;
  tagc_choose_candidates(slot->options, candidates);
  q.codec = candidates[candidate].codec;
  if (!q.codec || !tagc_plan_is_all_reduce(&q))
    return error;
  const struct tagc_allgather_phase phase = tagc_plan_allgather_phase(&q);
  const struct tagc_codec_estimate *like =
    measured_of(bytes_of_support(&phase, gradient) ? NULL : phase.codec, gradient);
  return like ? __builtin_sqrt(error * error + like->error * like->error) : error;
}

/* The second half of an all-reduce on a GPU behind a first one. The host may wait for the bytes of nonzero sums, which
 * come at the end of the first half: at worst the program's own kernels are late by that half, and by what a wait
 * takes. So it waits only if even then the call is clearly faster, or if TAGC_SUMS=exact leaves no other way. */
static double time_of_sums(const struct tagc_slot_question *q, const struct tagc_gradient_stats *gradient,
                           const struct tagc_wire *wire, double first_ns, bool *waits) {
  struct tagc_slot_question asking = *q;
  asking.waits_for_sums = true;
  const double ns = time_of_allgather_phase(q, gradient, wire),
               waiting_ns = first_ns + TAGC_GPU_WAIT_NS + time_of_allgather_phase(&asking, gradient, wire);
  *waits = !q->host_memory &&
           (tagc_plan_allgather_phase(q).support.payload_bytes > 0 || tagc_choose_is_worth_it(waiting_ns, ns));
  return *waits ? waiting_ns : ns;
}

/* The times of a call: in its number of chunks, and in one. */
struct estimate {
  double ns, whole_ns;
  uint8_t chunks;
  bool waits_for_sums;
};

/* The times of a call with this candidate; infinite if the slot cannot have it, or should not. */
static struct estimate time_with(const struct tagc_slot_question *slot, const struct tagc_candidate *candidate,
                                 const struct tagc_gradient_stats *gradient, const struct tagc_codec_estimate *measured,
                                 const struct tagc_wire *wire, uint32_t keep_ppm) {
  const struct estimate never = {__builtin_inf(), __builtin_inf(), 0, false};
  struct tagc_slot_question q = *slot;
  struct tagc_layout layout;
  uint64_t residual_bytes;
  const double most = slot->options->budget.kind == TAGC_BUDGET_NONE ? TAGC_CHOOSE_ERROR : __builtin_inf();
  if (!candidate->codec || !(measured->error <= most && measured->error < __builtin_inf()) ||
      (candidate->codec->needs_residual && !keep_ppm))
    return never;
  q.codec = candidate->codec;
  q.packed.residual = candidate->residual;
  q.packed.keep_ppm = keep_ppm;
  if (tagc_plan_slot(&q, &layout, &residual_bytes) != TAGC_REASON_NONE)
    return never;
  const double elements = (q.packed.nranks - 1) * (double)q.packed.n;
  const struct tagc_shape whole = tagc_plan_shard(&q);
  struct tagc_call_times times = {
    .encode_ns = elements * measured->encode_ns,
    .decode_ns = elements * measured->decode_ns,
    .chunk_ns = measured->call_ns / 2,
  };
  tagc_call_times_fill(&times, &q.packed, &layout, &wire->ring, &wire->exchange);
  const int chunks = tagc_chunk_count(q.options, q.codec, &q.packed, &layout, &times);
  const double inside_ns = q.scope.two_levels ? tagc_host_sum_ns(&whole, &q.hosts, &wire->inside) : 0,
               half_ns = inside_ns + tagc_call_ns(&times, chunks);
  bool waits = false;
  const double sums_ns = tagc_plan_is_all_reduce(&q) ? time_of_sums(&q, gradient, wire, half_ns, &waits) : 0;
  return (struct estimate){half_ns + sums_ns, inside_ns + tagc_call_ns(&times, 1) + sums_ns, (uint8_t)chunks, waits};
}

/* Among those within 5% of the fastest the most exact one; -1: the plain call is as good. */
static int best_of(const double ns[TAGC_CANDIDATES], double plain_ns, const struct tagc_gradient_stats *gradient) {
  double fastest = __builtin_inf();
  int best = -1;
  for (int i = 0; i < TAGC_CANDIDATES; i++)
    if (ns[i] < fastest && tagc_choose_is_worth_it(ns[i], plain_ns))
      fastest = ns[i];
  for (int i = 0; i < TAGC_CANDIDATES; i++)
    if (ns[i] * WORTH_IT <= fastest && tagc_choose_is_worth_it(ns[i], plain_ns) &&
        (best < 0 || gradient->of[i].error < gradient->of[best].error))
      best = i;
  return best;
}

/* The time that chunks hide is only an estimate: it changes the choice only if it makes a call clearly faster. */
static int choose_one(const struct tagc_choice *choice, const double whole_ns[TAGC_CANDIDATES],
                      const struct tagc_gradient_stats *gradient) {
  const int best = best_of(choice->ns, choice->plain_ns, gradient),
            without = best_of(whole_ns, choice->plain_ns, gradient);
  const bool kept = best >= 0 && without >= 0 && tagc_choose_is_worth_it(choice->ns[without], choice->plain_ns) &&
                    choice->ns[best] > WORTH_IT * choice->ns[without];
  return kept ? without : best;
}

/* The time of the plain call. The probe's memory lies in no window. On symmetric windows NCCL has faster ways inside a
 * host, of unknown times: they count as none, and what is left is the way between hosts. */
static double time_of_plain(const struct tagc_slot_question *q, const struct tagc_wire *wire) {
  struct tagc_shape plain = tagc_plan_shard(q);
  plain.nranks = q->hosts.nranks;
  double ns = tagc_plain_wire_ns(&plain, &wire->plain);
  if (q->symmetric && q->scope.two_levels) {
    plain.nranks = q->hosts.hosts;
    const double between_ns = tagc_plain_wire_ns(&plain, &wire->ring);
    ns = between_ns < ns ? between_ns : ns;
  }
  return (tagc_plan_is_all_reduce(q) ? 2 : 1) * ns;
}

/* Why no choice exists; TAGC_REASON_no_faster: one exists. */
static enum tagc_reason gate_choice(const struct tagc_slot_question *slot, const struct tagc_gradient_stats *gradient,
                                    const struct tagc_wire *wire) {
  const enum tagc_reason gate = tagc_plan_slot_gate(slot);
  if (gate != TAGC_REASON_NONE)
    return gate;
  if (!gradient || !(gradient->density > 0))
    return TAGC_REASON_unseen;
  return wire ? TAGC_REASON_no_faster : TAGC_REASON_vote;
}

/* Fills the times and the chunks of all candidates. */
static void estimate_candidates(const struct tagc_slot_question *slot, const struct tagc_gradient_stats *gradient,
                                const struct tagc_wire *wire, struct tagc_choice *choice,
                                double whole_ns[TAGC_CANDIDATES]) {
  const double parts_ns = time_of_parts(slot, wire, gradient->copy_ns);
  struct tagc_candidate candidates[TAGC_CANDIDATES];
  tagc_choose_candidates(slot->options, candidates);
  for (int i = 0; i < TAGC_CANDIDATES; i++) {
    const struct estimate estimate =
      time_with(slot, &candidates[i], gradient, &gradient->of[i], wire, choice->keep_ppm);
    choice->ns[i] = parts_ns + estimate.ns;
    choice->chunks[i] = estimate.chunks;
    choice->waits_for_sums[i] = estimate.waits_for_sums;
    whole_ns[i] = parts_ns + estimate.whole_ns;
  }
}

struct tagc_choice tagc_choose(const struct tagc_slot_question *slot, const struct tagc_gradient_stats *gradient,
                               const struct tagc_wire *wire) {
  const bool budget = slot->options->budget.kind != TAGC_BUDGET_NONE;
  struct tagc_choice choice = {.reason = gate_choice(slot, gradient, wire), .candidate = -1};
  double whole_ns[TAGC_CANDIDATES];
  const bool open = choice.reason == TAGC_REASON_no_faster;
  for (int i = 0; i < TAGC_CANDIDATES && budget; i++)
    choice.ns[i] = __builtin_inf();
  if (wire && (open || budget)) /* a call that cannot be compressed counts in a budget */
    choice.plain_ns = time_of_plain(slot, wire);
  if (!open)
    return choice;
  /* The sum of several ranks has at most all their values together. */
  choice.keep_ppm = tagc_gradient_keep_ppm(gradient->density * (slot->scope.two_levels ? slot->hosts.local : 1));
  estimate_candidates(slot, gradient, wire, &choice, whole_ns);
  if (!budget)
    choice.candidate = choose_one(&choice, whole_ns, gradient);
  if (budget || choice.candidate >= 0)
    choice.reason = TAGC_REASON_compressed;
  return choice;
}
