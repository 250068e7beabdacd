/* SPDX-License-Identifier: BSD-3-Clause
 * interpose/policy/choose: tables of gradients and wires, and the choice for each slot.
 */
#include <math.h>
#include <string.h>

#include "interpose/policy/choose_allgather.h"
#include "kernels/allgather/support.h"
#include "kernels/cuda/codecs.h"
#include "tests/unit/tap.h"

enum { BF16, Q8, Q4, SPARSE, LHC };

static struct tagc_options options;
static struct tagc_slot_info info = {.name = "unit4", .unit = 4};

/* A million elements per rank, two ranks. */
static struct tagc_slot_question good_slot(void) {
  tagc_options_default(&options);
  return (struct tagc_slot_question){.options = &options,
                                     .slot = &info,
                                     .hosts = {2, 2, 1},
                                     .packed = {1 << 20, 2, TAGC_FLOAT32, 0, TAGC_STORAGE_NONE, 0},
                                     .op = TAGC_OP_SUM,
                                     .gradients = true,
                                     .residual_left = UINT64_C(1) << 30};
}

/* Errors as on a normal distribution; a nanosecond for encode and decode together. */
static struct tagc_gradient_stats dense(void) {
  struct tagc_gradient_stats gradient = {.density = 1, .kurtosis = 3};
  static const double errors[TAGC_CANDIDATES] = {0.0017, 0.0065, 0.118, INFINITY, INFINITY, 0.19, 0.34};
  for (int i = 0; i < TAGC_CANDIDATES; i++)
    gradient.of[i] = (struct tagc_codec_estimate){errors[i], 0.5, 0.5, 0};
  return gradient;
}

/* Two values of a hundred are nonzero: a sketch is exact. */
static struct tagc_gradient_stats scattered(void) {
  struct tagc_gradient_stats gradient = dense();
  gradient.density = 0.02;
  gradient.kurtosis = 150;
  gradient.of[SPARSE].error = 0.0017;
  gradient.of[LHC].error = 1e-8;
  return gradient;
}

/* A link of `bytes` bytes per second. */
static struct tagc_wire link_of(double bytes) {
  struct tagc_link link = {.latency_ns = 20e3, .ns_per_byte = 1e9 / bytes};
  return (struct tagc_wire){.plain = link, .inside = link, .ring = link, .exchange = link};
}

static void is(const struct tagc_choice *choice, int candidate, enum tagc_reason reason, const char *what) {
  ok(choice->candidate == candidate && choice->reason == (candidate < 0 ? reason : TAGC_REASON_compressed),
     "%s: %s%s%s", what, candidate < 0 ? "plain, " : "",
     candidate < 0 ? tagc_reason_words(choice->reason) : tagc_choose_name(choice->candidate),
     choice->candidate == candidate ? "" : " (no)");
}

/* A quarter of the slot is sent plain. */
static void parts(void) {
  struct tagc_slot_question slot = good_slot();
  struct tagc_gradient_stats gradient = dense();
  struct tagc_wire wire = link_of(25e6);
  slot.shard_count = slot.packed.n;
  slot.rest_count = slot.shard_count / 4;
  slot.packed.n -= slot.rest_count;
  gradient.copy_ns = 0.25;
  struct tagc_choice choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, Q4, 0, "three quarters of a gradient on a slow wire");
  ok(fabs(choice.plain_ns / (20e3 + 4194304 * 40.0) - 1) < 1e-9, "all of it would be sent by its plain call");
  const double mine = 20e3 + 3 * (1 << 18) * (1 + 40 * (4.125 / 8 + 0.002)), rest = 20e3 + (1 << 20) * 40.0;
  ok(fabs(choice.ns[Q4] / (mine + rest + 3 * (1 << 20) * 0.25) - 1) < 1e-2,
     "with q4, the rest and three copies of a shard: %.1f ms", choice.ns[Q4] * 1e-6);
  gradient.copy_ns = 50;
  choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, -1, TAGC_REASON_no_faster, "where copies take longer than the wire");
}

static void wires(void) {
  struct tagc_slot_question slot = good_slot();
  struct tagc_gradient_stats gradient = dense();
  struct tagc_wire wire = link_of(25e6);
  struct tagc_choice choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, Q4, 0, "a dense gradient on a slow wire");
  ok(fabs(choice.plain_ns / (20e3 + 4194304 * 40.0) - 1) < 1e-9, "its plain call is estimated at %.1f ms",
     choice.plain_ns * 1e-6);
  ok(fabs(choice.ns[Q4] / (20e3 + (1 << 20) * (1 + 40 * (4.125 / 8 + 0.002))) - 1) < 1e-2, "with q4 at %.1f ms",
     choice.ns[Q4] * 1e-6);
  ok(choice.ns[LHC] == INFINITY && choice.ns[SPARSE] == INFINITY, "and codecs that lose on it are out of the question");
  wire = link_of(100e9);
  choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, -1, TAGC_REASON_no_faster, "on a fast wire");
  wire = link_of(25e6);
  slot.packed.n = 400;
  options.min_bytes = 0;
  wire.exchange.latency_ns = wire.ring.latency_ns + 1e6;
  choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, -1, TAGC_REASON_no_faster, "a gradient so small that latency counts");
}

/* The threshold: 5% and 50 us faster than plain is enough, and a little less is not. */
static void edge(uint64_t n) {
  struct tagc_slot_question slot = good_slot();
  slot.packed.n = n;
  options.min_bytes = 0;
  options.depth = 1;
  struct tagc_gradient_stats gradient = dense();
  struct tagc_wire wire = link_of(1e9);
  for (int i = 0; i < TAGC_CANDIDATES; i++)
    gradient.of[i].error = i == Q8 ? 0.0065 : INFINITY;
  gradient.of[Q8].encode_ns = gradient.of[Q8].decode_ns = 0;
  struct tagc_choice choice = tagc_choose(&slot, &gradient, &wire);
  const double gain = fmax(0.05 * choice.plain_ns, 50e3), spare = (choice.plain_ns - gain - choice.ns[Q8]) / (double)n;
  gradient.of[Q8].encode_ns = 0.999 * spare;
  choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, Q8, 0, "a little more than 5% or 50 us faster");
  gradient.of[Q8].encode_ns = 1.001 * spare;
  choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, -1, TAGC_REASON_no_faster, "a little less");
}

static void errors(void) {
  struct tagc_slot_question slot = good_slot();
  struct tagc_gradient_stats gradient = dense();
  struct tagc_wire wire = link_of(25e6);
  gradient.of[Q4].error = 0.151;
  struct tagc_choice choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, Q8, 0, "q4 errs too much");
  gradient.of[Q8].error = NAN;
  choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, BF16, 0, "an error that is no number is too much");
  gradient.of[BF16].error = 0.2;
  choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, -1, TAGC_REASON_no_faster, "all err too much");
  gradient = dense();
  gradient.of[Q8].encode_ns = 0;
  gradient.of[Q8].decode_ns = 0;
  gradient.of[Q4].encode_ns = 40 * (8.1 - 4.2) / 8 - 0.3; /* uses up nearly all that it gains over q8 */
  gradient.of[Q4].decode_ns = 0;
  choice = tagc_choose(&slot, &gradient, &wire);
  ok(choice.ns[Q4] < choice.ns[Q8] && choice.candidate == Q8,
     "q4 is faster by less than 5%%: the more exact one is taken");
}

static void sparse(void) {
  struct tagc_slot_question slot = good_slot();
  struct tagc_gradient_stats gradient = scattered();
  struct tagc_wire wire = link_of(25e6);
  struct tagc_choice choice = tagc_choose(&slot, &gradient, &wire);
  ok((choice.candidate == SPARSE || choice.candidate == LHC) && choice.keep_ppm == tagc_gradient_keep_ppm(0.02),
     "a sparse gradient on a slow wire: %s, keeping %u ppm",
     choice.candidate < 0 ? "none" : tagc_choose_name(choice.candidate), choice.keep_ppm);
  slot.packed.dtype = TAGC_FLOAT16;
  choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, Q4, 0, "fp16: nothing with a residual");
  options.given = UINT32_C(1) << TAGC_OPTION_codec;
  choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, Q4, 0, "also where TAGC_CODEC=auto was asked for");
  slot = good_slot();
  slot.residual_left = 1 << 20; /* the scales have no room */
  choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, Q4, 0, "no room for a residual");
  slot = good_slot();
  options.residual = TAGC_RESIDUAL_NONE;
  choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, Q4, 0, "TAGC_RESIDUAL=none");
  slot = good_slot();
  gradient.density = 0.3;
  choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, Q4, 0, "a density of 0.3 is not sparse");
}

/* Sixteen million elements on GPUs of 4.8 TB/s, as tune.c estimates them. Sparse codecs pay on slow wires. On a wire
 * about as fast as their launches a dense codec pays, or plain. */
static void gpus(void) {
  static const struct {
    double bytes;
    uint64_t n;
  } fast[] = {{400e9, 1 << 24}, {200e9, 1 << 22}, {50e9, 1 << 20}};
  struct tagc_candidate candidates[TAGC_CANDIDATES];
  struct tagc_slot_question slot = good_slot();
  tagc_choose_candidates(&options, candidates);
  for (int which = -1; which < 3; which++) {
    struct tagc_gradient_stats gradient = scattered();
    struct tagc_wire wire = link_of(which < 0 ? 1.25e9 : fast[which].bytes);
    slot.packed.n = which < 0 ? 1 << 24 : fast[which].n;
    wire.plain.latency_ns = wire.ring.latency_ns = wire.exchange.latency_ns = 5e3;
    for (int i = 0; i < TAGC_CANDIDATES; i++) {
      struct tagc_shape shape = slot.packed;
      const struct tagc_gpu_rates rates = {1 / 4800., 1 / (132 * 1.98 * TAGC_GPU_LANES)}; /* an H200 */
      struct tagc_gpu_cost cost = {0, 0, 0};
      shape.residual = candidates[i].residual;
      shape.keep_ppm = tagc_gradient_keep_ppm(gradient.density);
      const bool known = tagc_cuda_codec_cost(candidates[i].codec, &shape, &rates, &cost);
      gradient.of[i] = (struct tagc_codec_estimate){known ? gradient.of[i].error : INFINITY, cost.encode_ns,
                                                    cost.decode_ns, cost.call_ns};
    }
    const struct tagc_choice choice = tagc_choose(&slot, &gradient, &wire);
    const bool sparse = choice.candidate == SPARSE || choice.candidate == LHC;
    ok(sparse == (which < 0) && choice.ns[LHC] < INFINITY && (which < 0 || choice.ns[Q4] < choice.ns[LHC]),
       "on GPUs, %.5g GB/s, %llu elements: %s; plain %.0f us, q4 %.0f, sparse %.0f, lhc %.0f",
       1 / wire.plain.ns_per_byte, (unsigned long long)slot.packed.n,
       choice.candidate < 0 ? "plain" : tagc_choose_name(choice.candidate), 1e-3 * choice.plain_ns,
       1e-3 * choice.ns[Q4], 1e-3 * choice.ns[SPARSE], 1e-3 * choice.ns[LHC]);
  }
}

static void reasons(void) {
  struct tagc_slot_question slot = good_slot();
  struct tagc_gradient_stats gradient = dense();
  struct tagc_wire wire = link_of(25e6);
  struct tagc_choice choice = tagc_choose(&slot, NULL, &wire);
  is(&choice, -1, TAGC_REASON_unseen, "a slot that was not seen");
  gradient.density = 0;
  choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, -1, TAGC_REASON_unseen, "nothing but zeros");
  gradient = dense();
  choice = tagc_choose(&slot, &gradient, NULL);
  is(&choice, -1, TAGC_REASON_vote, "no probe");
  slot.packed.n = 1000;
  choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, -1, TAGC_REASON_small, "below TAGC_MIN_BYTES");
  slot = good_slot();
  slot.gradients = false;
  choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, -1, TAGC_REASON_ungathered, "activations");
}

static void probes(void) {
  const struct tagc_hosts four = {.nranks = 4};
  /* 1,024 and 1,025,024 bytes at 4 ranks: a ring of three steps of 10 us, 1 ns per byte; messages of 20 us, 2 ns. */
  struct tagc_probe probe = {
    {1024, 1025024},
    {{3 * (10e3 + 1024), 3 * (10e3 + 1025024)}, {20e3 + 2 * 3 * 1024, 20e3 + 2 * 3 * 1025024.0}, {INFINITY, INFINITY}}};
  struct tagc_wire wire = tagc_choose_wire(&four, false, &probe);
  ok(fabs(wire.ring.latency_ns - 10e3) < 1 && fabs(wire.ring.ns_per_byte - 1) < 1e-6, "the ring of a probe");
  ok(fabs(wire.exchange.latency_ns - 20e3) < 1 && fabs(wire.exchange.ns_per_byte - 2) < 1e-6 && !wire.all_to_all,
     "its messages, without ncclAlltoAll");
  probe.ns[TAGC_ROUTE_ALL_TO_ALL][0] = 30e3;
  probe.ns[TAGC_ROUTE_ALL_TO_ALL][1] = 0.96 * probe.ns[TAGC_ROUTE_SENDS][1];
  wire = tagc_choose_wire(&four, false, &probe);
  ok(!wire.all_to_all && fabs(wire.exchange.ns_per_byte - 2) < 1e-6, "ncclAlltoAll that is 4%% faster is not used");
  probe.ns[TAGC_ROUTE_ALL_TO_ALL][1] = 0.94 * probe.ns[TAGC_ROUTE_SENDS][1];
  wire = tagc_choose_wire(&four, false, &probe);
  ok(wire.all_to_all && wire.exchange.ns_per_byte < 1.9, "and one that is 6%% faster is");
  probe.ns[TAGC_ROUTE_PLAIN][1] = probe.ns[TAGC_ROUTE_PLAIN][0] / 2;
  wire = tagc_choose_wire(&four, false, &probe);
  ok(wire.ring.ns_per_byte == 0 && wire.ring.latency_ns > 0,
     "a large size that was faster than the small one: no negative times");
  probe.ns[TAGC_ROUTE_PLAIN][0] = 1;
  probe.ns[TAGC_ROUTE_PLAIN][1] = 1e9;
  wire = tagc_choose_wire(&four, false, &probe);
  ok(wire.ring.latency_ns == 0 && wire.ring.ns_per_byte > 0, "nor latencies");
}

/* Two hosts of four ranks: a plain step uses both links, the exchange only the slow one, which four ranks share. */
static void levels(void) {
  const struct tagc_hosts hosts = {8, 2, 4};
  const struct tagc_probe probe = {{1000, 1001000},
                                   {
                                     [TAGC_ROUTE_PLAIN] = {7 * (10e3 + 1000), 7 * (10e3 + 1001000)},
                                     [TAGC_ROUTE_SENDS] = {20e3 + 4 * 1000, 20e3 + 4 * 1001000},
                                     [TAGC_ROUTE_ALL_TO_ALL] = {INFINITY, INFINITY},
                                     [TAGC_ROUTE_INSIDE] = {3 * (1e3 + 10), 3 * (1e3 + 10010)},
                                     [TAGC_ROUTE_RING] = {15e3 + 5 * 1000, 15e3 + 5 * 1001000},
                                   }};
  struct tagc_wire wire = tagc_choose_wire(&hosts, true, &probe);
  ok(fabs(wire.plain.ns_per_byte - 1) < 1e-6 && fabs(wire.exchange.ns_per_byte - 4) < 1e-6 &&
       fabs(wire.inside.ns_per_byte - 0.01) < 1e-6 && fabs(wire.ring.ns_per_byte - 5) < 1e-6,
     "two levels: seven steps, one message, three steps, one step");
  struct tagc_slot_question slot = good_slot();
  struct tagc_gradient_stats gradient = dense();
  slot.hosts = hosts;
  slot.packed.n = 1 << 18;
  slot.packed.nranks = 8;
  slot.scope.two_levels = true;
  slot.packed.nranks = 2;
  struct tagc_choice choice = tagc_choose(&slot, &gradient, &wire);
  /* Seven steps of a shard; three steps of two shards inside; a message of 8.0625 bits with scales and exceptions. */
  ok(fabs(choice.plain_ns - 7 * (10e3 + 4 * 262144)) < 1, "the plain call is that of all ranks");
  ok(fabs(choice.ns[Q8] / (3 * (1e3 + 0.01 * 8 * 262144) + 20e3 + 4 * 1.01 * 262144 + 262144) - 1) < 0.01,
     "the first level, one message, and one shard to encode and decode: %g ns", choice.ns[Q8]);
  is(&choice, Q4, TAGC_REASON_compressed, "two levels");
  slot.symmetric = true;
  choice = tagc_choose(&slot, &gradient, &wire);
  ok(fabs(choice.plain_ns - (15e3 + 5 * 4 * 262144)) < 1, "in symmetric windows only the way between hosts counts");
  is(&choice, Q4, TAGC_REASON_compressed, "symmetric windows, and a slow network");
  wire.ring.ns_per_byte = wire.exchange.ns_per_byte = 0.3;
  choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, -1, TAGC_REASON_no_faster, "symmetric windows, and a fast network");
  slot.symmetric = false;
  choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, Q4, TAGC_REASON_compressed, "no windows, and a fast network");
  wire = tagc_choose_wire(&hosts, true, &probe);
  gradient = scattered();
  const uint32_t alone = tagc_gradient_keep_ppm(gradient.density);
  choice = tagc_choose(&slot, &gradient, &wire);
  ok(choice.keep_ppm == tagc_gradient_keep_ppm(4 * gradient.density) && choice.keep_ppm > 3 * alone,
     "there is room for the values of all four ranks of a host: %u of a million", choice.keep_ppm);
  slot.scope = (struct tagc_scope_plan){.reason = TAGC_REASON_one_host};
  choice = tagc_choose(&slot, &gradient, &wire);
  is(&choice, -1, TAGC_REASON_one_host, "one host");
}

/* A reduce-scatter as above, then a step of the other rank's payload. q8 fills the own shard's and reads both. */
static void all_reduces(void) {
  struct tagc_slot_question slot = good_slot();
  const struct tagc_gradient_stats gradient = dense();
  const struct tagc_wire wire = link_of(25e6);
  options.depth = 1;
  const struct tagc_choice half = tagc_choose(&slot, &gradient, &wire);
  info.signature.collective = TAGC_COLL_ALL_REDUCE;
  const struct tagc_choice choice = tagc_choose(&slot, &gradient, &wire);
  slot.codec = tagc_codec_find("q4");
  const double bytes = (double)tagc_plan_allgather_phase(&slot).layout.payload_bytes;
  is(&choice, Q4, 0, "an all-reduce on a slow wire");
  ok(choice.plain_ns == 2 * half.plain_ns, "its plain call takes twice as long");
  ok(fabs(choice.ns[Q4] - half.ns[Q4] - (20e3 + 40 * bytes + 1.5 * (1 << 20))) < 1,
     "with q4, the sums go by q8: %.1f ms instead of %.1f", 1e-6 * choice.ns[Q4], 1e-6 * choice.plain_ns);
  const double q4 = gradient.of[Q4].error, q8 = gradient.of[Q8].error, bf16 = gradient.of[BF16].error;
  ok(fabs(tagc_choose_error(&slot, &gradient, Q4) - sqrt(q4 * q4 + q8 * q8)) < 1e-9 &&
       fabs(tagc_choose_error(&slot, &gradient, Q8) - sqrt(2) * q8) < 1e-9 &&
       fabs(tagc_choose_error(&slot, &gradient, BF16) - sqrt(2) * bf16) < 1e-9,
     "what is lost of the sums is in its error");
  slot.packed.dtype = TAGC_BFLOAT16;
  ok(tagc_choose_error(&slot, &gradient, BF16) == bf16, "where they are gathered plainly nothing is");
  slot.packed.dtype = TAGC_FLOAT32;
  ok(isinf(tagc_choose_error(&slot, &gradient, SPARSE)), "what was not found is infinite");
  options.depth = 4;
  const struct tagc_choice four = tagc_choose(&slot, &gradient, &wire);
  ok(fabs(choice.ns[Q4] - four.ns[Q4] - 5. / 6 * 2.5 * (1 << 20) + 6 * 20e3) < 1,
     "in four pieces 5/6 of the work of both halves is hidden, for six latencies more: %.1f ms", 1e-6 * four.ns[Q4]);
  info.signature.collective = TAGC_COLL_REDUCE_SCATTER;
  ok(tagc_choose_error(&slot, &gradient, Q4) == q4, "a reduce-scatter loses no sums");
}

/* The sums of sparse gradients: nonzero values, of which both ranks may have all theirs. */
static void sparse_all_reduces(void) {
  struct tagc_slot_question slot = good_slot();
  struct tagc_gradient_stats gradient = scattered();
  const struct tagc_wire wire = link_of(25e6);
  options.depth = 1;
  const struct tagc_choice half = tagc_choose(&slot, &gradient, &wire);
  info.signature.collective = TAGC_COLL_ALL_REDUCE;
  const struct tagc_choice device = tagc_choose(&slot, &gradient, &wire);
  slot.host_memory = true;
  const struct tagc_choice host = tagc_choose(&slot, &gradient, &wire);
  slot.codec = tagc_codec_find("sparse");
  const double q8 = (double)tagc_plan_allgather_phase(&slot).layout.payload_bytes,
               support = (double)tagc_support_bytes(1 << 20, TAGC_FLOAT32, (uint64_t)(0.04 * (1 << 20)));
  const double asked = 2 * 20e3 + 40 * support + 1.5 * (1 << 20);
  ok(device.waits_for_sums[SPARSE] && fabs(device.ns[SPARSE] - (2 * half.ns[SPARSE] + TAGC_GPU_WAIT_NS + asked)) < 1,
     "a sparse all-reduce on a GPU: the host waits for the first half, and nonzero sums go, in %.1f ms",
     1e-6 * device.ns[SPARSE]);
  ok(!device.waits_for_sums[Q4] && !host.waits_for_sums[SPARSE], "with q4 nobody waits, nor on host memory");
  ok(fabs(host.ns[SPARSE] - half.ns[SPARSE] - asked) < 1,
     "on host memory: nonzero sums, for a latency more, in %.1f ms", 1e-6 * host.ns[SPARSE]);
  is(&host, SPARSE, 0, "which is chosen");
  ok(tagc_choose_error(&slot, &gradient, SPARSE) == gradient.of[SPARSE].error, "and loses nothing of the sums");
  options.sums = TAGC_SUMS_EXACT;
  const struct tagc_choice kept = tagc_choose(&slot, &gradient, &wire);
  ok(kept.ns[SPARSE] == host.ns[SPARSE] && tagc_choose_error(&slot, &gradient, Q4) == gradient.of[Q4].error &&
       fabs(kept.ns[Q4] - half.ns[Q4] - (20e3 + 40. * 4 * (1 << 20))) < 1,
     "TAGC_SUMS=exact: the same for sparse; behind q4 plain sums, in %.1f ms", 1e-6 * kept.ns[Q4]);
  const struct tagc_wire quick = link_of(1e9);
  slot.host_memory = false;
  ok(tagc_choose(&slot, &gradient, &quick).waits_for_sums[SPARSE], "and on a GPU the host waits over any wire");
  slot.host_memory = true;
  options.sums = TAGC_SUMS_AUTO;
  gradient.density = 0.13;
  const struct tagc_choice denser = tagc_choose(&slot, &gradient, &wire);

  slot.host_memory = false;
  const struct tagc_choice alone = tagc_choose(&slot, &gradient, &wire);
  ok(!alone.waits_for_sums[SPARSE] && denser.ns[SPARSE] == alone.ns[SPARSE] + 20e3,
     "too many for that: q8, and on host memory the latency of the question");
  gradient.density = 0.02;
  const struct tagc_wire fast = link_of(1e9);
  const struct tagc_choice hurried = tagc_choose(&slot, &gradient, &fast);
  info.signature.collective = TAGC_COLL_REDUCE_SCATTER;
  const struct tagc_choice hurried_half = tagc_choose(&slot, &gradient, &fast);
  info.signature.collective = TAGC_COLL_ALL_REDUCE;
  ok(!hurried.waits_for_sums[SPARSE] &&
       fabs(hurried.ns[SPARSE] - hurried_half.ns[SPARSE] - (20e3 + q8 + 1.5 * (1 << 20))) < 1,
     "over a fast wire a wait takes longer than it saves: q8");
  gradient.density = 0.13;
  slot.host_memory = true;
  ok(tagc_choose_error(&slot, &gradient, SPARSE) > gradient.of[SPARSE].error, "which loses some");
  info.signature.collective = TAGC_COLL_REDUCE_SCATTER;
}

/* Codecs are compared with the number of pieces that each would have. */
static void pieces(void) {
  struct tagc_slot_question slot = good_slot();
  struct tagc_gradient_stats gradient = dense();
  const struct tagc_wire wire = link_of(250e6);
  slot.packed.n = 4 << 20;
  for (int i = 0; i < TAGC_CANDIDATES; i++)
    gradient.of[i].error = i == Q8 || i == Q4 ? gradient.of[i].error : INFINITY;
  gradient.of[Q4].encode_ns = gradient.of[Q4].decode_ns = 1.5; /* together 2.5 ns more than q8, of which its wire saves
                                                                  2 */
  gradient.of[Q8].encode_ns = gradient.of[Q8].decode_ns = 0.25;
  options.depth = 1;
  const struct tagc_choice one = tagc_choose(&slot, &gradient, &wire);
  is(&one, Q8, 0, "in one piece: q4 is dearer by more than it saves");
  options.depth = 0;
  const struct tagc_choice four = tagc_choose(&slot, &gradient, &wire);
  is(&four, Q4, 0, "in four, which hide that");
  ok(one.chunks[Q4] == 1 && one.chunks[Q8] == 1 && four.chunks[Q4] == 4 && four.chunks[BF16] == 0,
     "and so many pieces are said with it");
  ok(fabs(one.ns[Q4] / (20e3 + (4 << 20) * (3 + 4 * 4.141 / 8)) - 1) < 1e-3 && four.ns[Q4] < one.ns[Q4],
     "q4: %.1f ms in one, %.1f in four", 1e-6 * one.ns[Q4], 1e-6 * four.ns[Q4]);
  gradient.of[Q4].error = INFINITY;
  gradient.of[Q8].encode_ns = gradient.of[Q8].decode_ns = 6; /* with the wire's 4 ns as much as the plain call */
  options.depth = 1;
  const struct tagc_choice plain = tagc_choose(&slot, &gradient, &wire);
  is(&plain, -1, TAGC_REASON_no_faster, "what takes as long as the plain call in one piece");
  options.depth = 0;
  const struct tagc_choice cut = tagc_choose(&slot, &gradient, &wire);
  is(&cut, Q8, 0, "and less in several");
  /* Slower than the plain call in one piece, and the fastest in four. */
  gradient.of[BF16] = (struct tagc_codec_estimate){0.0017, 5, 5, 0};
  gradient.of[Q8].encode_ns = gradient.of[Q8].decode_ns = 5.4;
  const struct tagc_choice kept = tagc_choose(&slot, &gradient, &wire);
  ok(kept.candidate == Q8 && kept.ns[BF16] < kept.ns[Q8],
     "what would be chosen in one piece is kept: bf16 %.1f ms, q8 %.1f ms", 1e-6 * kept.ns[BF16], 1e-6 * kept.ns[Q8]);
  gradient.of[Q8].encode_ns = gradient.of[Q8].decode_ns = 5.55;
  const struct tagc_choice left = tagc_choose(&slot, &gradient, &wire);
  ok(left.candidate == BF16, "unless another one is 5%% faster: bf16 %.1f ms, q8 %.1f ms", 1e-6 * left.ns[BF16],
     1e-6 * left.ns[Q8]);
  gradient = scattered();
  const struct tagc_choice sketch = tagc_choose(&slot, &gradient, &wire);
  ok(sketch.ns[LHC] < INFINITY && sketch.chunks[LHC] > 1, "lhc goes in pieces, too");
}

static void is_gathered(const struct tagc_allgather_shape *shape, const struct tagc_parameter_stats *stats,
                        const struct tagc_wire *wire, enum tagc_reason reason, const char *what) {
  const enum tagc_reason got = tagc_choose_allgather(shape, stats, wire);
  ok(got == reason, "%s: %s", what, got == TAGC_REASON_NONE ? "exact" : tagc_reason_words(got));
}

/* A million elements of bf16 a rank, two ranks: 2 bits of 16, and 3 ns for each element of a call. */
static void allgathers(void) {
  const struct tagc_allgather_shape shape = {1 << 20, 2, TAGC_BFLOAT16}, many = {1 << 20, 8, TAGC_BFLOAT16};
  const struct tagc_parameter_stats stats = {.bits = 2, .encode_ns = 1, .decode_ns = 1}, all = {16, 0, 0, 0},
                                    unknown = {INFINITY, INFINITY, INFINITY, 0};
  const struct tagc_wire slow = link_of(100e6), fast = link_of(1e9), latency = {.plain = {.latency_ns = 1e9}};
  is_gathered(&shape, &stats, &slow, TAGC_REASON_NONE, "17.5 ms less to send, 3 ms more to compute");
  is_gathered(&shape, &stats, &fast, TAGC_REASON_allgather_slower, "1.7 ms less to send");
  const struct tagc_parameter_stats waits = {.bits = 2, .call_ns = 1e6}, long_waits = {.bits = 2, .call_ns = 2e6};
  is_gathered(&shape, &waits, &fast, TAGC_REASON_NONE, "1.7 ms less to send, and the host waits 1 ms");
  is_gathered(&shape, &long_waits, &fast, TAGC_REASON_allgather_slower, "1.7 ms less to send, and the host waits 2 ms");
  is_gathered(&shape, &all, &slow, TAGC_REASON_allgather_slower, "nothing less to send");
  is_gathered(&shape, &stats, &latency, TAGC_REASON_allgather_slower, "bytes that cost nothing");
  is_gathered(&shape, &unknown, &slow, TAGC_REASON_unseen, "unknown parameters");
  is_gathered(&shape, &stats, NULL, TAGC_REASON_vote, "an unknown wire");
  is_gathered(&many, &stats, &fast, TAGC_REASON_NONE, "eight ranks: 12.9 ms less to send, 9.4 ms more to compute");
  ok(tagc_choose_allgather_plain_ns(&many, &slow) == 7 * (20e3 + (2 << 20) * 10.0) &&
       tagc_choose_allgather_ns(&many, &stats, &slow, 1000) == (1 << 20) * 9.0 + 7 * (20e3 + 1000 * 10.0),
     "the times of a call");
  const double plain_ns = tagc_choose_allgather_plain_ns(&shape, &slow);
  const struct tagc_parameter_stats edge = {16, 0, 0.049 * plain_ns / (2 << 20), 0};
  struct tagc_parameter_stats less = edge;
  less.bits = 14.4; /* 10% less */
  is_gathered(&shape, &less, &slow, TAGC_REASON_NONE, "5.1% less");
  less.decode_ns *= 1.05;
  is_gathered(&shape, &less, &slow, TAGC_REASON_allgather_slower, "4.9% less");
  tagc_options_default(&options);
  ok(tagc_choose_allgathers_may(&options), "auto is the default");
  options.codec = "q4";
  ok(!tagc_choose_allgathers_may(&options), "a named codec measures no wire");
}

/* Codecs with a measurable loss are for a budget alone. */
static void candidates_of(void) {
  struct tagc_candidate usual[TAGC_CANDIDATES], all[TAGC_CANDIDATES];
  tagc_options_default(&options);
  tagc_choose_candidates(&options, usual);
  options.budget.kind = TAGC_BUDGET_ERROR;
  tagc_choose_candidates(&options, all);
  options.budget.kind = TAGC_BUDGET_NONE;
  for (int i = 0; i < TAGC_CANDIDATES; i++) {
    const char *name = tagc_choose_name(i);
    const bool lossy = strcmp(name, "q3") == 0 || strcmp(name, "q2") == 0;
    ok(all[i].codec && (usual[i].codec == NULL) == lossy, "%s: %s", name, lossy ? "for a budget" : "always");
  }
}

int main(void) {
  candidates_of();
  wires();
  allgathers();
  all_reduces();
  sparse_all_reduces();
  pieces();
  parts();
  edge(1 << 20); /* plain: 4 ms */
  edge(100000);
  errors();
  sparse();
  gpus();
  reasons();
  probes();
  levels();
  return tap_done();
}
