/* SPDX-License-Identifier: BSD-3-Clause
 * The arithmetic that devices share, against slower definitions: 16-bit conversions, quantisation, medians, the
 * assignment of lines to stripes. Also the saved floating point modes and the host device.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/lhc/codec.h"
#include "kernels/codec/device.h"
#include "kernels/codec/exceptions.h"
#include "kernels/codec/fpmode.h"
#include "tests/unit/tap.h"

static uint32_t random_bits(void) {
  static uint64_t state = 1;
  return (uint32_t)(tagc_mix64(state++) >> 32);
}

/* The nearest of all fp16 values, ties to the even one: slow and obvious. */
static uint16_t nearest_fp16(float x) {
  uint16_t best = 0;
  double distance = INFINITY, magnitude = fabs((double)x);
  if (magnitude >= 65520)
    return x < 0 ? 0xfc00 : 0x7c00;
  for (uint32_t h = 0; h < 0x7c00; h++) {
    double d = fabs((double)tagc_from_fp16((uint16_t)h) - magnitude);
    if (d < distance || (d == distance && h % 2 == 0)) {
      best = (uint16_t)h;
      distance = d;
    }
  }
  return best | (signbit(x) ? 0x8000 : 0);
}

static void check_halves(void) {
  int wrong16 = 0, wrongb = 0, value = 0, nearest = 0;
  for (uint32_t h = 0; h < 0x10000; h++) {
    uint32_t exponent = h >> 10 & 31, mantissa = h & 0x3ff;
    float x = tagc_from_fp16((uint16_t)h);
    bool nan = exponent == 31 && mantissa;
    wrong16 += tagc_to_fp16(x) != (nan ? (h | 0x200) : h);
    if (exponent < 31)
      value += fabs((double)x) != (exponent ? ldexp(mantissa + 1024.0, (int)exponent - 25) : ldexp(mantissa, -24));
    bool nan_b = (h & 0x7fff) > 0x7f80;
    wrongb += tagc_to_bf16(tagc_from_bf16((uint16_t)h)) != (nan_b ? (h | 0x40) : h);
  }
  ok(wrong16 == 0 && value == 0, "all fp16 values go to fp32 and back");
  ok(wrongb == 0, "all bf16 values go to fp32 and back");
  for (int i = 0; i < 300; i++) {
    float x = tagc_float_of((random_bits() & 0x8fffffffu) | (100 + random_bits() % 45) << 23);
    nearest += tagc_to_fp16(x) != nearest_fp16(x);
  }
  ok(nearest == 0, "fp32 to fp16 gives the nearest");
  ok(tagc_to_fp16(65519.99f) == 0x7bff && tagc_to_fp16(65520) == 0x7c00 && tagc_to_fp16(-1e30f) == 0xfc00 &&
       tagc_to_fp16(0x1p-25f) == 0 && tagc_to_fp16(0x1.01p-25f) == 1 && tagc_to_fp16(0x1.ffcp-15f) == 0x400,
     "fp16 at its ends");
  ok(tagc_to_bf16(tagc_float_of(0x3f808000u)) == 0x3f80 && tagc_to_bf16(tagc_float_of(0x3f818000u)) == 0x3f82 &&
       tagc_to_bf16(tagc_float_of(0x7f7fffffu)) == 0x7f80 && tagc_to_bf16(tagc_float_of(0x7f800001u)) == 0x7fc0,
     "bf16 rounds ties to even, overflows to infinity, keeps NaN");
}

static void check_quantise(void) {
  int wrong = 0, large = 0, residue = 0;
  for (int i = 0; i < 300000; i++) {
    int bits = 11 + (int)(random_bits() % 20), e = (int)(random_bits() % 200) - 100;
    int below = (int)(random_bits() % 36);
    uint32_t field = (uint32_t)(e - 1 - below + 127);
    if (e - 1 - below < -120)
      continue;
    uint32_t v = field << 23 | (random_bits() & 0x807fffffu);
    int32_t q = tagc_lhc_quantise(v, (uint32_t)(e + 128), bits);
    double exact = rint(ldexp((double)tagc_float_of(v), bits - e)), limit = ldexp(1, bits) - 1;
    exact = exact > limit ? limit : exact < -limit ? -limit : exact;
    wrong += q != (int32_t)exact;
    large += tagc_exponent_byte(v) != e - below + 128;
    float unit = tagc_lhc_unit((uint32_t)(e + 128), bits), left = tagc_float_of(v) - (float)q * unit;
    residue += (double)left != (double)tagc_float_of(v) - ldexp(q, e - bits);
  }
  ok(wrong == 0, "quantisation rounds to nearest even and saturates");
  ok(large == 0, "the exponent byte is the smallest bound");
  ok(residue == 0, "what quantisation leaves over is exact in fp32");
  ok(tagc_pow2(-149) == 0x1p-149f && tagc_pow2(-126) == 0x1p-126f && tagc_pow2(-127) == 0x1p-127f &&
       tagc_pow2(0) == 1 && tagc_pow2(127) == 0x1p127f,
     "powers of two, denormals included");
}

static void check_median(void) {
  const int32_t three[4] = {7, -3, 5}, four[4] = {7, -3, 5, 100}, wide[4] = {INT32_MAX, INT32_MAX, 1, INT32_MAX};
  ok(tagc_lhc_median(three, 3, 1000) == 5 && tagc_lhc_median(four, 4, 1000) == 6 && tagc_lhc_median(four, 4, 4) == 4 &&
       tagc_lhc_median(wide, 4, INT32_MAX) == INT32_MAX,
     "medians of three and four, clamped");
}

/* Checks that every line is in one stripe, in order, and that stripes differ by at most one line. */
static void check_dealing(uint32_t lines, uint32_t stripes) {
  struct tagc_grid grid = {.lines = lines, .stripes = stripes, .groups = lines / stripes, .rest = lines % stripes};
  uint8_t *seen = calloc(lines, 1);
  uint32_t wrong = 0, total = 0;
  for (uint32_t stripe = 0; stripe < stripes; stripe++)
    for (uint32_t local = 0; local < tagc_grid_stripe_lines(&grid, stripe); local++, total++) {
      uint32_t line = tagc_grid_line(stripes, stripe, local);
      wrong += line >= lines || seen[line]++ || tagc_grid_stripe_of(stripes, line) != stripe || line / stripes != local;
    }
  ok(wrong == 0 && total == lines, "%u lines in %u stripes", lines, stripes);
  free(seen);
}

static void check_modes(void) {
#ifdef __x86_64__
  unsigned before = _mm_getcsr();
  _mm_setcsr(0xff80); /* towards zero, denormals flushed */
  tagc_fpmode mode = tagc_fpmode_enter();
  volatile float tiny = 0x1p-130f, third = 3;
  bool kept = tiny * 0.5f == 0x1p-131f && 1 / third == 0x1.555556p-2f;
  tagc_fpmode_leave(mode);
  bool restored = _mm_getcsr() == 0xff80;
  _mm_setcsr(before);
  ok(kept && restored, "modes are the defaults inside and the program's outside");
#else
  skip("modes are the defaults inside and the program's outside", "not x86-64");
#endif
}

static void check_exceptions(void) {
  static const uint8_t example[32] = {1, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0x80, 0x7f};
  _Alignas(16) uint8_t memory[32], other[32];
  struct tagc_exceptions *list = (struct tagc_exceptions *)memory, *second = (struct tagc_exceptions *)other;
  struct tagc_exception sorted[8];
  size_t count = 0;
  tagc_exceptions_clear(list, 100);
  tagc_exceptions_add(list, 100, 7, INFINITY);
  list->anywhere = 1;
  ok(tagc_exceptions_close(list, 100) == 1 && tagc_exceptions_bytes(100) == 32 && memcmp(memory, example, 32) == 0,
     "exceptions as in the example");
  tagc_exceptions_clear(second, 100);
  tagc_exceptions_add(second, 100, 9, NAN);
  tagc_exceptions_add(second, 100, 7, -INFINITY);
  tagc_exceptions_close(second, 100);
  ok(tagc_exceptions_merge(sorted, &count, list, 100) && tagc_exceptions_merge(sorted, &count, second, 100) &&
       count == 3 && sorted[0].position == 7 && sorted[0].bits == 0x7f800000u && sorted[1].position == 7 &&
       sorted[1].bits == 0xff800000u && sorted[2].position == 9 && sorted[2].bits == TAGC_NAN_BITS,
     "lists merge by position, then sender");
  tagc_exceptions_add(second, 100, 10, NAN);
  ok(tagc_exceptions_close(second, 100) == 3 && second->entry[0].bits == 0 &&
       !tagc_exceptions_merge(sorted, &count, second, 100),
     "too many make the list void");
  ok(tagc_exceptions_capacity(1) == 1 && tagc_exceptions_capacity(64) == 1 && tagc_exceptions_capacity(65) == 2 &&
       tagc_exceptions_capacity(65536) == 16 && tagc_exceptions_capacity(65537) == 17,
     "room for exceptions");
}

static void check_device(void) {
  errno = 77;
  const struct tagc_device *host = &tagc_device_host;
  char *memory = host->alloc(host, 100, NULL), *large = host->alloc(host, (size_t)5 << 20, NULL), to[4] = "";
  bool got = memory && large && (uintptr_t)memory % 64 == 0 && (uintptr_t)large % 64 == 0;
  host->put(host, memory, "abc", 4, NULL);
  host->get(host, to, memory, 4, NULL);
  host->release(host, memory, NULL);
  host->release(host, large, NULL);
  host->release(host, NULL, NULL);
  ok(got && to[2] == 'c' && !host->alloc(host, SIZE_MAX, NULL) && errno == 77,
     "the host device gives memory, or NULL, and leaves errno alone");
}

int main(void) {
  check_halves();
  check_quantise();
  check_median();
  check_dealing(1, 1);
  check_dealing(100, 7);
  check_dealing(5000, 3);
  check_dealing(4096, 64);
  check_dealing(99991, 117);
  check_modes();
  check_exceptions();
  check_device();
  return tap_done();
}
