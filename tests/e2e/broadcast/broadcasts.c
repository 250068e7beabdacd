/* SPDX-License-Identifier: BSD-3-Clause
 * Broadcasts that repeat, as of a trainer that sends its weights. Each rank knows what each result must be, to the bit,
 * and that nothing else was written.
 *
 * Run under tests/standin/launch with the library preloaded and TAGC_BROADCAST=exact TAGC_MIN_BYTES=4K.
 *
 *   broadcasts ROUNDS [tensors=N] [count=N] [type=TYPE] [permille=N] [roots=N] [apart|bcast|config] [ctas] [groups]
 *              [alike] [shuffle] [skip] [jump=ROUND] [hostile] [mixed] [others] [trains] [file=CALLS] [scale=N]
 *
 * permille   so many elements of a thousand change by one step from round to round; the default is 10
 * roots      tensor t comes from rank t % N; the default is rank 0 alone
 * apart      send and receive buffers differ at the root; bcast: ncclBcast; config: ncclBroadcastConfig
 * ctas       every third round the last rank bounds NCCL's processors (ncclCollConfig_t); goes with config
 * groups     four calls a group
 * alike      tensors of one size; else each has its own
 * shuffle    in another order in each round
 * skip       every third round leaves out every third tensor
 * jump       other values from that round on, like those of another checkpoint
 * hostile    random bits in every round
 * mixed      all types in turn, also of one byte
 * others     other collectives in between
 * trains     a gradient behind each round: the communicator has steps, too (TAGC_CODEC=none TAGC_ASSUME=gradients)
 * file       a round as a program makes it (tests/fixtures/broadcasts): lines FUNCTION TYPE COUNT ROOT, and group, end
 * scale      its counts are divided by this, and are even
 */
#include "env/hash.h"
#include "tests/e2e/harness.h"

enum { MOST = 4096, GUARD = 64 };

struct tensor {
  char function[16];
  ncclDataType_t type;
  size_t count, element;
  int root;
  bool begins_group, ends_group;
  uint8_t *content, *send, *recv; /* content: what the root has; the same on all ranks */
};

static struct tensor tensors[MOST];
static size_t tensor_count, group;
static long rounds, permille = 10, jump = -1;
static bool apart, alike, shuffle, skips, hostile, others, trains, ctas, exact = true, clean = true;

static const struct type {
  const char *name;
  ncclDataType_t type;
  size_t element;
} types[] = {{"bf16", ncclBfloat16, 2}, {"fp16", ncclFloat16, 2}, {"fp32", ncclFloat32, 4}, {"u8", ncclUint8, 1},
             {"i64", ncclInt64, 8},     {"fp64", ncclFloat64, 8}, {"i32", ncclInt32, 4}};
enum { TYPES = sizeof types / sizeof *types };

static const struct type *type_of(const char *name) {
  for (size_t i = 0; i < TYPES; i++)
    if (strcmp(types[i].name, name) == 0)
      return &types[i];
  fprintf(stderr, "broadcasts: '%s' is no type\n", name);
  exit(2);
}

static struct tensor *add_tensor(const char *function, const struct type *type, size_t count, int root) {
  struct tensor *t = &tensors[tensor_count++];
  if (tensor_count == MOST) {
    fprintf(stderr, "broadcasts: more than %d calls a round\n", MOST - 1);
    exit(2);
  }
  *t = (struct tensor){.type = type->type, .count = count, .element = type->element, .root = root % nranks};
  snprintf(t->function, sizeof t->function, "%s", function);
  return t;
}

static size_t bytes_of(const struct tensor *t) { return t->count * t->element; }

/* ---- contents ---------------------------------------------------------------------------------------------------- */

/* The width of what changes by one: an element's, of bytes that of a bf16. */
static size_t word_of(const struct tensor *t) { return t->element == 1 ? 2 : t->element; }

/* Like weights: of many sizes, most of them below 0.1. */
static void fill_content(struct tensor *t, size_t number, uint64_t era) {
  for (size_t i = 0; i * 2 + 1 < bytes_of(t); i++) {
    const uint64_t h = mix(number << 40 ^ era << 56 ^ i);
    const uint16_t word = (uint16_t)((h & 0x8000) | (0x3b00 + (h >> 16) % 0x300));
    memcpy(t->content + 2 * i, &word, sizeof word);
  }
}

/* One up or down, as an integer: one unit of a number's last place. */
static void step_word(uint8_t *at, size_t word, bool up) {
  uint64_t value = 0;
  memcpy(&value, at, word);
  value += up ? 1 : UINT64_MAX;
  memcpy(at, &value, word);
}

static void change_content(struct tensor *t, size_t number, long round) {
  const size_t word = word_of(t);
  for (size_t i = 0; (i + 1) * word <= bytes_of(t); i++) {
    const uint64_t h = mix((uint64_t)round << 48 ^ number << 32 ^ i);
    if (hostile)
      memcpy(t->content + i * word, &(uint64_t){mix(h)}, word);
    else if (h % 1000 < (uint64_t)permille)
      step_word(t->content + i * word, word, h >> 20 & 1);
  }
}

static void begin_content(struct tensor *t, size_t number) {
  const size_t bytes = bytes_of(t);
  t->content = malloc(bytes);
  t->send = malloc(bytes + 2 * GUARD);
  t->recv = malloc(bytes + 2 * GUARD);
  memset(t->content, 0, bytes);
  fill_content(t, number, 0);
}

/* ---- a round ----------------------------------------------------------------------------------------------------- */

/* As of 2.31: what it says is NCCL's, which leaves the tests of configurations to nccl/config_calls.c. */
static const ncclCollConfig_t *bounded_ctas(void) {
  enum { NONE = NCCL_CONFIG_UNDEF_INT };
  static struct {
    size_t size;
    unsigned magic, version;
    void *ext;
    int minCTAs, maxCTAs, nvlsCTAs, cgaClusterSize;
    const char *algSelection;
    int forceAlgSelection, CTAPolicy;
    uint64_t userProfilerTag;
    void *launchCompletionEvent;
  } config = {72, 0xcafebeef, 23203, NULL, 1, 4, NONE, NONE, NULL, 1, NONE, 0, NULL};
  return (const ncclCollConfig_t *)&config;
}

static ncclResult_t call_one(const struct tensor *t, long round) {
  const bool root = rank == t->root;
  uint8_t *recv = t->recv + GUARD, *send = apart ? t->send + GUARD : recv;
  memset(t->recv, 0x5a, bytes_of(t) + 2 * GUARD);
  memset(t->send, 0x33, bytes_of(t) + 2 * GUARD);
  if (root)
    memcpy(send, t->content, bytes_of(t));
  if (strcmp(t->function, "bcast") == 0)
    return ncclBcast(recv, t->count, t->type, t->root, world, NULL);
  if (strcmp(t->function, "config") == 0)
    return ncclBroadcastConfig(send, recv, t->count, t->type, t->root, world, NULL,
                               ctas && round % 3 == 2 && rank == nranks - 1 ? bounded_ctas() : NULL);
  return ncclBroadcast(root ? send : NULL, recv, t->count, t->type, t->root, world, NULL);
}

static bool guards_hold(const uint8_t *memory, size_t bytes, uint8_t with) {
  for (size_t i = 0; i < GUARD; i++)
    if (memory[i] != with || memory[GUARD + bytes + i] != with)
      return false;
  return true;
}

static void check_one(const struct tensor *t, long round, size_t number) {
  const size_t bytes = bytes_of(t);
  const bool good = memcmp(t->recv + GUARD, t->content, bytes) == 0;
  if (!good && exact)
    fprintf(stderr, "rank %d: round %ld, tensor %zu differs\n", rank, round, number);
  exact &= good;
  clean &= guards_hold(t->recv, bytes, 0x5a) && guards_hold(t->send, bytes, 0x33);
  if (apart && strcmp(t->function, "bcast") != 0)
    clean &= rank != t->root || memcmp(t->send + GUARD, t->content, bytes) == 0;
}

static void call_others(long round) {
  float mine[300], all[300];
  for (int i = 0; i < 300; i++)
    mine[i] = (float)(rank + round + i);
  CHECK(ncclAllReduce(mine, all, 300, ncclFloat32, ncclSum, world, NULL));
  exact &= all[7] == (float)(nranks * (nranks - 1) / 2) + (float)(nranks * (round + 7));
}

static void call_gradient(long round) {
  static float mine[64 * 4096], sum[4096];
  for (size_t i = 0; i < (size_t)nranks * 4096; i++)
    mine[i] = (float)((long)i % 7 + round);
  CHECK(ncclReduceScatter(mine, sum, 4096, ncclFloat32, ncclSum, world, NULL));
  for (size_t i = 0; i < 4096; i++)
    exact &= sum[i] == (float)(nranks * (((long)i + 4096L * rank) % 7 + round));
}

static void make_round(long round) {
  size_t order[MOST], calls = 0;
  for (size_t i = 0; i < tensor_count; i++) {
    if (round == jump)
      fill_content(&tensors[i], i, 1);
    if (round)
      change_content(&tensors[i], i, round);
    if (!skips || round % 3 != 2 || i % 3 != 1)
      order[calls++] = i;
  }
  for (size_t i = calls; shuffle && i > 1; i--) {
    const size_t j = mix((uint64_t)round << 20 ^ i) % i, swapped = order[i - 1];
    order[i - 1] = order[j];
    order[j] = swapped;
  }
  for (size_t i = 0; i < calls; i++) {
    const struct tensor *t = &tensors[order[i]];
    if (t->begins_group || (group && i % group == 0))
      CHECK(ncclGroupStart());
    CHECK(call_one(t, round));
    if (t->ends_group || (group && (i % group == group - 1 || i + 1 == calls)))
      CHECK(ncclGroupEnd());
    if (others && i % 2)
      call_others(round);
  }
  if (trains)
    call_gradient(round);
  for (size_t i = 0; i < calls; i++)
    check_one(&tensors[order[i]], round, order[i]);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static size_t scale = 1;

static size_t scaled(size_t count) { return scale == 1 ? count : count / scale / 2 * 2 + 2; }

static void read_calls(const char *path) {
  char line[200], function[16], type[16];
  size_t count;
  int root;
  bool begins = false;
  FILE *file = fopen(path, "r");
  for (int number = 1; file && fgets(line, sizeof line, file); number++) {
    if (*line == '#' || *line == '\n')
      continue;
    if (strcmp(line, "group\n") == 0) {
      begins = true;
    } else if (strcmp(line, "end\n") == 0 && tensor_count) {
      tensors[tensor_count - 1].ends_group = true;
    } else if (sscanf(line, "%15s %15s %zu %d", function, type, &count, &root) == 4) {
      add_tensor(function, type_of(type), scaled(count), root + nranks)->begins_group = begins;
      begins = false;
    } else {
      fprintf(stderr, "%s:%d: neither a call nor a group: %s", path, number, line);
      exit(2);
    }
  }
  if (!file) {
    perror(path);
    exit(2);
  }
  fclose(file);
}

static bool has(const char *argument, const char *key, const char **value) {
  const size_t length = strlen(key);
  *value = argument + length;
  return strncmp(argument, key, length) == 0;
}

int main(int argc, char **argv) {
  const char *function = "broadcast", *type = "bf16", *file = NULL, *value;
  size_t wanted = 6, count = 20000;
  int roots = 1;
  bool mixed = false;
  meet();
  rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
  for (int i = 2; i < argc; i++) {
    if (has(argv[i], "tensors=", &value))
      wanted = strtoul(value, NULL, 10);
    else if (has(argv[i], "count=", &value))
      count = strtoul(value, NULL, 10);
    else if (has(argv[i], "type=", &value))
      type = value;
    else if (has(argv[i], "permille=", &value))
      permille = strtol(value, NULL, 10);
    else if (has(argv[i], "roots=", &value))
      roots = atoi(value);
    else if (has(argv[i], "jump=", &value))
      jump = strtol(value, NULL, 10);
    else if (has(argv[i], "scale=", &value))
      scale = strtoul(value, NULL, 10);
    else if (has(argv[i], "file=", &value))
      file = value;
    else if (strcmp(argv[i], "bcast") == 0 || strcmp(argv[i], "config") == 0)
      function = argv[i];
    else if (strcmp(argv[i], "groups") == 0)
      group = 4;
    else {
      apart |= strcmp(argv[i], "apart") == 0;
      alike |= strcmp(argv[i], "alike") == 0;
      shuffle |= strcmp(argv[i], "shuffle") == 0;
      skips |= strcmp(argv[i], "skip") == 0;
      hostile |= strcmp(argv[i], "hostile") == 0;
      others |= strcmp(argv[i], "others") == 0;
      ctas |= strcmp(argv[i], "ctas") == 0;
      trains |= strcmp(argv[i], "trains") == 0;
      mixed |= strcmp(argv[i], "mixed") == 0;
    }
  }
  if (file)
    read_calls(file);
  for (size_t i = 0; i < wanted && !file; i++) {
    add_tensor(function, mixed ? &types[i % TYPES] : type_of(type), count + (alike ? 0 : 17 * i),
               (int)(i % (size_t)roots));
  }
  for (size_t i = 0; i < tensor_count; i++)
    begin_content(&tensors[i], i);
  for (long round = 0; round < rounds; round++)
    make_round(round);
  uint64_t hash = TAGC_HASH_START;
  for (size_t i = 0; i < tensor_count; i++)
    hash = tagc_hash_add(hash, tensors[i].recv + GUARD, bytes_of(&tensors[i]));
  all_ok(exact, "every broadcast gives every rank what its root has, to the bit");
  all_ok(clean, "nothing is written beside the receive buffers");
  if (rank == 0)
    printf("hash %016llx\n", (unsigned long long)hash);
  return finish();
}
