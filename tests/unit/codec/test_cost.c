/* SPDX-License-Identifier: BSD-3-Clause
 * The cost model against cases computed by hand: bytes and nanoseconds of the exchanges of four ranks and of two, of
 * codecs on a GPU, and of calls in chunks, also against a pipeline computed step by step.
 */
#include <stdlib.h>

#include "kernels/codec/codecs.h"
#include "kernels/codec/cost.h"
#include "kernels/cuda/codecs.h"
#include "kernels/codec/chunks.h"
#include "tests/unit/tap.h"

/* A link of 5 microseconds and 10 Gbit/s: 0.8 ns a byte. And one for messages, twice as fast with half the latency. */
static const struct tagc_link ring = {.latency_ns = 5000, .ns_per_byte = 0.8};
static const struct tagc_link direct = {.latency_ns = 2500, .ns_per_byte = 0.4};

static int near(double a, double b) { return a > b ? a - b <= 1e-9 * b : b - a <= 1e-9 * b; }

static void check_plain(void) {
  const struct tagc_shape four = {.n = 1000, .nranks = 4, .dtype = TAGC_FLOAT32};
  const struct tagc_shape two = {.n = 1000, .nranks = 2, .dtype = TAGC_BFLOAT16};
  ok(tagc_plain_wire_bytes(&four) == 12000 && tagc_plain_wire_bytes(&two) == 2000,
     "plain: three shards of 4,000 bytes; one of 2,000");
  /* 3 steps of 5,000 + 4,000 * 0.8 = 8,200; one of 5,000 + 2,000 * 0.8. */
  ok(near(tagc_plain_wire_ns(&four, &ring), 24600) && near(tagc_plain_wire_ns(&two, &ring), 6600),
     "plain: 24.6 and 6.6 microseconds");
}

/* Eight ranks on two hosts. */
static void check_levels(void) {
  const struct tagc_hosts two_of_four = {8, 2, 4}, one = {8, 1, 8}, alone = {8, 8, 1}, uneven = {8, 2, 3},
                          unknown = {.nranks = 8};
  const struct tagc_shape all = {.n = 1000, .nranks = 8, .dtype = TAGC_FLOAT32};
  const struct tagc_layout layout = {.message_bytes = 1040, .capacity = 1000};
  const struct tagc_layout sketch = {.message_bytes = 160, .exponent_bytes = 16, .sketch_count = 320, .capacity = 1};
  struct tagc_traffic t = tagc_plain_traffic(4000, &two_of_four);
  ok(t.between == 7000 && t.inside == 21000, "plain: of seven shards of 4,000 bytes a quarter leaves the host");
  t = tagc_plain_traffic(4000, &uneven);
  ok(t.between == 7000 && t.inside == 21000, "plain: as many hosts as edges between them, whoever lives on them");
  t = tagc_plain_traffic(4000, &one);
  ok(t.between == 0 && t.inside == 28000, "plain: on one host nothing leaves it");
  t = tagc_plain_traffic(4000, &alone);
  ok(t.between == 28000 && t.inside == 0, "plain: with a host for each rank everything does");
  t = tagc_layout_traffic(&all, &layout, &two_of_four, false);
  ok(t.between == 4 * 1040 && t.inside == 3 * 1040, "flat: a message to each rank, four of seven to the other host");
  t = tagc_layout_traffic(&all, &layout, &uneven, false);
  ok(t.between == 5 * 1040 && t.inside == 2 * 1040, "flat, on uneven hosts: what this rank's host makes of it");
  t = tagc_layout_traffic(&all, &layout, &unknown, false);
  ok(t.between == 0 && t.inside == 7 * 1040, "flat, on unknown hosts: as if on one");
  t = tagc_layout_traffic(&all, &layout, &two_of_four, true);
  ok(t.between == 1040 && t.inside == 3 * 8000, "two levels: one message, after three steps of two shards");
  t = tagc_layout_traffic(&all, &sketch, &two_of_four, true);
  ok(t.between == 160 + 2 * 16 + 4 * 320, "two levels: a ring of one rank a host carries exponents and sketch");
  t = tagc_layout_traffic(&all, &sketch, &two_of_four, false);
  ok(t.between == 4 * 160 + 7 * (2 * 16 + 4 * 320) / 4, "flat: a ring of all ranks does");
  /* Three steps of 5,000 + 8,000 * 0.8. */
  ok(near(tagc_host_sum_ns(&all, &two_of_four, &ring), 3 * 11400) && tagc_host_sum_ns(&all, &alone, &ring) == 0,
     "the sum of a host: 34.2 microseconds; nothing for one rank");
}

static int same(struct tagc_link link, double latency_ns, double ns_per_byte, double message_ns) {
  return near(link.latency_ns, latency_ns) && near(link.ns_per_byte, ns_per_byte) && near(link.message_ns, message_ns);
}

/* Inside a host 1 microsecond and 0.1 ns per byte for each rank; between hosts 5 and 0.8 for all of them. */
static void check_links(void) {
  const struct tagc_hosts two_of_four = {8, 2, 4}, four_of_two = {8, 4, 2}, uneven = {8, 2, 3};
  const struct tagc_hosts one = {8, 1, 8}, alone = {4, 4, 1};
  const struct tagc_link inside = {1000, 0.1, 100}, between = {5000, 0.8, 800};
  struct tagc_links l = tagc_links_among(&two_of_four, &inside, &between, false);
  /* One of the seven steps is between the hosts. Messages: 4 ranks send 4 each to the other host, 16 * 0.8 over 7. */
  ok(same(l.ring, (6 * 1000 + 5000) / 7., 0.8, 0),
     "flat, a ring: the rate of its slowest edge, and the latencies on the way");
  ok(same(l.all_to_all, 5000, 12.8 / 7, (4 * 800 + 3 * 100) / 7.), "flat, messages: the host's 16 share what it has");
  l = tagc_links_among(&four_of_two, &inside, &between, false);
  ok(same(l.ring, (4 * 1000 + 3 * 5000) / 7., 0.8, 0) &&
       same(l.all_to_all, 5000, 2 * 6 * 0.8 / 7, (6 * 800 + 100) / 7.),
     "and with four hosts of two: three slow steps, and twelve messages");
  l = tagc_links_among(&uneven, &inside, &between, false);
  ok(same(l.ring, (6 * 1000 + 5000) / 7., 0.8, 0) &&
       same(l.all_to_all, 5000, 3 * 5 * 0.8 / 7, (5 * 800 + 2 * 100) / 7.),
     "on uneven hosts: what this rank's host makes of it");
  l = tagc_links_among(&two_of_four, &between, &inside, false);
  ok(same(l.ring, (6 * 5000 + 1000) / 7., 0.8, 0) && same(l.all_to_all, 5000, 3 * 0.8 / 7, (4 * 100 + 3 * 800) / 7.),
     "where the inside is slower, it decides");
  l = tagc_links_among(&two_of_four, &inside, &between, true);
  ok(same(l.ring, 5000, 3.2, 800) && same(l.all_to_all, 5000, 3.2, 800),
     "two levels: four exchanges share what the host has");
  l = tagc_links_among(&one, &inside, &between, false);
  ok(same(l.ring, 1000, 0.1, 100) && same(l.all_to_all, 1000, 0.1, 100), "one host: what is inside");
  l = tagc_links_among(&alone, &inside, &between, false);
  ok(same(l.ring, 5000, 0.8, 0) && same(l.all_to_all, 5000, 0.8, 800), "a host for each rank: what is between");
  l = tagc_links_among(&alone, &inside, &between, true);
  ok(same(l.ring, 5000, 0.8, 800) && same(l.all_to_all, 5000, 0.8, 800), "on one level or two");
}

/* Shards of 1,000 on two hosts of four, in messages of 1,040 bytes; and the longest ones on 512 hosts of eight. */
static void check_both_levels(void) {
  const struct tagc_hosts two_of_four = {8, 2, 4}, most = {4096, 512, 8};
  const struct tagc_shape all = {.n = 1000, .nranks = 8, .dtype = TAGC_FLOAT32};
  const struct tagc_shape one_a_host = {.n = 1000, .nranks = 2, .dtype = TAGC_FLOAT32};
  const struct tagc_layout layout = {.message_bytes = 1040, .capacity = 1000};
  const struct tagc_link inside = {1000, 0.1, 0}, between = {5000, 0.8, 0};
  const struct tagc_links flat = tagc_links_among(&two_of_four, &inside, &between, false);
  const struct tagc_links levels = tagc_links_among(&two_of_four, &inside, &between, true);
  ok(near(tagc_plain_wire_ns(&all, &flat.ring), 6 * 1000 + 5000 + 7 * 4000 * 0.8), "plain: 33.4 microseconds");
  ok(near(tagc_layout_wire_ns(&all, &layout, &flat.ring, &flat.all_to_all), 5000 + 16 * 1040 * 0.8),
     "flat: 16 messages leave the host, 18.312 microseconds");
  ok(near(tagc_host_sum_ns(&all, &two_of_four, &inside) +
            tagc_layout_wire_ns(&one_a_host, &layout, &levels.ring, &levels.all_to_all),
          3 * (1000 + 800) + 5000 + 4 * 1040 * 0.8),
     "two levels: three steps inside, then four messages leave the host, 13.728 microseconds");
  const struct tagc_shape large = {.n = UINT32_MAX, .nranks = 4096, .dtype = TAGC_FLOAT32};
  const struct tagc_layout whole = {.message_bytes = UINT64_C(4) * UINT32_MAX, .capacity = 1};
  const struct tagc_traffic t = tagc_layout_traffic(&large, &whole, &most, false);
  const struct tagc_links l = tagc_links_among(&most, &inside, &between, false);
  ok(t.between == 4088 * whole.message_bytes && t.inside == 7 * whole.message_bytes &&
       near(tagc_layout_wire_ns(&large, &whole, &l.ring, &l.all_to_all), 5000 + 8. * 4088 * 4 * 4294967295.0 * 0.8),
     "512 hosts of eight with four thousand million elements a shard");
}

static void check_messages(void) {
  const struct tagc_shape shape = {.n = 1000, .nranks = 4, .dtype = TAGC_FLOAT32};
  const struct tagc_layout layout = {.message_bytes = 1040, .capacity = 1000};
  /* All at once: 2,500 + 3 * 1,040 * 0.4. */
  ok(tagc_layout_wire_bytes(&shape, &layout) == 3120 &&
       near(tagc_layout_wire_ns(&shape, &layout, &ring, &direct), 3748),
     "messages alone: 3 of 1,040 bytes, one latency, on the link of messages");
  const struct tagc_link slow = {.latency_ns = 2500, .ns_per_byte = 0.4, .message_ns = 700};
  const struct tagc_layout nothing = {.capacity = 1};
  ok(near(tagc_layout_wire_ns(&shape, &layout, &ring, &slow), 3748 + 2100) &&
       tagc_layout_wire_ns(&shape, &nothing, &ring, &slow) == 0,
     "and 700 ns for each of the three; nothing where there are none");
}

static void check_sketch(void) {
  const struct tagc_shape shape = {.n = 10000, .nranks = 4, .dtype = TAGC_FLOAT32};
  const struct tagc_layout layout = {.exponent_bytes = 16, .sketch_count = 640, .message_bytes = 1280};
  /* Exponents: 6 steps of 16 bytes, 5,012.8 each. Sketch: 3 of 2,560, 7,048 each. Messages: 2,500 + 3,840 * 0.4. */
  ok(tagc_layout_wire_bytes(&shape, &layout) == 96 + 7680 + 3840 &&
       near(tagc_layout_wire_ns(&shape, &layout, &ring, &direct), 30076.8 + 21144 + 4036),
     "exponents, sketch and messages: 11,616 bytes, 55.2568 microseconds");
  struct tagc_call_times times = {.encode_ns = 1000, .decode_ns = 500};
  tagc_call_times_fill(&times, &shape, &layout, &ring, &direct);
  ok(near(times.wire_ns, 55256.8) && near(times.exponents_ns, 30076.8) && near(times.latency_ns, 2500 + 15000) &&
       times.measure_ns > 0 && times.measure_ns < times.encode_ns,
     "in chunks exponents go once; a sketch has three latencies each time, messages one");
  const struct tagc_layout messages = {.message_bytes = 1280};
  tagc_call_times_fill(&times, &shape, &messages, &ring, &direct);
  ok(near(times.wire_ns, 4036) && times.exponents_ns == 0 && near(times.latency_ns, 2500) && times.measure_ns == 0,
     "nothing of that without exponents");
}

static void check_ends(void) {
  const struct tagc_shape shape = {.n = 10000, .nranks = 2, .dtype = TAGC_FLOAT32};
  const struct tagc_layout nothing = {.capacity = 1}, exponents = {.exponent_bytes = 16};
  ok(tagc_layout_wire_bytes(&shape, &nothing) == 0 && tagc_layout_wire_ns(&shape, &nothing, &ring, &direct) == 0,
     "what is not exchanged takes no time, and no latency either");
  ok(near(tagc_layout_wire_ns(&shape, &exponents, &ring, &direct), 2 * 5012.8), "two ranks: there and back");
  /* 4,096 ranks of the longest shard: no overflow of 64 bits. */
  const struct tagc_shape large = {.n = UINT32_MAX, .nranks = 4096, .dtype = TAGC_FLOAT32};
  ok(tagc_plain_wire_bytes(&large) == UINT64_C(4095) * UINT32_MAX * 4 &&
       near(tagc_plain_wire_ns(&large, &ring), 4095 * (5000 + 4294967295.0 * 4 * 0.8)),
     "4,096 ranks with four thousand million elements each");
}

/* Memory of 1 ns a byte. */
static void check_gpu(void) {
  struct tagc_shape shape = {.n = 1024, .nranks = 4, .dtype = TAGC_FLOAT32, .residual = TAGC_STORAGE_BF16};
  struct tagc_layout layout = {.exponent_bytes = 16, .sketch_count = 256, .message_bytes = 512, .state_bytes = 4096};
  struct tagc_gpu_work work = {.passes = 2, .launches = 10, .rounds = 10};
  struct tagc_gpu_rates rates = {.ns_per_byte = 1};
  struct tagc_gpu_cost cost = tagc_layout_gpu_cost(&shape, &layout, &work, &rates);
  /* 4 + 2 bytes twice, 2 written, (16 + 1,024 + 512) / 1,024. Ten launches, ten rounds, two shards, sketch, state. */
  ok(near(cost.encode_ns, 2 * 6 + 2 + 1552 / 1024.) && near(cost.decode_ns, 0.5) &&
       near(cost.call_ns, 10 * 4e3 + 10 * 2e3 + 2 * 4096 + 1024 + 4 * 4096),
     "on a GPU: 15.5 ns to encode an element, 0.5 to decode it, 85.6 microseconds for a call");
  shape.dtype = TAGC_BFLOAT16;
  shape.residual = TAGC_STORAGE_NONE;
  layout.sketch_count = 0;
  work.rounds = 0;
  rates.ns_per_byte = 2;
  cost = tagc_layout_gpu_cost(&shape, &layout, &work, &rates);
  ok(near(cost.encode_ns, 2 * (2 * 2 + 528 / 1024.)) && near(cost.call_ns, 10 * 4e3 + 2 * (2 * 2048 + 4 * 4096)),
     "16 bits, nothing kept, no sketch, no rounds, memory half as fast");
  /* A fourth is kept: 30 + 80 / 4 ops to encode, 28 more for the residual; 5 + 40 / 4 to decode; 2 ns each. */
  shape.keep_ppm = 250000;
  shape.residual = TAGC_STORAGE_INT8;
  work = (struct tagc_gpu_work){2, 9, 0, {30, 80}, {5, 40}};
  rates.ns_per_op = 2;
  cost = tagc_layout_gpu_cost(&shape, &layout, &work, &rates);
  ok(near(cost.encode_ns, 2 * 78) && near(cost.decode_ns, 2 * 15), "instructions that take longer than memory");
}

/* Nanoseconds of a call of two ranks on an H200: 4.8 TB/s, 132 processors at 1.98 GHz. */
static double on_gpu(const char *codec, uint64_t n, enum tagc_dtype dtype, enum tagc_storage kept, uint32_t keep_ppm) {
  const struct tagc_shape shape = {n, 2, dtype, keep_ppm, kept, 0};
  const struct tagc_gpu_rates rates = {1 / 4800., 1 / (132 * 1.98 * TAGC_GPU_LANES)};
  struct tagc_gpu_cost cost;
  return tagc_cuda_codec_cost(tagc_codec_find(codec), &shape, &rates, &cost)
           ? (double)n * (cost.encode_ns + cost.decode_ns) + cost.call_ns
           : -1;
}

static void check_gpu_codecs(void) {
  bool grows = true, works = true, kept = true, sizes = true, keeps = true;
  for (int i = 0; tagc_codecs[i]; i++) {
    const char *name = tagc_codecs[i]->name;
    double before = 0;
    if (!tagc_cuda_codec_of(tagc_codecs[i]))
      continue;
    const struct tagc_gpu_work *work = &tagc_cuda_codec_of(tagc_codecs[i])->work;
    works &= work->passes > 0 && work->launches >= 2;
    for (uint64_t n = 1 << 12; n <= 1 << 28; n *= 4) {
      const double ns = on_gpu(name, n, TAGC_FLOAT32, TAGC_STORAGE_FP32, 20000);
      grows &= ns > before;
      before = ns;
      kept &= ns >= on_gpu(name, n, TAGC_FLOAT32, TAGC_STORAGE_BF16, 20000) &&
              on_gpu(name, n, TAGC_FLOAT32, TAGC_STORAGE_BF16, 20000) >
                on_gpu(name, n, TAGC_FLOAT32, TAGC_STORAGE_NONE, 20000);
      sizes &= ns > on_gpu(name, n, TAGC_BFLOAT16, TAGC_STORAGE_FP32, 20000);
      keeps &= on_gpu(name, n, TAGC_FLOAT32, TAGC_STORAGE_FP32, 40000) >= ns;
    }
  }
  ok(works, "every codec says what it does on a GPU");
  ok(grows && kept && sizes && keeps, "more elements, a residual, wider elements, and more that is kept take longer");
  bool order = true;
  for (uint64_t n = 1 << 12; n <= 1 << 28; n *= 4) {
    const double q4 = on_gpu("q4", n, TAGC_FLOAT32, TAGC_STORAGE_FP32, 20000);
    const double sparse = on_gpu("sparse", n, TAGC_FLOAT32, TAGC_STORAGE_FP32, 20000);
    order &= q4 > 0 && q4 < sparse && sparse < on_gpu("lhc", n, TAGC_FLOAT32, TAGC_STORAGE_FP32, 20000);
  }
  ok(order, "q4 is faster than sparse, which is faster than lhc");
  ok(on_gpu("lhc", 1 << 20, TAGC_FLOAT32, TAGC_STORAGE_FP32, 20000) > 100e3,
     "a million elements: launches and rounds are most of lhc");
}

/* The duration of a call in chunks, from the start times of its steps. */
static double work_out(const struct tagc_call_times *t, int depth) {
  double part[TAGC_CHUNKS], encoded[TAGC_CHUNKS], sent[TAGC_CHUNKS], wire = 0;
  double side = t->exponents_ns + (depth > 1 ? t->measure_ns : 0);
  const double bytes_ns = t->wire_ns - t->latency_ns - t->exponents_ns;
  int decoded = 0;
  for (int k = 0; k < depth; k++)
    part[k] = depth == 1 ? 1 : (k == 0 || k == depth - 1 ? 1. : 2.) / (2 * (depth - 1));
  for (int k = 0; k < depth; k++) {
    for (; decoded < k - 1; decoded++) /* those before the last exchange, before the next is encoded */
      side = (side > sent[decoded] ? side : sent[decoded]) + t->chunk_ns + t->decode_ns * part[decoded];
    encoded[k] = side = side + t->chunk_ns + t->encode_ns * part[k];
    sent[k] = wire = (wire > encoded[k] ? wire : encoded[k]) + t->latency_ns + bytes_ns * part[k];
  }
  for (; decoded < depth; decoded++)
    side = (side > sent[decoded] ? side : sent[decoded]) + t->chunk_ns + t->decode_ns * part[decoded];
  return side;
}

static void check_calls(void) {
  static const struct {
    struct tagc_call_times times; /* encode, decode, a chunk's work, wire, its latency; exponents, measure */
    int depth;
    double ns;
    const char *what;
  } cases[] = {
    {{3, 3, 0, 30, 0, 0, 0}, 1, 36, "one chunk: one after the other"},
    {{3, 3, 0.5, 30, 2, 0, 0},
     1,
     37,
     "one chunk: one latency, which the wire's time has in it, and the work on a chunk twice"},
    {{3, 3, 0, 30, 0, 0, 0}, 2, 33, "a long wire: two chunks hide half of the work"},
    {{3, 3, 0, 30, 0, 0, 0}, 4, 31, "a long wire: four hide 5/6"},
    {{3, 3, 0, 30, 2, 0, 0}, 4, 37, "a long wire: each chunk more costs a latency"},
    {{6, 6, 0, 6, 1, 0, 0}, 2, 13, "all alike, two chunks: 3, 6.5 | 6, 9.5, 10, 13"},
    {{12, 12, 0, 6, 0, 0, 0}, 4, 24, "a short wire is hidden by the work"},
    {{0, 0, 1, 0, 0, 0, 0}, 4, 8, "nothing but what chunks cost"},
    {{0, 0, 0, 7, 7, 0, 0}, 4, 28, "nothing but latencies"},
    {{3, 3, 0, 32, 0, 2, 1}, 1, 38, "exponents, one chunk: part of the wire, and nothing is measured before"},
    {{3, 3, 0, 32, 0, 2, 1}, 4, 34, "exponents, four chunks: measured and exchanged first"},
  };
  int wrong = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    ok(near(tagc_call_ns(&cases[i].times, cases[i].depth), cases[i].ns), "%s: %g", cases[i].what,
       tagc_call_ns(&cases[i].times, cases[i].depth));
  for (int i = 0; i < 20000; i++) {
    const struct tagc_call_times t = {rand() % 1000, rand() % 1000, rand() % 50, 200 + rand() % 2000,
                                      rand() % 100,  rand() % 100,  rand() % 200};
    const int depth = 1 + rand() % TAGC_CHUNKS;
    wrong += !near(tagc_call_ns(&t, depth), work_out(&t, depth));
  }
  ok(wrong == 0, "calls in up to %d chunks take what a pipeline takes, step by step", TAGC_CHUNKS);
}

/* Chunks of long shards have the shares that the estimates assume. */
static void check_shares(void) {
  int wrong = 0;
  for (int depth = 1; depth <= TAGC_CHUNKS; depth++) {
    const uint64_t n = UINT64_C(1) << 36;
    const struct tagc_chunks chunks = tagc_chunks_of(n, depth);
    for (int k = 0; k < depth; k++) {
      const double share = (double)(chunks.at[k + 1] - chunks.at[k]) / (double)n;
      wrong += share < 0.999 * tagc_chunk_share(k, depth) || share > 1.001 * tagc_chunk_share(k, depth);
    }
  }
  ok(wrong == 0, "shares of chunks are as chunks are cut");
}

int main(void) {
  check_plain();
  check_levels();
  check_links();
  check_both_levels();
  check_messages();
  check_sketch();
  check_ends();
  check_gpu();
  check_gpu_codecs();
  check_calls();
  check_shares();
  return tap_done();
}
