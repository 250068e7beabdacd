/* SPDX-License-Identifier: BSD-3-Clause
 * The roles of communicators, and checks by formulas: synthetic jobs, and the calls of real programs (tests/fixtures).
 */
#include "interpose/tagc-report/judge/volume.h"

#include <math.h>

#include "interpose/tagc-report/read/format.h"
#include "tests/unit/fixtures.h"
#include "tests/unit/tap.h"
#include "tests/unit/tagc-report/jobs.h"
#include "tests/unit/tagc-report/runs.h"

enum { MOST = 32 };

static struct tagc_volume_facts nothing;
static struct tagc_volume_check checks[MOST];

static size_t check(struct tagc_summary *job, const struct tagc_volume_facts *facts) {
  tagc_sum_roles(job);
  return tagc_volume_checks(job, facts, checks, MOST);
}

/* Test point: the communicator has this role, and its grounds contain these words. */
static void is_role(const struct tagc_summary *job, size_t comm, enum tagc_sum_role role, const char *grounds,
                    const char *what) {
  const struct tagc_sum_comm *c = &job->comms[comm];
  ok(c->role == role && c->role_grounds && strstr(c->role_grounds, grounds), "%s: %s: %s", what,
     tagc_role_words(c->role), c->role_grounds);
}

/* Test point: check i has this deviation, and these words; "": none. */
static void is_check(size_t i, double deviation, const char *words) {
  const struct tagc_volume_check *c = &checks[i];
  const bool right =
    isnan(deviation) ? isnan(c->deviation) : fabs(c->deviation - deviation) <= (deviation == 0 ? 0 : 5e-5);
  ok(right && (*words ? strstr(c->words, words) != NULL : c->words[0] == '\0'), "%s: %s: %+.4f%% %s", c->what,
     c->formula, 100 * c->deviation, c->words);
}

/* -- the calls of real programs ------------------------------------------------------------------------------------ */

static const struct {
  const char *file;
  enum tagc_sum_role role;
  double reduced, gathered;
  const char *words;
} files[] = {
  {"fsdp1-gpt2-small", TAGC_ROLE_SHARDED, 0, -0.1572, "'root' (38,992,128 parameters) is gathered once"},
  {"fsdp1-llama2-7b", TAGC_ROLE_SHARDED, 0, -0.0195, "'root' (262,148,096 parameters) is gathered once"},
  {"fsdp2-gpt2-small", TAGC_ROLE_SHARDED, 0, -0.1572, "'root' (38,992,896 parameters) is gathered once"},
  {"fsdp2-llama2-7b-embed", TAGC_ROLE_SHARDED, 0, -0.0097, "'head' (131,076,096 parameters) is gathered once"},
  {"fsdp2-llama3-70b", TAGC_ROLE_SHARDED, 0, -0.0149, "'root'"},
  {"fsdp2-llama3-8b-kept", TAGC_ROLE_OPTIMIZER, 0, 0, ""},
  {"fsdp2-llama3-8b-titan", TAGC_ROLE_SHARDED, 0, -0.0327, "'head'"},
  {"fsdp2-mistral-7b-evaluated", TAGC_ROLE_SHARDED, 0, -0.0181, "'root'"},
  {"fsdp2-mistral-7b-hsdp", TAGC_ROLE_OPTIMIZER, 0, 0, ""},
  {"fsdp2-qwen2-accumulated", TAGC_ROLE_SHARDED, 0, 2.4489, "As for 4 microbatches"},
  {"fsdp2-qwen3-8b", TAGC_ROLE_SHARDED, 0, -0.0760, "'root'"},
  {"fsdp2-tinyllama-every", TAGC_ROLE_SHARDED, 2, 1.8213, "As for 3 microbatches"},
  {"fsdp2-tinyllama-frozen", TAGC_ROLE_SHARDED, 0, 0.7338, "frozen"},
  {"fsdp2-tinyllama-pairs", TAGC_ROLE_SHARDED, 0, -0.0596, "'root'"},
  {"megatron-gpt-345m-overlap", TAGC_ROLE_OPTIMIZER, 0, 0, ""},
  {"megatron-gpt-345m", TAGC_ROLE_OPTIMIZER, 0, 0, ""},
  {"megatron-llama2-7b-overlap", TAGC_ROLE_OPTIMIZER, 0, 0, ""},
  /* The report judges the reduce-scatters alone, and takes features for parameters. */
  {"real-ddp-features", TAGC_ROLE_OPTIMIZER, 0, 0, ""},
  {"real-fsdp1-embed", TAGC_ROLE_SHARDED, 0, -0.0476, "'head'"},
  {"real-fsdp1-recomputed", TAGC_ROLE_SHARDED, 1, 1.6192,
   "computed again; 'root' (256,128 parameters) is gathered 2 times"},
  {"real-fsdp1", TAGC_ROLE_SHARDED, 0, -0.0952, "'root'"},
  {"real-fsdp2-accumulated-every", TAGC_ROLE_SHARDED, 2, 1.7144, "As for 3 microbatches"},
  {"real-fsdp2-accumulated", TAGC_ROLE_SHARDED, 0, 1.7144, "As for 3 microbatches"},
  {"real-fsdp2-embed", TAGC_ROLE_SHARDED, 0, -0.0476, "'head'"},
  {"real-fsdp2-kept", TAGC_ROLE_OPTIMIZER, 0, 0, ""},
  {"real-fsdp2-recomputed", TAGC_ROLE_SHARDED, 0, 0.7144,
   "computed again; 'root' (256,128 parameters) is gathered once"},
  {"real-fsdp2-ten", TAGC_ROLE_SHARDED, 2, 8.4767, "As for 11 microbatches"},
  {"real-fsdp2-titan", TAGC_ROLE_SHARDED, 1, 1.8571, "computed again; 'head'"},
  {"real-fsdp2-varied-every", TAGC_ROLE_SHARDED, 10, 8.9528, "As for 11 microbatches"},
  {"real-fsdp2-varied", TAGC_ROLE_SHARDED, 3, 8.9528, "As for 11 microbatches"},
  {"real-fsdp2", TAGC_ROLE_SHARDED, 0, -0.0952, "'root'"},
  {"real-zero1", TAGC_ROLE_OPTIMIZER, 0, 0, ""},
  {"real-zero2-whole", TAGC_ROLE_OPTIMIZER, 0, 0, ""},
  {"real-zero2", TAGC_ROLE_OPTIMIZER, 0, 0, ""},
  {"zero3-gpt2-small", TAGC_ROLE_SHARDED, 0, -0.0005, "121,344 of the parameters"},
  {"zero3-llama2-7b", TAGC_ROLE_SHARDED, 0, -0.00002, "266,240 of the parameters"},
  {"zero3-mistral-7b", TAGC_ROLE_SHARDED, 0, -0.00002, "266,240 of the parameters"},
};

static struct tagc_summary *read_fixture(const char *name) {
  glob_t found;
  struct tagc_summary *job = job_make();
  if (fixtures_find(name, &found) != 1 || !job_fixture(job, found.gl_pathv[0], 0)) {
    ok(0, "%s is read", name);
    job_free(job);
    job = NULL;
  }
  globfree(&found);
  return job;
}

/* All-reduces of replicas, and of activations: the calls do not determine their expected volume. */
static const struct {
  const char *file;
  enum tagc_sum_role role;
  const char *grounds, *words;
} sums[] = {
  {"ddp-gpt2-small-loss", TAGC_ROLE_DATA, "13 large all-reduces a step, which are evidently of gradients",
   "--parameters"},
  {"ddp-gpt2-small-one-cap", TAGC_ROLE_UNKNOWN, "gradients and activations", ""},
  {"ddp-gpt2-small", TAGC_ROLE_DATA, "evidently of gradients", "--parameters"},
  {"ddp-resnet50", TAGC_ROLE_DATA, "evidently of gradients", "--parameters"},
  {"ddp-tinyllama", TAGC_ROLE_DATA, "evidently of gradients", "--parameters"},
  {"horovod-gpt2-small", TAGC_ROLE_DATA, "evidently of gradients", "--parameters"},
  {"hsdp-llama3-8b", TAGC_ROLE_UNKNOWN, "layers that are alike", ""},
  {"hsdp1-llama2-7b", TAGC_ROLE_UNKNOWN, "gradients and activations", ""},
  {"real-context", TAGC_ROLE_UNKNOWN, "gradients and activations", ""},
  {"real-ddp-accelerate", TAGC_ROLE_DATA, "evidently of gradients", "--parameters"},
  {"real-ddp-buffers", TAGC_ROLE_DATA, "evidently of gradients", "--parameters"},
  {"real-ddp-every", TAGC_ROLE_DATA, "evidently of gradients", "--parameters"},
  {"real-ddp-frozen", TAGC_ROLE_DATA, "evidently of gradients", "--parameters"},
  {"real-ddp-hook", TAGC_ROLE_DATA, "evidently of gradients", "--parameters"},
  {"real-ddp-larger", TAGC_ROLE_DATA, "evidently of gradients", "--parameters"},
  {"real-ddp-one-bucket", TAGC_ROLE_DATA, "evidently of gradients", "--parameters"},
  {"real-ddp-static", TAGC_ROLE_DATA, "evidently of gradients", "--parameters"},
  {"real-ddp-two", TAGC_ROLE_DATA, "evidently of gradients", "--parameters"},
  {"real-ddp-types", TAGC_ROLE_DATA, "evidently of gradients", "--parameters"},
  {"real-ddp-unused", TAGC_ROLE_DATA, "evidently of gradients", "--parameters"},
  {"real-ddp-varied", TAGC_ROLE_DATA, "evidently of gradients", "--parameters"},
  {"real-ddp", TAGC_ROLE_DATA, "evidently of gradients", "--parameters"},
  {"real-experts", TAGC_ROLE_UNKNOWN, "gradients and activations", ""},
  {"real-fsdp1-replicated", TAGC_ROLE_UNKNOWN, "gradients and activations", ""},
  {"real-hsdp", TAGC_ROLE_UNKNOWN, "gradients and activations", ""},
  {"real-hsdp1", TAGC_ROLE_UNKNOWN, "gradients and activations", ""},
  {"real-metrics", TAGC_ROLE_UNKNOWN, "gradients and activations", ""},
  {"real-tp-stages", TAGC_ROLE_UNKNOWN, "gradients and activations", ""},
  {"real-tp-widths", TAGC_ROLE_UNKNOWN, "gradients and activations", ""},
  {"real-tp", TAGC_ROLE_UNKNOWN, "activations (tensor parallel), or gradients", ""},
  {"real-zero3", TAGC_ROLE_UNKNOWN, "no cycle of gradients was found", ""}, /* of so few steps */
  {"tp-llama2-7b-sequence", TAGC_ROLE_SEQUENCE, "129 reduce-scatters and 128 gathers", "--layers"},
  {"tp-llama2-7b", TAGC_ROLE_TENSOR, "130 all-reduces", "--layers"},
  {"tp-one-layer", TAGC_ROLE_TENSOR, "maxima over a divided vocabulary beside", "--layers"},
  {"tp-vision-text", TAGC_ROLE_TENSOR, "130 all-reduces", "--layers"},
};

static size_t count_fixtures(void) {
  glob_t found;
  const size_t count = fixtures_find("*", &found);
  globfree(&found);
  return count;
}

static void test_fixtures(void) {
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    struct tagc_summary *job = read_fixture(files[i].file);
    if (!job)
      continue;
    const size_t n = check(job, &nothing);
    is_role(job, 0, files[i].role, "gathered", files[i].file);
    ok(n == 2, "reduced and gathered");
    is_check(0, files[i].reduced, files[i].reduced > 0 ? "in each microbatch" : "");
    is_check(1, files[i].gathered, files[i].words);
    job_free(job);
  }
  for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
    struct tagc_summary *job = read_fixture(sums[i].file);
    if (!job)
      continue;
    const size_t n = check(job, &nothing);
    is_role(job, 0, sums[i].role, sums[i].grounds, sums[i].file);
    for (size_t k = 0; k < n; k++)
      is_check(k, NAN, sums[i].words);
    job_free(job);
  }
  ok(count_fixtures() == sizeof files / sizeof *files + sizeof sums / sizeof *sums, "that are all of the files");
}

/* The same, with further facts from the user, and facts missing in the summary. */
static void test_known(void) {
  struct tagc_summary *job = read_fixture("fsdp1-llama2-7b");
  check(job, &(struct tagc_volume_facts){.parameters = 6738415616});
  is_check(0, 0, "");
  check(job, &(struct tagc_volume_facts){.parameters = 6738000000});
  is_check(0, 415616.0 / 6738e6, "Padding to the ranks: 0.0062%");
  check(job, &(struct tagc_volume_facts){.parameters = 8000000000});
  is_check(0, 6738415616 / 8e9 - 1, "Fewer gradients than parameters");
  for (size_t i = 0; i < job->comms[0].line_count; i++)
    job->comms[0].lines[i].whole.sent.between /= 4;
  check(job, &nothing);
  ok(fabs(checks[0].sent - checks[0].measured / 4) < 1 && checks[0].deviation == 0,
     "compressed: the formula is held against plain calls");
  job->comms[0].whole_steps = 0;
  check(job, &nothing);
  is_role(job, 0, TAGC_ROLE_SHARDED, "gathered", "without whole steps");
  is_check(0, NAN, "No whole step");
  ok(tagc_volume_checks(job, &nothing, checks, 1) == 2, "no more checks are written than there is room for");
  job_free(job);
}

/* -- jobs that are made up ----------------------------------------------------------------------------------------- */

/* HSDP: shards among ranks 0..3, replicas between 0 and 4, the second gathers among ranks 0 and 1. */
static void test_hsdp(void) {
  struct tagc_summary *job = job_make();
  struct tagc_sum_comm *shards = job_comm(job, 4, 0, 1), *replicas = job_comm(job, 2, 0, 4),
                       *again = job_comm(job, 2, 0, 1);
  shards->gradients = true;
  for (uint32_t unit = 0; unit < 9; unit++) {
    const uint64_t count = unit ? 50000 : 80000;
    job_slot(shards, unit ? "block" : "root", unit, 0, count, JOB_F32);
    job_calls(shards, JOB_RS, JOB_F32, JOB_AVG, count, 1);
    job_calls(shards, JOB_AG, JOB_BF16, JOB_SUM, count, 1);
    job_calls(replicas, JOB_AR, JOB_F32, JOB_AVG, count, 1);
    if (unit)
      job_calls(again, JOB_AG, JOB_BF16, JOB_SUM, 2 * count, 1);
  }
  const size_t n = check(job, &nothing);
  is_role(job, 0, TAGC_ROLE_SHARDED, "another communicator", "shards");
  is_role(job, 1, TAGC_ROLE_DATA, "replicas (HSDP)", "replicas");
  is_role(job, 2, TAGC_ROLE_SHARDED, "gathers alone", "second gathers");
  ok(n == 3, "three checks: %zu", n);
  is_check(0, 0, "");
  ok(strstr(checks[1].formula, "(3/4 + 1/2) x 1,920,000 x 2 B") &&
       strstr(checks[1].words, "'root' (320,000 parameters) is gathered once"),
     "%s: %s", checks[1].formula, checks[1].words);
  is_check(2, 0, "");
  job_free(job);
}

static void test_data(void) {
  struct tagc_summary *job = job_make();
  struct tagc_sum_comm *comm = job_comm(job, 8, 0, 1);
  static const uint64_t buckets[] = {262152, 7087872, 7087872, 6554112, 7603200};
  uint64_t parameters = 0;
  for (size_t i = 0; i < 5; i++) {
    job_calls(comm, JOB_AR, JOB_F32, JOB_SUM, buckets[i], 1);
    parameters += buckets[i];
  }
  job_calls(comm, JOB_AR, JOB_F32, JOB_SUM, 1, 2);
  comm->gradients = true;
  check(job, &nothing);
  is_role(job, 0, TAGC_ROLE_DATA, "5 large all-reduces a step", "DDP");
  is_check(0, NAN, "--parameters");
  check(job, &(struct tagc_volume_facts){.parameters = parameters});
  is_check(0, 0, "");
  check(job, &(struct tagc_volume_facts){.parameters = parameters / 2});
  is_check(0, 1, "in each microbatch");
  check(job, &(struct tagc_volume_facts){.parameters = parameters + 1000000});
  is_check(0, (double)parameters / (double)(parameters + 1000000) - 1, "Fewer gradients");
  comm->gradients = false;
  check(job, &nothing);
  is_role(job, 0, TAGC_ROLE_UNKNOWN, "gradients and activations", "the same without a proof");
  job_free(job);
}

/* DeepSpeed: all-reduced buckets, or each part reduced to its owner; parameters are gathered once. */
static void test_owners(uint16_t function, const char *grounds, const char *what) {
  struct tagc_summary *job = job_make();
  struct tagc_sum_comm *comm = job_comm(job, 4, 0, 1);
  for (int i = 0; i < 4; i++)
    job_calls(comm, function, JOB_BF16, JOB_SUM, 1000000 + 4 * (uint64_t)i, 1);
  job_calls(comm, JOB_AG, JOB_BF16, JOB_SUM, 1000006, 1);
  job_calls(comm, JOB_AR, JOB_F32, JOB_MAX, 1, 1);
  comm->gradients = true;
  const size_t n = check(job, &nothing);
  is_role(job, 0, TAGC_ROLE_OPTIMIZER, grounds, what);
  ok(n == 2, "two checks");
  is_check(0, 0, "");
  is_check(1, 0, "");
  ok(checks[0].expected == (function == JOB_AR ? 2 : 1) * 0.75 * 4000024 * 2, "%s", checks[0].formula);
  job_free(job);
}

/* Tensor parallel, 4 layers, 2 microbatches, b s h = 1024 x 512. All-reduces: `a_layer` per layer; `beside` for
 * embedding and head, per microbatch. */
static struct tagc_summary *tensor_job(unsigned a_layer, unsigned beside, bool maxima) {
  struct tagc_summary *job = job_make();
  struct tagc_sum_comm *comm = job_comm(job, 4, 0, 1);
  job_calls(comm, JOB_AR, JOB_BF16, JOB_SUM, 1024 * 512, 2 * (4 * a_layer + beside));
  if (maxima) {
    job_calls(comm, JOB_AR, JOB_F32, JOB_MAX, 1024, 2);
    job_calls(comm, JOB_AR, JOB_F32, JOB_SUM, 1024, 4);
  }
  job_calls(comm, JOB_BROADCAST, JOB_INT64, JOB_SUM, 1025, 2);
  return job;
}

static void test_tensor(void) {
  const struct tagc_volume_facts facts = {.layers = 4, .hidden = 512, .tokens = 1024, .microbatches = 2};
  struct tagc_summary *job = tensor_job(4, 0, true);
  check(job, &facts);
  is_role(job, 0, TAGC_ROLE_TENSOR, "32 all-reduces a step of 524,288 elements each, and maxima", "tensor parallel");
  is_check(0, 0, "");
  ok(strstr(checks[0].formula, "2 x 3/4 x 524,288 x 2 B x 4 x 4 x 2") != NULL, "%s", checks[0].formula);
  check(job, &(struct tagc_volume_facts){.layers = 4});
  is_check(0, NAN, "fit 2 microbatches of 4 layers (4 a layer)");
  check(job, &nothing);
  is_check(0, NAN, "--layers");
  check(job, &(struct tagc_volume_facts){.layers = 4, .hidden = 1024, .tokens = 1024, .microbatches = 2});
  is_check(0, -0.5, "The calls have 524,288 elements");
  job_free(job);
  job = tensor_job(6, 0, true);
  check(job, &facts);
  is_check(0, 0.5, "computed again");
  job_free(job);
  job = tensor_job(4, 2, true);
  check(job, &facts);
  is_check(0, 0.125, "2 more a microbatch: embedding");
  job_free(job);
  job = tensor_job(4, 0, false);
  check(job, &facts);
  is_role(job, 0, TAGC_ROLE_UNKNOWN, "activations (tensor parallel), or gradients", "nothing else says what it is");
  struct tagc_sum_comm *gradients = job_comm(job, 2, 0, 4);
  gradients->gradients = true;
  for (int i = 0; i < 5; i++) {
    job_slot(gradients, "block.0", (uint32_t)i, 0, 40000 + (uint64_t)i, JOB_F32);
    job_calls(gradients, JOB_RS, JOB_F32, JOB_AVG, 40000 + (uint64_t)i, 1);
    job_calls(gradients, JOB_AG, JOB_BF16, JOB_AVG, 40000 + (uint64_t)i, 1);
  }
  check(job, &facts);
  is_role(job, 0, TAGC_ROLE_TENSOR, "gradients are reduced elsewhere", "beside a communicator for gradients");
  job_free(job);
}

/* All-reduces of one count that are the whole job may be gradients of equal layers (FSDP1's NO_SHARD). */
static void test_alike(void) {
  struct tagc_summary *job = job_make();
  struct tagc_sum_comm *comm = job_comm(job, 4, 0, 1);
  job_calls(comm, JOB_AR, JOB_F32, JOB_SUM, 7087872, 12);
  job_calls(comm, JOB_AR, JOB_F32, JOB_SUM, 3000000, 1);
  check(job, &nothing);
  is_role(job, 0, TAGC_ROLE_UNKNOWN, "layers that are alike", "gradients of equal layers");
  ok(tagc_volume_checks(job, &nothing, checks, MOST) == 0, "what is unknown is not checked");
  job_free(job);
}

static void test_sequence(unsigned allgathers, enum tagc_sum_role role, double deviation, const char *words) {
  struct tagc_summary *job = job_make();
  struct tagc_sum_comm *comm = job_comm(job, 4, 0, 1);
  job_calls(comm, JOB_RS, JOB_BF16, JOB_SUM, 1024 * 128, 4 * 4 * 2);
  job_calls(comm, JOB_AG, JOB_BF16, JOB_SUM, 1024 * 128, allgathers * 4 * 2);
  if (allgathers == 4)
    job_calls(comm, JOB_AR, JOB_F32, JOB_MAX, 1024, 2);
  for (uint32_t i = 0; i < 32; i++)
    job_slot(comm, "slot", i, 0, 1024 * 128, JOB_BF16);
  const size_t n =
    check(job, &(struct tagc_volume_facts){.layers = 4, .hidden = 512, .tokens = 1024, .microbatches = 2});
  is_role(job, 0, role, "", "gathers and reduce-scatters of one count");
  ok(n == (role == TAGC_ROLE_SEQUENCE ? 2 : 0), "checks: %zu", n);
  if (n == 2) {
    is_check(0, 0, "");
    is_check(1, deviation, words);
  }
  job_free(job);
}

static void test_pipeline(void) {
  struct tagc_summary *job = job_make();
  struct tagc_sum_comm *comm = job_comm(job, 4, 0, 1);
  const struct tagc_volume_facts facts = {.hidden = 512, .tokens = 1024, .microbatches = 8};
  /* Three borders, 8 forward and 8 back over each. */
  job_add(comm, JOB_SEND, JOB_BF16, JOB_SUM, 1024 * 512, 48 * JOB_STEPS, true);
  job_add(comm, JOB_RECV, JOB_BF16, JOB_SUM, 1024 * 512, 48 * JOB_STEPS, true);
  comm->sends[TAGC_WAY_ON] = comm->sends[TAGC_WAY_BACK] = 24 * JOB_STEPS;
  check(job, &facts);
  is_role(job, 0, TAGC_ROLE_PIPELINE, "in both directions", "pipeline");
  is_check(0, 0, "");
  check(job, &nothing);
  is_check(0, NAN, "fit 8.0 microbatches");
  check(job, &(struct tagc_volume_facts){.hidden = 512, .tokens = 1024, .microbatches = 4});
  is_check(0, 1, "take turns");
  comm->member_count = 2;
  check(job, &facts);
  is_check(0, NAN, "Not all stages");
  comm->member_count = 4;
  comm->sends[TAGC_WAY_ROUND_ON] = comm->sends[TAGC_WAY_ROUND_BACK] = 8 * JOB_STEPS;
  check(job, &facts);
  is_role(job, 0, TAGC_ROLE_PIPELINE, "take turns", "interleaved");
  comm->sends[TAGC_WAY_BACK] = comm->sends[TAGC_WAY_ROUND_BACK] = 0;
  check(job, &facts);
  is_role(job, 0, TAGC_ROLE_CONTEXT, "one direction", "a ring");
  comm->sends[TAGC_WAY_ROUND_ON] = 0;
  check(job, &facts);
  is_role(job, 0, TAGC_ROLE_PIPELINE, "in one direction", "a chain");
  comm->member_count = 3;
  check(job, &facts);
  is_role(job, 0, TAGC_ROLE_UNKNOWN, "traces of ranks are missing", "a chain, or a ring");
  comm->member_count = 4;
  comm->sends[TAGC_WAY_ACROSS] = 100;
  check(job, &facts);
  is_role(job, 0, TAGC_ROLE_UNKNOWN, "heads for tokens", "all to all, of one size");
  job_add(comm, JOB_SEND, JOB_BF16, JOB_SUM, 1024 * 511, 4, true);
  check(job, &facts);
  is_role(job, 0, TAGC_ROLE_EXPERT, "experts", "all to all, of changing sizes");
  memset(comm->sends, 0, sizeof comm->sends);
  check(job, &facts);
  is_role(job, 0, TAGC_ROLE_UNKNOWN, "not known", "nobody knows to whom");
  job_free(job);
}

/* Two data-parallel ranks, two of tensor parallelism, two stages: rank = 4 stage + 2 data + tensor. A rank has 200,000
 * parameters and 4 of 8 layers; 2 microbatches, b s h = 1024 x 512. */
static struct tagc_summary *divided_job(bool sequence) {
  struct tagc_summary *job = job_make();
  for (size_t i = 0; i < 4; i++) {
    struct tagc_sum_comm *data = job_comm(job, 2, i / 2 * 4 + i % 2, 2);
    data->gradients = true;
    job_slot(data, "slot", 0, 0, 100000, JOB_F32);
    job_calls(data, JOB_RS, JOB_F32, JOB_SUM, 100000, 1);
    job_calls(data, JOB_AG, JOB_BF16, JOB_SUM, 100000, 1);
  }
  for (size_t i = 0; i < 4; i++) {
    struct tagc_sum_comm *tensor = job_comm(job, 2, 2 * i, 1);
    job_calls(tensor, sequence ? JOB_RS : JOB_AR, JOB_BF16, JOB_SUM, sequence ? 1024 * 256 : 1024 * 512, 4 * 4 * 2);
    if (sequence)
      job_calls(tensor, JOB_AG, JOB_BF16, JOB_SUM, 1024 * 256, 4 * 4 * 2);
  }
  for (size_t i = 0; i < 4; i++) {
    struct tagc_sum_comm *stages = job_comm(job, 2, i, 4);
    job_calls(stages, JOB_SEND, JOB_BF16, JOB_SUM, sequence ? 1024 * 256 : 1024 * 512, 2);
    stages->sends[TAGC_WAY_ON] = stages->sends[TAGC_WAY_BACK] = 6;
  }
  return job;
}

/* The user's numbers are those of the whole model. */
static void test_divided(bool sequence) {
  const struct tagc_volume_facts facts = {
    .parameters = 800000, .layers = 8, .hidden = 512, .tokens = 1024, .microbatches = 2};
  const char *const parameters = "P is that of the model over 2 x 2 (tensor, pipeline)";
  struct tagc_summary *job = divided_job(sequence);
  const size_t n = check(job, &facts), stages = sequence ? 16 : 12;
  ok(n == stages + 4, "checks: %zu", n);
  is_role(job, 4, sequence ? TAGC_ROLE_SEQUENCE : TAGC_ROLE_TENSOR, "", "tensor parallel");
  for (size_t i = 0; i < n; i++)
    is_check(i, 0,
             i < 8        ? parameters
             : i < stages ? "L is that of the model over 2 stages"
             : sequence   ? "b s h is over 2 ranks of sequence parallelism"
                          : "");
  ok(checks[0].expected == 0.5 * 200000 * 4, "%s", checks[0].formula);
  check(job, &nothing);
  is_check(0, 0, "");
  check(job, &(struct tagc_volume_facts){.parameters = 790000});
  is_check(0, 80 / 79.0 - 1, "norms on all ranks of tensor parallelism. Padding");
  is_check(1, 80 / 79.0 - 1, parameters);
  job->comms[8].members[1].rank = 1; /* a stage of two pipelines: stages send to neighbours on communicators of two */
  check(job, &facts);
  is_check(0, -0.75, "the numbers of one rank are needed");
  is_check(8, -0.5, "the numbers of one rank are needed");
  job_free(job);
}

static void test_others(void) {
  struct tagc_summary *job = job_make();
  struct tagc_sum_comm *pair = job_comm(job, 2, 0, 1), *control = job_comm(job, 8, 0, 1),
                       *exchange = job_comm(job, 4, 0, 1);
  job_comm(job, 8, 0, 1);
  struct tagc_sum_comm *lone = job_comm(job, 1, 0, 1), *allgathers = job_comm(job, 8, 8, 1),
                       *variable = job_comm(job, 4, 16, 1), *between = job_comm(job, 4, 0, 1);
  job_calls(pair, JOB_SEND, JOB_BF16, JOB_SUM, 500000, 8);
  pair->sends[TAGC_WAY_ON] = pair->sends[TAGC_WAY_BACK] = 24;
  job_calls(control, JOB_AR, JOB_F32, JOB_SUM, 1, 2);
  job_calls(control, JOB_BROADCAST, JOB_INT64, JOB_SUM, 3, 1);
  job_calls(exchange, JOB_A2A, JOB_BF16, JOB_SUM, 100000, 4);
  job_calls(exchange, JOB_A2A, JOB_BF16, JOB_SUM, 100100, 4);
  job_calls(lone, JOB_AR, JOB_F32, JOB_SUM, 100000, 2);
  job_calls(allgathers, JOB_AG, JOB_BF16, JOB_SUM, 100000, 4);
  variable->last_lock = 0; /* sequences of changing lengths */
  for (uint64_t i = 0; i < 10; i++) {
    job_calls(variable, JOB_RS, JOB_BF16, JOB_SUM, 100000 + 512 * i, 4);
    job_calls(variable, JOB_AG, JOB_BF16, JOB_SUM, 100000 + 512 * i, 6);
  }
  for (uint64_t i = 0; i < 4; i++)
    job_add(between, JOB_RS, JOB_F32, JOB_SUM, 16384 + 512 * i, 8, false);
  check(job, &nothing);
  is_role(job, 0, TAGC_ROLE_PIPELINE, "two neighbours", "pair");
  is_role(job, 1, TAGC_ROLE_CONTROL, "4096", "norms");
  is_role(job, 2, TAGC_ROLE_EXPERT, "changing", "all-to-alls");
  is_role(job, 3, TAGC_ROLE_IDLE, "no calls", "idle");
  is_role(job, 4, TAGC_ROLE_IDLE, "one rank", "alone");
  is_role(job, 5, TAGC_ROLE_UNKNOWN, "none of the patterns", "gathers alone");
  is_role(job, 6, TAGC_ROLE_UNKNOWN, "may be of gradients or of activations", "activations of changing lengths");
  is_role(job, 7, TAGC_ROLE_UNKNOWN, "none is in a step", "large calls beside the steps are not small ones");
  job_free(job);
}

/* Damaged traces may have any numbers. */
static void test_any_numbers(void) {
  static const int ranks[] = {-1, 0, 1, 2, 5, 1 << 30};
  static const uint64_t numbers[] = {0, 1, 7, 4096, UINT64_C(1) << 40, UINT64_MAX};
  const struct tagc_volume_facts facts = {
    .parameters = 1, .layers = UINT64_MAX, .hidden = UINT64_MAX, .tokens = 3, .microbatches = 1};
  bool right = true;
  run_state = 5;
  for (int i = 0; i < 3000; i++) {
    struct tagc_summary *job = job_make();
    for (int c = 0; c < 3; c++) {
      struct tagc_sum_comm *comm = job_comm(job, 2, (size_t)c, 1);
      for (int k = 0; k < 6; k++) {
        job_calls(comm, (uint16_t)(1 + run_random() * 12), (uint8_t)(run_random() * 10), (uint8_t)(run_random() * 6),
                  (uint64_t)(run_random() * 1e6), 1 + (uint64_t)(run_random() * 12));
        job_slot(comm, "block.0", (uint32_t)k, (uint32_t)(run_random() * 2), numbers[(size_t)(run_random() * 6)], 7);
      }
      struct tagc_sum_calls *whole = &comm->lines[(size_t)(run_random() * (double)comm->line_count)].whole;
      whole->raw_bytes = numbers[(size_t)(run_random() * 6)];
      whole->calls = numbers[(size_t)(run_random() * 6)];
      comm->sends[(size_t)(run_random() * TAGC_WAYS)] = numbers[(size_t)(run_random() * 6)];
      comm->nranks = ranks[(size_t)(run_random() * 6)];
      comm->whole_steps = numbers[(size_t)(run_random() * 6)];
      comm->gradients = run_random() < 0.3;
    }
    const size_t n = check(job, run_random() < 0.5 ? &nothing : &facts);
    for (int c = 0; c < 3; c++)
      right = right && job->comms[c].role < TAGC_ROLES && job->comms[c].role_grounds[0];
    for (size_t k = 0; k < n && k < MOST; k++)
      right = right && checks[k].comm < 3 && checks[k].what[0] && checks[k].formula[0];
    job_free(job);
  }
  ok(right, "whatever the numbers are, each communicator has a role and its grounds");
}

static void test_print(void) {
  char text[8192] = "";
  FILE *to = fmemopen(text, sizeof text, "w");
  struct tagc_summary *job = read_fixture("real-fsdp1-recomputed");
  const size_t n = check(job, &nothing);
  tagc_volume_print(to, job, checks, n);
  fclose(to);
  const size_t longest = note_lines(text);
  ok(longest <= 120 && strstr(text, "+100.00%"), "lines of at most 120 columns: %zu", longest);
  for (int role = 0; role < TAGC_ROLES; role++)
    if (!tagc_role_words((enum tagc_sum_role)role))
      ok(0, "role %d has words", role);
  job_free(job);
}

int main(void) {
  test_fixtures();
  test_known();
  test_hsdp();
  test_data();
  test_owners(JOB_AR, "all-reduced", "DeepSpeed's ZeRO-1");
  test_owners(JOB_REDUCE, "reduced to their owners", "DeepSpeed's ZeRO-2, older");
  test_tensor();
  test_alike();
  test_sequence(6, TAGC_ROLE_SEQUENCE, 0.5, "gathered again in the backward pass");
  test_sequence(4, TAGC_ROLE_SEQUENCE, 0, "");
  test_sequence(8, TAGC_ROLE_UNKNOWN, 0, "");
  test_pipeline();
  test_divided(false);
  test_divided(true);
  test_others();
  test_any_numbers();
  test_print();
  return tap_done();
}
