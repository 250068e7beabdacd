/* SPDX-License-Identifier: BSD-3-Clause
 * The exact sums of `precise` on a GPU: the bits of sums.c and precise.c, which prove them. none.cu encodes.
 *
 * Fast      A warp takes block after block, and adds each element in fp64.
 * Exact     Where the exponents differ too much for fp64, a lane adds the element in integers, in the warp's stage.
 * Groups    Two a processor: with fewer registers than that leaves, integer division would need a stack.
 */
#include "kernels/none/precise.cuh"

/* The own values of a block as a sender would send them, zeros beyond the end of the shard. The same lanes read them
 * before they write results: recv may be the own shard. */
DEVICE void own_values(const struct tagc_cuda_call &call, uint32_t block, uint32_t lane, float *stage, float x[EACH]) {
  const uint32_t count = count_of(call, block);
  const char *from = shard_of(call, call.rank) + (uint64_t)block * BLOCK * size_of(call);
  elements_convert(elements_fetch(from, call.dtype, lane, count, stage), call.dtype, x);
  if (call.scale == 1)
    return;
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
    const float scaled = call.scale * x[i];
    x[i] = call.dtype == TAGC_FLOAT32   ? scaled
           : call.dtype == TAGC_FLOAT16 ? tagc_from_fp16(tagc_to_fp16(scaled))
                                        : tagc_from_bf16(tagc_to_bf16(scaled));
    x[i] = place_of(lane, i) < count ? x[i] : 0; /* the scale may be NaN */
  }
}

/* One element of all ranks in integers. `exact`: the lane's room in the warp's stage. */
DEVICE float whole_sum(const struct tagc_cuda_call &call, uint64_t at, float own, struct tagc_exact *exact) {
  const enum tagc_dtype dtype = (enum tagc_dtype)call.dtype;
  begin_exact(exact);
  for (uint32_t sender = 0; sender < call.nranks; sender++)
    tagc_exact_add(exact,
                   sender == call.rank ? own : tagc_load(call.message_in + call.message_bytes * sender, at, dtype));
  return rounded_exact(exact, call);
}

DEVICE void decode_precise(const struct tagc_cuda_call &call) {
  __shared__ __align__(16) float stages[WARPS][BLOCK];
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  float *stage = stages[warp];
  const struct tagc_exact_quotient by = tagc_exact_quotient_of((uint32_t)call.divisor);
  const uint32_t span = tagc_exact_span(call.nranks, (enum tagc_dtype)call.dtype);
  bool seen = false;
  for (uint32_t block = blockIdx.x * WARPS + warp; block < call.blocks; block += gridDim.x * WARPS) {
    const uint64_t at = (uint64_t)block * BLOCK * size_of(call);
    struct precise_sums<double> sums;
    float own[EACH], x[EACH];
    own_values(call, block, lane, stage, own);
    begin_sums(sums);
    add_to_sums(sums, own);
    UNROLL_4_FOR (uint32_t i = 0; i < call.nranks - 1; i++) {
      const uint8_t *from = call.message_in + call.message_bytes * shard_at(call, i) + at;
      elements_convert(elements_fetch(from, call.dtype, lane, count_of(call, block), stage), call.dtype, x);
      add_to_sums(sums, x);
    }
    uint32_t wrong = 0;
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
      x[i] = nearest_sum(sums.sum[i], by, call.dtype);
      wrong |= (uint32_t)!is_exact(sums, i, span, by, x[i]) << i;
      wrong &= place_of(lane, i) < count_of(call, block) ? UINT32_MAX : ~(1u << i);
      seen |= sums.most[i] >= TAGC_EXCEPTION_BITS;
    }
    if (__any_sync(ALL_LANES, wrong != 0))
      mend_results(lane, wrong, x, stage, [&](uint32_t bit, struct tagc_exact *exact) {
        float mine = 0;
        UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
          mine = bit == 1u << i ? own[i] : mine;
        return whole_sum(call, (uint64_t)block * BLOCK + place_of_bit(lane, bit), mine, exact);
      });
    seen |= has_nonfinite(call, lane, count_of(call, block), x);
    elements_store((char *)call.recv + at, call.dtype, lane, count_of(call, block), x, stage);
  }
  note_seen(call, seen, lane); /* of this shard only: no message has flags */
  if (call.ends && closes(call))
    end_decoded(call);
}

ENTRY(tagc_precise_decode, tagc_cuda_call, 2, decode_precise(call));
