/* SPDX-License-Identifier: BSD-3-Clause
 * Programs that gather and reduce-scatter activations, with or without parameters and gradients: which reduce-scatters
 * count as gradients (layermap/cycle/activations.h).
 */
#include <string.h>

#include "tests/unit/watch.h"

enum { LAYERS = 4, MANY_LAYERS = 12, STEPS = 80, RANKS = 8 };
enum { TOKENS = 5000, PROBABILITIES = 700, FEATURES = 4096, OTHER_FEATURES = 3000, REPLICATED = 9000000 };

static struct tape tape;

static void allgather(uint64_t count) { tape_add(&tape, TAGC_COLL_ALL_GATHER, count, HALF, -1); }

static void reduce(uint64_t count, int op) {
  tape_add(&tape, TAGC_COLL_REDUCE_SCATTER, count, HALF, -1);
  tape.calls[tape.count - 1].signature.op = (uint8_t)op;
}

static void norm(void) { tape_add(&tape, TAGC_COLL_ALL_REDUCE, 1, FLOAT, -1); }

/* Units of a model: the root, and equal blocks. */
static uint64_t unit(int scale, int i) { return (uint64_t)(i ? 4099 : 2048) * (uint64_t)scale; }

static void forward(int scale) {
  for (int i = 0; i <= LAYERS; i++)
    allgather(unit(scale, i));
}

static void backward(int scale, int op, bool reduces) {
  for (int i = LAYERS; i >= 0; i--) {
    if (i)
      allgather(unit(scale, i));
    if (reduces)
      reduce(unit(scale, i), op);
  }
}

/* ---- programs: one step each ------------------------------------------------------------------------------------- */

/* Megatron-core's MoEAllGatherTokenDispatcher (megatron/core/transformer/moe/token_dispatcher.py), on its own comm. */
static void dispatch_tokens(void) {
  tape_add(&tape, TAGC_COLL_ALL_GATHER, PROBABILITIES, BYTES, -1);
  allgather(PROBABILITIES);
  allgather(TOKENS);
  reduce(TOKENS, TAGC_CODE_SUM);
}

static void moe(void) {
  for (int i = 0; i < LAYERS; i++)
    dispatch_tokens();
  for (int i = 0; i < LAYERS; i++) {
    allgather(TOKENS);
    reduce(TOKENS, TAGC_CODE_SUM);
    reduce(PROBABILITIES, TAGC_CODE_SUM);
  }
}

static void moe_recomputed(void) {
  for (int i = 0; i < LAYERS; i++)
    dispatch_tokens();
  for (int i = 0; i < LAYERS; i++) {
    dispatch_tokens();
    allgather(TOKENS);
    reduce(PROBABILITIES, TAGC_CODE_SUM);
    reduce(TOKENS, TAGC_CODE_SUM);
  }
  norm();
}

/* A forward pass of layers that attend to an encoder. */
static void decode_forward(int layers) {
  for (int i = 0; i < layers; i++) {
    allgather(TOKENS);
    allgather(FEATURES);
    reduce(TOKENS, TAGC_CODE_SUM);
  }
}

/* Sequence parallelism with a decoder that attends to an encoder: the gradients of weights gather the inputs again. */
static void cross_attention(void) {
  decode_forward(LAYERS);
  for (int i = 0; i < LAYERS; i++) {
    allgather(TOKENS);
    allgather(TOKENS);
    allgather(FEATURES);
    reduce(FEATURES, TAGC_CODE_SUM);
    reduce(TOKENS, TAGC_CODE_SUM);
  }
}

/* Its backward pass repeats a few calls that look like a step of two units. */
static void row_of_layers(void) {
  decode_forward(MANY_LAYERS);
  for (int i = 0; i < MANY_LAYERS; i++) {
    allgather(TOKENS);
    allgather(FEATURES);
    reduce(FEATURES, TAGC_CODE_SUM);
    allgather(TOKENS);
    reduce(TOKENS, TAGC_CODE_SUM);
  }
  norm();
}

/* A contrastive loss: the features of all ranks, gathered with their gradients. */
static void features(uint64_t second) {
  allgather(FEATURES);
  allgather(second);
  reduce(second, TAGC_CODE_SUM);
  reduce(FEATURES, TAGC_CODE_SUM);
}

static void features_of_replicas(void) {
  features(OTHER_FEATURES);
  tape_add(&tape, TAGC_COLL_ALL_REDUCE, REPLICATED, FLOAT, -1);
  tape.calls[tape.count - 1].signature.op = TAGC_CODE_SUM;
}

static void features_of_fsdp2(void) {
  forward(1);
  features(FEATURES);
  backward(1, TAGC_CODE_AVERAGE, true);
  norm();
}

static void fsdp1(void) {
  forward(1);
  backward(1, TAGC_CODE_SUM, true);
}

static void fsdp1_accumulated(void) {
  for (int i = 0; i < 3; i++) {
    forward(1);
    backward(1, TAGC_CODE_SUM, false);
  }
  fsdp1();
  norm();
}

static void fsdp1_reduced_each_time(void) {
  for (int i = 0; i < 4; i++)
    fsdp1();
  norm();
}

static void fsdp1_evaluated(void) {
  fsdp1();
  forward(1);
  norm();
}

/* A network and its critic, which takes three steps by itself. */
static void fsdp1_critic(void) {
  for (int i = 0; i < 3; i++) {
    forward(1);
    forward(3);
    forward(3);
    backward(3, TAGC_CODE_SUM, true);
    norm();
  }
  forward(1);
  forward(3);
  backward(3, TAGC_CODE_SUM, false);
  backward(1, TAGC_CODE_SUM, true);
  norm();
}

static void megatron(void) {
  for (int i = 0; i < 4; i++)
    reduce(i < 3 ? 40000 : 25000, TAGC_CODE_SUM);
  norm();
  for (int i = 0; i < 4; i++)
    allgather(i < 3 ? 40000 : 25000);
}

/* The chunks of an interleaved pipeline are alike. */
static void megatron_interleaved(void) {
  for (int i = 0; i < 4; i++)
    reduce(i % 2 ? 40000 : 25000, TAGC_CODE_SUM);
  norm();
  for (int i = 0; i < 4; i++)
    allgather(i % 2 ? 40000 : 25000);
}

static const struct {
  const char *what;
  void (*step)(void);
  unsigned gradients, slots; /* of a step */
} programs[] = {
  {"experts whose tokens are gathered", moe, 0, 3 * LAYERS},
  {"the same, recomputed", moe_recomputed, 0, 4 * LAYERS},
  {"sequence parallelism with cross-attention", cross_attention, 0, 3 * LAYERS},
  {"the same, many layers", row_of_layers, 0, 3 * MANY_LAYERS},
  {"features, and replicas", features_of_replicas, 0, 2},
  {"features, and FSDP2, which averages", features_of_fsdp2, LAYERS + 1, LAYERS + 3},
  {"FSDP1, which sums", fsdp1, LAYERS + 1, LAYERS + 1},
  {"FSDP1, accumulated", fsdp1_accumulated, LAYERS + 1, LAYERS + 1},
  {"FSDP1, evaluated in each step", fsdp1_evaluated, LAYERS + 1, LAYERS + 1},
  {"FSDP1, a network and its critic", fsdp1_critic, 4 * (LAYERS + 1), 4 * (LAYERS + 1)},
  {"Megatron", megatron, 4, 4},
  {"Megatron, interleaved", megatron_interleaved, 4, 4},
};

static void test_program(size_t i, uint32_t warmup) {
  const struct tagc_cycle_options options = {warmup, 256, RANKS};
  struct watch w = {.cycle = tagc_cycle_create(&options)};
  for (int step = 0; step < STEPS; step++)
    programs[i].step();
  play(&w, &tape);
  programs[i].step();
  unsigned gradients = 0, slots = 0;
  for (size_t call = 0; call < tape.count; call++) {
    size_t count;
    tagc_cycle_observe(w.cycle, &tape.calls[call].signature, &w.last);
    slots += w.last.slot >= 0;
    gradients +=
      w.last.slot >= 0 && tagc_cycle_is_gradients(w.cycle) && tagc_cycle_slots(w.cycle, &count)[w.last.slot].evident;
  }
  tape_free(&tape);
  ok(gradients == programs[i].gradients && slots == programs[i].slots,
     "%s, warm-up %u: %u of %u reduce-scatters are evidently of gradients, %u must be", programs[i].what, warmup,
     gradients, slots, programs[i].gradients);
  tagc_cycle_destroy(w.cycle);
}

int main(void) {
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
    for (uint32_t warmup = 0; warmup < 2; warmup++)
      test_program(i, warmup);
  const struct tagc_cycle_options options = {1, 256, RANKS};
  struct watch w = {.cycle = tagc_cycle_create(&options)};
  for (int step = 0; step < STEPS; step++)
    fsdp1_reduced_each_time();
  play(&w, &tape);
  ok(tagc_cycle_is_gradients(w.cycle), "FSDP1 that reduces in each micro-batch: gradients");
  tagc_cycle_destroy(w.cycle);
  return tap_done();
}
