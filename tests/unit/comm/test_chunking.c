/* SPDX-License-Identifier: BSD-3-Clause
 * The number of pieces of a compressed call (interpose/comm/chunking.h): requested, default, by auto's estimates.
 */
#include <stdlib.h>
#include <string.h>

#include "interpose/policy/chunk_count.h"
#include "interpose/comm/chunking.h"
#include "interpose/comm/slot.h"
#include "interpose/nccl/process.h"
#include "tests/unit/tap.h"

static struct tagc_options options;

static int plan(const char *codec, uint64_t n, int nranks, int depth, const struct tagc_call_times *times) {
  const struct tagc_codec *its = tagc_codec_find(codec);
  const struct tagc_shape shape = {.n = n, .nranks = nranks, .keep_ppm = 50000, .residual = TAGC_STORAGE_FP32};
  struct tagc_layout layout;
  options.depth = (uint64_t)depth;
  return its->layout(&shape, &layout) ? tagc_chunk_count(&options, its, &shape, &layout, times) : -1;
}

static void check_asked_for(void) {
  ok(plan("q8", 1 << 20, 2, 1, NULL) == 1 && plan("q4", 1, 2, 16, NULL) == 1 &&
       plan("q4", 30 << 12, 2, 16, NULL) == 16 && plan("sparse", 1 << 20, 2, 7, NULL) == 7,
     "TAGC_DEPTH says it, where a call can be cut at all");
  ok(plan("lhc", 1 << 24, 4, 4, NULL) == 4, "lhc, too: it can measure its exponents before");
  struct tagc_codec blind = *tagc_codec_find("lhc");
  const struct tagc_layout exponents = {.exponent_bytes = 16};
  blind.measure = NULL;
  ok(!tagc_chunks_possible(&blind, &exponents), "but no codec with exponents that it cannot measure");
}

static void check_by_itself(void) {
  ok(plan("q8", 1 << 19, 2, 0, NULL) == 1 && plan("q8", 1 << 20, 2, 0, NULL) == 2 &&
       plan("q8", 1 << 24, 2, 0, NULL) == 4,
     "by itself: large calls in four pieces, small ones in one");
  int last = 1, wrong = 0;
  for (uint64_t n = 1; n < 1 << 22; n = n * 5 / 4 + 1) {
    const int depth = plan("q4", n, 3, 0, NULL);
    wrong += depth < last || depth > 4;
    last = depth;
  }
  ok(wrong == 0 && last == 4, "never fewer for more");
}

static void check_chosen(void) {
  const struct tagc_call_times worth = {.encode_ns = 3e6, .decode_ns = 3e6, .wire_ns = 10e6, .latency_ns = 5e4};
  const struct tagc_call_times slow_start = {.encode_ns = 3e6, .decode_ns = 3e6, .wire_ns = 10e6, .latency_ns = 9e6};
  const struct tagc_call_times little = {.encode_ns = 1e5, .decode_ns = 1e5, .wire_ns = 10e6, .latency_ns = 5e4};
  const struct tagc_call_times starts = {.encode_ns = 3e6, .decode_ns = 3e6, .wire_ns = 10e6, .latency_ns = 6e5};
  const int chosen = plan("q4", 1 << 24, 2, 0, &worth);
  ok(chosen > 1 && chosen <= 4, "auto: cut where that is expected to be faster: %d pieces", chosen);
  ok(plan("q4", 1 << 24, 2, 0, &starts) == 3,
     "in three where the fourth costs more than it hides: 4.5 ms less 1.2, 5 less 1.8");
  ok(plan("q4", 1 << 24, 2, 0, &slow_start) == 1 && plan("q4", 1 << 24, 2, 0, &little) == 1,
     "not where each exchange takes its time, nor for next to nothing");
  ok(plan("q4", 1 << 24, 2, 5, &slow_start) == 5, "but always as TAGC_DEPTH says");
}

enum { SHARD = 300001 };
static float gradients[3 * SHARD];

static struct tagc_slot slot_of(const char *codec) {
  return (struct tagc_slot){.packed = {.n = SHARD, .nranks = 3, .keep_ppm = 50000, .residual = TAGC_STORAGE_INT8},
                            .codec = tagc_codec_find(codec)};
}

/* A slot in pieces: their layouts, and all of them in the allocated memory. */
static void check_slot(void) {
  struct tagc_slot slot = slot_of("q4");
  struct tagc_job job = {.shape = slot.packed, .seed = 5, .send = gradients, .recv = gradients}, piece[TAGC_CHUNKS];
  ok(tagc_chunking_set(&tagc_device_host, &slot, 4) && slot.chunking.chunks.count == 4, "a slot in four pieces");
  const size_t bytes = tagc_chunking_assign(&slot, &job, NULL, NULL);
  uint8_t *memory = aligned_alloc(64, bytes);
  size_t messages = 0;
  bool inside = tagc_chunking_assign(&slot, &job, piece, memory) == bytes;
  for (int k = 0; k < 4; k++) {
    messages += piece[k].layout.message_bytes;
    inside &= piece[k].message_out >= memory &&
              piece[k].message_in + 3 * piece[k].layout.message_bytes <= memory + bytes &&
              (k == 0 || piece[k].message_out >= piece[k - 1].message_in + 3 * piece[k - 1].layout.message_bytes);
  }
  ok(inside && messages == slot.layout.message_bytes, "their payloads lie one behind the other, in so many bytes");
  free(memory);
  struct tagc_layout whole;
  ok(tagc_chunking_set(&tagc_device_host, &slot, 1) && slot.chunking.chunks.count == 1 &&
       slot.codec->layout(&slot.packed, &whole) && whole.message_bytes == slot.layout.message_bytes,
     "and in one again");
}

/* Exponents of all pieces go in one exchange: they fill its memory, one piece behind the other. */
static void check_exponents(void) {
  struct tagc_slot slot = slot_of("lhc");
  struct tagc_job job = {.shape = slot.packed, .seed = 5, .send = gradients, .recv = gradients}, piece[TAGC_CHUNKS];
  ok(tagc_chunking_set(&tagc_device_host, &slot, 4) && slot.chunking.chunks.count == 4, "lhc in four pieces");
  const size_t bytes = tagc_chunking_assign(&slot, &job, NULL, NULL);
  uint8_t *memory = aligned_alloc(64, bytes);
  bool inside = tagc_chunking_assign(&slot, &job, piece, memory) == bytes && job.exponents == memory;
  const uint8_t *end = job.exponents;
  for (int k = 0; k < 4; k++) {
    inside &= piece[k].layout.exponent_bytes > 0 && piece[k].exponents == end;
    end += 3 * piece[k].layout.exponent_bytes;
  }
  inside &= end == job.exponents + 3 * slot.layout.exponent_bytes;
  for (int k = 0; k < 4; k++)
    inside &= (const uint8_t *)piece[k].sketch_out >= end && piece[k].message_out >= end;
  ok(inside, "their exponents fill the memory of one exchange, and nothing else lies there");
  free(memory);
}

static size_t sent_bytes(const struct tagc_slot *slot) {
  return slot->layout.message_bytes + slot->layout.sketch_count * sizeof(int32_t);
}

/* A stage of TAGC_SPARSITY has sizes of its own, and the chunks of the others: the residual lies chunk by chunk. */
static void check_stages(void) {
  static const char *const codecs[] = {"lhc", "sparse"};
  char why[400];
  tagc_options_set((struct tagc_options *)(uintptr_t)tagc_library_options(), "TAGC_SPARSITY", "0.5,0.9@10", why,
                   sizeof why);
  for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
    struct tagc_slot slot = slot_of(codecs[i]);
    slot.packed.keep_ppm = 500000;
    bool good = tagc_chunking_set(&tagc_device_host, &slot, 3);
    const struct tagc_slot before = slot;
    good &= tagc_chunking_set_stage(&tagc_device_host, &slot, 1, 3);
    ok(good && slot.stages.now == 1 && slot.packed.keep_ppm == 100000 && sent_bytes(&slot) < sent_bytes(&before),
       "%s: the next stage sends less", codecs[i]);
    ok(memcmp(&slot.chunking.chunks, &before.chunking.chunks, sizeof slot.chunking.chunks) == 0, "in the same chunks");
    good = tagc_chunking_set_stage(&tagc_device_host, &slot, 0, 3);
    ok(good && memcmp(&slot, &before, sizeof slot) == 0, "and back");
    slot.packed.n = 0; /* no codec has that */
    good = !tagc_chunking_set_stage(&tagc_device_host, &slot, 1, 3);
    ok(good && slot.stages.now == 0 && slot.packed.keep_ppm == 500000, "an impossible stage changes nothing");
  }
}

int main(void) {
  tagc_options_default(&options);
  check_asked_for();
  check_by_itself();
  check_chosen();
  check_slot();
  check_exponents();
  check_stages();
  return tap_done();
}
