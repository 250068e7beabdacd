/* SPDX-License-Identifier: BSD-3-Clause
 * The codec `lhc` writes large results past the caches if the memory is aligned: the same bits as otherwise, from every
 * variant, and nothing beyond the end.
 */
#include <stdlib.h>

#include "kernels/lhc/lhc.h"
#include "tests/unit/codec/sim.h"
#include "tests/unit/codec/variants.h"

enum { LARGE = 8 << 20, GUARD = 64 };

static void check(enum tagc_dtype dtype) {
  const size_t size = tagc_dtype_size(dtype);
  const uint64_t n = LARGE / size + 37;
  struct sim sim = sim_new("lhc", n, 2, dtype, 50000);
  struct tagc_job *job = &sim.job[0];
  void *recv = job->recv;
  for (uint64_t i = 0; i < n; i++) {
    sim_put(&sim, 0, 0, i, sim_normal());
    sim_put(&sim, 1, 0, i, sim_normal());
  }
  sim_step(&sim, 1);
  char *aligned = aligned_alloc(64, (n * size + 2 * GUARD + 63) / 64 * 64), *want = sim_memory(n * size);
  if (!aligned)
    exit(1);
  for (int v = 0; v < TAGC_VARIANT_COUNT; v++) {
    const char *name = tagc_variant_name((enum tagc_variant)v);
    if (!tagc_variant_force(name))
      continue;
    job->recv = aligned + 16; /* not aligned: through the caches */
    sim.codec->decode(job);
    if (v == 0)
      memcpy(want, job->recv, n * size);
    bool same = memcmp(want, job->recv, n * size) == 0;
    memset(aligned, 0x5a, n * size + GUARD);
    job->recv = aligned;
    sim.codec->decode(job);
    same &= memcmp(want, aligned, n * size) == 0;
    bool inside = true;
    for (int at = 0; at < GUARD; at++)
      inside &= aligned[n * size + (size_t)at] == 0x5a;
    ok(same, "type %d, %s: the same bits past the caches", dtype, name);
    ok(inside, "type %d, %s: and nothing behind the end", dtype, name);
  }
  tagc_variant_force(NULL);
  job->recv = recv;
  free(aligned);
  free(want);
  sim_free(&sim);
}

int main(void) {
  variants_tell();
  check(TAGC_FLOAT32);
  check(TAGC_FLOAT16);
  check(TAGC_BFLOAT16);
  return tap_done();
}
