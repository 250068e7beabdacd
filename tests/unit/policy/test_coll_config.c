/* SPDX-License-Identifier: BSD-3-Clause
 * The configuration of one call: what NCCL refuses, what keeps a call plain, and copies of it.
 */
#include "interpose/policy/coll_config.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/tap.h"

/* As 2.32 has it, and two fields of the future. */
struct config {
  size_t size;
  unsigned magic, version;
  ncclConfigExt_t *ext;
  int min, max, nvls, cluster;
  const char *algorithms;
  int force, policy;
  uint64_t tag;
  void *event;
  int future[2];
};

enum { OF_2_31 = 64, OF_2_32 = 72, NONE = NCCL_CONFIG_UNDEF_INT };

static struct config undefined(size_t size) {
  return (struct config){size, 0xcafebeef, 23203, NULL, NONE, NONE, NONE, NONE, NULL, 1, NONE, 0, NULL, {1, 1}};
}

static const ncclCollConfig_t *as_nccl(const struct config *c) { return (const ncclCollConfig_t *)c; }

#define IS_VALID(wanted, what, ...) \
  do { \
    struct config c = undefined(OF_2_32); \
    __VA_ARGS__; \
    ok(tagc_coll_config_is_valid(as_nccl(&c)) == (wanted), "%s is %s", what, (wanted) ? "taken" : "refused"); \
  } while (0)

/* What ncclParseCollConfig() of 2.31.2 and of 2.32.3 answered. */
static void test_valid(void) {
  ok(tagc_coll_config_is_valid(NULL), "no configuration is taken");
  IS_VALID(true, "an undefined one", (void)c);
  IS_VALID(true, "that of 2.31", c.size = OF_2_31);
  IS_VALID(true, "a longer one", c.size = sizeof c);
  IS_VALID(true, "any version", c.version = 0);
  IS_VALID(false, "a wrong magic number", c.magic = 0);
  IS_VALID(false, "a short one", c.size = 40);
  IS_VALID(false, "a size of 0", c.size = 0);
  IS_VALID(true, "forceAlgSelection 0", c.force = 0);
  IS_VALID(false, "forceAlgSelection 2", c.force = 2);
  IS_VALID(false, "an undefined forceAlgSelection", c.force = NONE);
  for (int policy = 0; policy < 4; policy++)
    IS_VALID(true, "a policy", c.policy = policy);
  IS_VALID(false, "policy 4", c.policy = 4);
  IS_VALID(false, "policy -1", c.policy = -1);
  IS_VALID(true, "minCTAs of -1, which NCCL bounds later", c.min = -1);
  IS_VALID(true, "an algorithm, which NCCL looks up later", c.algorithms = "?");
}

#define GIVES(reason, what, ...) \
  do { \
    struct config c = undefined(OF_2_32); \
    __VA_ARGS__; \
    const enum tagc_reason got = tagc_coll_config_gate(as_nccl(&c)); \
    ok(got == TAGC_REASON_##reason, "%s: %s", what, tagc_reason_words(got)); \
  } while (0)

static void test_gate(void) {
  ncclConfigExt_t option = {.key = {1, 1}};
  ok(tagc_coll_config_gate(NULL) == TAGC_REASON_NONE, "no configuration asks for nothing");
  GIVES(NONE, "nothing defined", (void)c);
  GIVES(NONE, "of 2.31, with something behind it", c.size = OF_2_31; c.event = &c);
  GIVES(NONE, "a tag for the profiler", c.tag = UINT64_MAX);
  GIVES(NONE, "an empty selection", c.algorithms = "");
  GIVES(NONE, "no selection that need not be kept", c.force = 0);
  GIVES(config_algorithm, "a selection", c.algorithms = "ring");
  GIVES(config_algorithm, "a selection that need not be kept", c.algorithms = "^nvls"; c.force = 0);
  GIVES(config_ctas, "minCTAs", c.min = 1);
  GIVES(config_ctas, "maxCTAs", c.max = 1);
  GIVES(config_ctas, "nvlsCTAs", c.nvls = 1);
  GIVES(config_ctas, "cgaClusterSize", c.cluster = 0);
  GIVES(config_ctas, "CTAPolicy", c.policy = 0);
  GIVES(config_event, "an event", c.event = &c);
  GIVES(config_unknown, "a vendor's option", c.ext = &option);
  GIVES(config_unknown, "a newer struct", c.size = sizeof c);
}

static void test_copies(void) {
  char text[] = "ring,tree";
  struct config c = undefined(sizeof c), before;
  ncclConfigExt_t options[2] = {{.next = &options[1], .key = {7, 1}, .val.i = 1}, {.key = {7, 2}, .val.s = "x"}};
  c.ext = options;
  c.algorithms = text;
  before = c;
  struct tagc_kept_config *kept = tagc_coll_config_keep(as_nccl(&c));
  if (!kept)
    abort();
  memset(&c, 0x5a, sizeof c);
  memset(text, 'x', sizeof text - 1);
  memset(options, 0x5a, sizeof options);
  const struct config *copy = (const struct config *)tagc_coll_config_of(kept);
  const ncclConfigExt_t *first = copy->ext;
  ok(strcmp(copy->algorithms, "ring,tree") == 0, "a copy has its own text");
  ok(first->key.optionId == 1 && first->val.i == 1 && first->next->key.optionId == 2 && !first->next->next,
     "and its own options, in their order");
  before.ext = copy->ext;
  before.algorithms = copy->algorithms;
  ok(memcmp(copy, &before, sizeof before) == 0, "all else is as it was, also what is not known");
  tagc_coll_config_retain(kept);
  tagc_coll_config_release(kept);
  ok(strcmp(copy->algorithms, "ring,tree") == 0, "it lives until its last reference is gone");
  tagc_coll_config_release(kept);
  tagc_coll_config_release(NULL);
  struct config *exact = malloc(OF_2_31);
  if (!exact)
    abort();
  before = undefined(OF_2_31);
  memcpy(exact, &before, OF_2_31);
  kept = tagc_coll_config_keep(as_nccl(exact));
  ok(kept && memcmp(tagc_coll_config_of(kept), exact, OF_2_31) == 0, "nothing is read behind the end of one of 2.31");
  tagc_coll_config_release(kept);
  free(exact);
}

int main(void) {
  test_valid();
  test_gate();
  test_copies();
  return tap_done();
}
