/* SPDX-License-Identifier: BSD-3-Clause
 * interpose/broadcast/references: which earlier broadcast a root refers to, and the memory of references.
 */
#include "interpose/broadcast/references.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/tap.h"

enum { WORDS = 3000, BYTES = 2 * WORDS };

static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* A tensor of bf16 weights after so many steps of a training. */
static const uint16_t *tensor(uint64_t number, unsigned steps) {
  static uint16_t words[WORDS];
  for (uint64_t i = 0; i < WORDS; i++) {
    const uint64_t h = mix((number + 1) << 32 ^ (i + 1));
    words[i] = (uint16_t)((h & 0x8000) | (0x3b00 + (h >> 16) % 0x300));
    words[i] = (uint16_t)(words[i] + (h >> 40) % 4 * steps);
  }
  return words;
}

static const struct tagc_broadcast_shape shape = {WORDS, TAGC_BFLOAT16, 0}, other = {WORDS, TAGC_BFLOAT16, 1};
static const struct tagc_allgather_layout usual = {.reference_bytes = BYTES};
static const struct tagc_reference_limits no_limits = {UINT64_MAX, 0};
static struct tagc_references refs;
static uint64_t limit = UINT64_C(1) << 30;

/* A call of the root. Returns the reference that it is about; *action: what is done. */
static uint32_t call(const struct tagc_broadcast_shape *of, const uint16_t *content,
                     enum tagc_broadcast_action *action) {
  if (!tagc_references_reserve_statuses(&refs, &tagc_device_host, 2, NULL) ||
      !tagc_references_reserve_payload(&refs, &tagc_device_host, BYTES, NULL) ||
      !tagc_references_sample(&refs, &tagc_device_host, of, content, NULL))
    return TAGC_NO_REFERENCE;
  refs.calls++;
  const struct tagc_broadcast_choice choice = tagc_references_choose(&refs, of, limit);
  *action = choice.action;
  if (choice.action == TAGC_BROADCAST_PLAIN)
    return choice.reference;
  if (choice.action == TAGC_BROADCAST_KEEP)
    tagc_references_keep(&refs, &tagc_device_host, of, &usual, choice.reference, &no_limits, NULL);
  else
    tagc_references_use(&refs, choice.reference);
  return choice.reference;
}

static void begin_anew(void) {
  tagc_references_free(&refs, &tagc_device_host, NULL, false);
  limit = UINT64_C(1) << 30;
}

static void check_shapes(void) {
  static const struct {
    uint64_t count;
    size_t element;
    bool half, good;
    uint64_t words;
    enum tagc_dtype dtype;
  } cases[] = {
    {10, 1, false, true, 5, TAGC_BFLOAT16}, {11, 1, false, false, 5, TAGC_BFLOAT16},
    {7, 2, false, true, 7, TAGC_BFLOAT16},  {7, 2, true, true, 7, TAGC_FLOAT16},
    {7, 4, false, true, 7, TAGC_FLOAT32},   {7, 8, false, true, 14, TAGC_FLOAT32},
    {0, 4, false, true, 0, TAGC_FLOAT32},   {UINT64_MAX / 4, 8, false, false, 0, TAGC_FLOAT32},
  };
  bool good = true;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct tagc_broadcast_shape out;
    const bool got = tagc_broadcast_shape_of(cases[i].count, cases[i].element, cases[i].half, 3, &out);
    good &= got == cases[i].good && (!got || (out.words == cases[i].words && out.dtype == cases[i].dtype));
    good &= out.root == 3 && (!got || tagc_broadcast_bytes(&out) == cases[i].count * cases[i].element);
  }
  ok(good, "all bytes of a broadcast are words of 16 or 32 bits, or it has no shape");
}

/* Calls of one size in any order: the root finds each one's predecessor by its content. */
static void check_contents(void) {
  enum tagc_broadcast_action action;
  uint32_t of[8];
  bool good = true;
  begin_anew();
  for (uint64_t t = 0; t < 8; t++) {
    of[t] = call(&shape, tensor(t, 0), &action);
    good &= action == TAGC_BROADCAST_KEEP && of[t] == t;
  }
  ok(good, "the first calls are kept, whatever their sizes");
  for (unsigned round = 1; round < 6; round++)
    for (uint64_t i = 0; i < 8; i++) {
      const uint64_t t = (i * 3 + round) % 8;
      good &= call(&shape, tensor(t, round), &action) == of[t] && action == TAGC_BROADCAST_CHANGES;
    }
  ok(good, "in any order, each later call refers to its predecessor");
  good = call(&other, tensor(1, 6), &action) == 8 && action == TAGC_BROADCAST_KEEP;
  ok(good, "a broadcast from another root has references of its own");
}

/* The samples of a matrix come from many columns, those of few words are all of them. */
static void check_samples(void) {
  enum { COLUMNS = 64 };
  static const struct tagc_broadcast_shape matrix = {256 * COLUMNS, TAGC_FLOAT32, 0}, few = {100, TAGC_BFLOAT16, 0};
  static uint32_t words[256 * COLUMNS];
  static uint16_t its[100];
  bool seen[COLUMNS] = {false}, good = true;
  unsigned columns = 0;
  begin_anew();
  for (uint32_t i = 0; i < 256 * COLUMNS; i++)
    words[i] = i % COLUMNS << 20;
  for (uint16_t i = 0; i < 100; i++)
    its[i] = (uint16_t)(i << 4);
  good &= tagc_references_reserve_payload(&refs, &tagc_device_host, 1, NULL) &&
          tagc_references_sample(&refs, &tagc_device_host, &matrix, words, NULL);
  for (int i = 0; i < TAGC_BROADCAST_SAMPLES; i++)
    seen[refs.sampled.rough[i] % COLUMNS] = true;
  for (int i = 0; i < COLUMNS; i++)
    columns += seen[i];
  ok(good && columns == COLUMNS, "samples come from all columns of a matrix (%u)", columns);
  good = tagc_references_sample(&refs, &tagc_device_host, &few, its, NULL);
  for (int i = 0; i < 100; i++)
    good &= refs.sampled.rough[i] == i;
  ok(good, "all words of a small tensor are samples");
}

/* All has changed: the reference whose turn it is is replaced, and the list does not grow. */
static void check_turns(void) {
  enum tagc_broadcast_action action;
  bool good = true;
  begin_anew();
  for (unsigned round = 0; round < 3; round++)
    for (uint64_t t = 0; t < 5; t++)
      call(&shape, tensor(t, round), &action);
  for (uint64_t t = 0; t < 5; t++)
    good &= call(&shape, tensor(100 + t, 0), &action) == t && action == TAGC_BROADCAST_KEEP;
  for (uint64_t t = 0; t < 5; t++)
    good &= call(&shape, tensor(100 + t, 1), &action) == t && action == TAGC_BROADCAST_CHANGES;
  ok(good && refs.count == 5, "another checkpoint replaces the references in their order");
}

static void check_room(void) {
  enum tagc_broadcast_action action;
  unsigned changes = 0, plain = 0;
  bool good = true;
  begin_anew();
  limit = 2 * BYTES + 7;
  for (unsigned round = 0; round < 4; round++)
    for (uint64_t t = 0; t < 5; t++) {
      call(&shape, tensor(t, round), &action);
      changes += action == TAGC_BROADCAST_CHANGES;
      plain += action == TAGC_BROADCAST_PLAIN;
      good &= refs.bytes <= limit;
    }
  ok(good && changes == 6 && plain == 12, "the first ones that fit stay, and the others are plain (%u, %u)", changes,
     plain);
  for (uint64_t i = 0; i < 100; i++)
    call(&shape, tensor(200 + i % 2, 0), &action);
  ok(action == TAGC_BROADCAST_CHANGES && refs.count == 2, "references that nobody uses any more make room");
  ok(!tagc_references_have_room(&refs, &shape, 3, UINT64_MAX), "there is no place beyond the end");
  ok(!tagc_references_have_room(&refs, &shape, 2, 3 * BYTES - 1) &&
       tagc_references_have_room(&refs, &shape, 2, 3 * BYTES) && tagc_references_have_room(&refs, &shape, 1, 2 * BYTES),
     "an old one's bytes count once");
}

static void check_rest(void) {
  enum tagc_broadcast_action action;
  unsigned rests[4] = {0};
  begin_anew();
  call(&shape, tensor(0, 0), &action);
  for (int i = 0; i < 4; i++) {
    for (int refusals = 0; refusals < 3; refusals++) {
      call(&shape, tensor(0, 0), &action);
      tagc_references_watch(&refs, 0, true);
    }
    for (; call(&shape, tensor(0, 0), &action) == 0 && action == TAGC_BROADCAST_KEEP;)
      rests[i]++;
  }
  ok(rests[0] == 2 && rests[1] == 4 && rests[2] == 8 && rests[3] == 16,
     "too many changes rest, twice as long each time");
  tagc_references_watch(&refs, 0, false);
  ok(refs.all[0].rested == 0, "and few changes end that");
}

static void *no_alloc(const struct tagc_device *self, size_t bytes, void *stream) {
  (void)self, (void)stream;
  return bytes > 2000 ? NULL : calloc(1, bytes);
}

static uint8_t pinned[50 * TAGC_BROADCAST_STATUS_BYTES];
static void *get_pinned(const struct tagc_device *self, size_t bytes) {
  (void)self;
  return bytes <= sizeof pinned ? pinned : NULL;
}

/* A GPU's memory: what is allocated where, and given back. */
enum { ROOM = 1 << 17, HUGE_BYTES = 1 << 16 };
static uint8_t on_device[8][ROOM], on_host[8][ROOM];
static unsigned device_count, host_count, returned, device_most;

static void *alloc_there(const struct tagc_device *self, size_t bytes, void *stream) {
  (void)self, (void)bytes, (void)stream;
  return device_count < device_most ? on_device[device_count++] : NULL;
}
static void *pin(const struct tagc_device *self, size_t bytes) {
  (void)self, (void)bytes;
  return on_host[host_count++];
}
static void give_back(const struct tagc_device *self, void *memory, void *stream) {
  (void)self, (void)stream;
  returned += memory != NULL;
}

static bool keep_one(const struct tagc_device *device, uint32_t reference, uint64_t words,
                     const struct tagc_reference_limits *limits) {
  const struct tagc_broadcast_shape of = {words, TAGC_BFLOAT16, 0};
  return tagc_references_keep(&refs, device, &of, &(struct tagc_allgather_layout){.reference_bytes = 2 * words},
                              reference, limits, NULL);
}

static void check_places(void) {
  enum { WIDE = HUGE_BYTES / 2 };
  static const struct tagc_reference_limits limits = {HUGE_BYTES * 3 / 2, HUGE_BYTES * 3 / 2};
  struct tagc_device gpu = tagc_device_host;
  bool good = true;
  begin_anew();
  gpu.alloc = alloc_there;
  gpu.alloc_pinned = pin;
  gpu.release = gpu.release_after = give_back;
  device_most = 8;
  for (uint32_t i = 0; i < 3; i++)
    good &= keep_one(&gpu, i, WIDE, &limits);
  ok(good && refs.all[0].memory == on_device[0] && refs.all[1].memory == on_host[0] &&
       refs.all[2].memory == on_host[1] && refs.pinned == 2 * HUGE_BYTES,
     "what the device's limit excludes lies in pinned memory, up to both limits together");
  ok(keep_one(&gpu, 1, WIDE, &limits) && host_count == 2 && !returned && keep_one(&gpu, 1, 100, &limits) &&
       refs.all[1].memory == on_device[1] && refs.pinned == HUGE_BYTES && returned == 1,
     "another one of the shape keeps its place, a small one is never pinned");
  tagc_references_forget(&refs, &gpu, NULL);
  ok(!refs.pinned && returned == 4, "all is given back");
  ok(keep_one(&gpu, 0, 100, &(struct tagc_reference_limits){0, HUGE_BYTES}) && !refs.all[0].pinned,
     "a small one lies on the device, whatever its limit");
  tagc_references_forget(&refs, &gpu, NULL);
  device_most = 0;
  ok(keep_one(&gpu, 0, WIDE, &limits) && refs.all[0].pinned && !keep_one(&gpu, 1, WIDE, &limits) && refs.no_memory,
     "a device that has no memory leaves it to pinned memory, up to the limit of that");
  refs.no_memory = false;
  tagc_references_forget(&refs, &gpu, NULL);
  ok(!keep_one(&gpu, 0, WIDE, &no_limits) && refs.no_memory, "without pinned memory there is none");
  tagc_references_free(&refs, &gpu, NULL, false);
}

static void check_memory(void) {
  static const struct tagc_broadcast_shape large = {9000, TAGC_FLOAT32, 0};
  static const struct tagc_allgather_layout large_layout = {.reference_bytes = 36000};
  enum tagc_broadcast_action action;
  struct tagc_device poor = tagc_device_host;
  begin_anew();
  poor.alloc = no_alloc;
  ok(tagc_references_reserve_payload(&refs, &poor, 500, NULL) && !refs.no_memory, "a small payload has room");
  const uint8_t *packed = refs.packed;
  ok(!tagc_references_reserve_payload(&refs, &poor, 5000, NULL) && refs.no_memory && refs.packed == packed,
     "a large one has none: this rank says so, and what it has stays");
  begin_anew();
  poor.alloc_pinned = get_pinned;
  ok(tagc_references_reserve_statuses(&refs, &poor, 2, NULL) && !refs.told_pinned, "statuses lie on the device");
  begin_anew();
  ok(tagc_references_reserve_statuses(&refs, &poor, 50, NULL) && refs.told == pinned && refs.told_pinned &&
       !refs.no_memory,
     "or where it has no memory, in pinned memory, which stays");
  begin_anew();
  call(&shape, tensor(0, 0), &action);
  const uint64_t digest = tagc_references_digest(&refs);
  ok(!tagc_references_keep(&refs, &poor, &large, &large_layout, 0, &no_limits, NULL) && refs.no_memory &&
       refs.count == 1 && refs.bytes == 36000,
     "a reference without memory is on the list, too");
  ok(digest != tagc_references_digest(&refs), "the digest is of the list");
  tagc_references_forget(&refs, &tagc_device_host, NULL);
  ok(refs.count == 0 && refs.bytes == 0 && refs.no_memory, "lack of memory is remembered, all else forgotten");
  begin_anew();
}

int main(void) {
  check_shapes();
  check_contents();
  check_samples();
  check_turns();
  check_room();
  check_rest();
  check_memory();
  check_places();
  return tap_done();
}
