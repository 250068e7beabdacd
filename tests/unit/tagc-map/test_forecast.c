/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-map forecast against recorded steps (tests/fixtures): the same calls, elements and types, each as often.
 */
#include "layermap/tagc-map/forecast.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "layermap/cycle/calls.h"
#include "layermap/tagc-map/config.h"
#include "tests/unit/fixtures.h"
#include "tests/unit/tap.h"

enum { ROWS = 256 };

/* Calls that are alike, as a recording tells them. */
struct seen {
  char what[80];
  uint64_t times;
};
struct seen_list {
  struct seen rows[ROWS];
  size_t count;
};

static void see(struct seen_list *list, uint64_t times, const char *what) {
  size_t i = 0;
  while (i < list->count && strcmp(list->rows[i].what, what) != 0)
    i++;
  if (i == ROWS)
    abort();
  if (i == list->count)
    snprintf(list->rows[list->count++].what, sizeof list->rows[i].what, "%s", what);
  list->rows[i].times += times;
}

static uint64_t times_seen(const struct seen_list *list, const char *what) {
  for (size_t i = 0; i < list->count; i++)
    if (strcmp(list->rows[i].what, what) == 0)
      return list->rows[i].times;
  return 0;
}

/* Notes the rows of `list` that `other` does not have as often. */
static size_t count_differences(const struct seen_list *list, const struct seen_list *other, const char *title) {
  size_t count = 0;
  for (size_t i = 0; i < list->count; i++) {
    const struct seen *row = &list->rows[i];
    if (row->times == times_seen(other, row->what))
      continue;
    note("%s: %s x%" PRIu64 ", not x%" PRIu64, title, row->what, row->times, times_seen(other, row->what));
    count++;
  }
  return count;
}

static struct tagc_model *model_of(const char *config) {
  char path[] = "/tmp/tagc-test-forecast-XXXXXX";
  struct tagc_complaint complaint = {0};
  const int file = mkstemp(path);
  if (file < 0 || write(file, config, strlen(config)) != (ssize_t)strlen(config))
    abort();
  close(file);
  struct tagc_model *model = tagc_map_from_config(path, false, NULL, &complaint);
  unlink(path);
  if (!model)
    note("%s: %s", config, complaint.text);
  return model;
}

/* False: noted why. End with tagc_forecast_free(). */
static bool forecast_of(struct tagc_forecast *forecast, struct tagc_forecast_job *job, const char *layout,
                        const char *config) {
  char why[TAGC_FORECAST_WHY] = "";
  struct tagc_model *model = model_of(config);
  *forecast = (struct tagc_forecast){.count = 0};
  const bool made = model && tagc_forecast_read_layout(layout, job, why) && tagc_forecast_check(job, model, why) &&
                    tagc_forecast_make(forecast, job, model);
  if (!made)
    note("%s: %s", layout, why);
  tagc_model_free(model);
  return made;
}

static const char *recorded_type(enum tagc_dtype type) {
  return type == TAGC_FLOAT32 ? "float32" : type == TAGC_FLOAT16 ? "float16" : "bfloat16";
}

static const char *const recorded_functions[TAGC_FORECAST_FUNCTIONS] = {"all-reduce", "reduce-scatter", "all-gather",
                                                                        "send", "receive"};

/* -- steps of all groups: parallel/NAME.step ----------------------------------------------------------------------- */

/* A recording calls groups with the same ranks by the name of one of them. */
static const char *recorded_group(const struct tagc_forecast_job *job, enum tagc_forecast_group group) {
  const int data = tagc_forecast_replicas(job);
  if (group == TAGC_FORECAST_WORLD && data == 1)
    group = TAGC_FORECAST_MODEL;
  if (group == TAGC_FORECAST_WORLD && job->tp * job->pp == 1)
    group = TAGC_FORECAST_DATA;
  if (group == TAGC_FORECAST_MODEL && job->tp == 1)
    group = TAGC_FORECAST_PIPELINE;
  if (group == TAGC_FORECAST_MODEL && job->pp == 1)
    group = TAGC_FORECAST_TENSOR;
  if (group == TAGC_FORECAST_EMBEDDING && job->pp == 2)
    group = TAGC_FORECAST_PIPELINE;
  return tagc_forecast_group_name(group);
}

static void see_stage(struct seen_list *list, const struct tagc_forecast *forecast, int number) {
  char what[sizeof list->rows->what];
  for (size_t i = 0; i < forecast->count; i++) {
    const struct tagc_forecast_stage *stage = &forecast->stages[i];
    for (size_t k = 0; number >= stage->first && number <= stage->last && k < stage->count; k++) {
      const struct tagc_forecast_call *call = &stage->calls[k];
      snprintf(what, sizeof what, "%s %d %s %" PRIu64 " %s", recorded_group(&forecast->job, call->group),
               call->hosts.nranks, recorded_functions[call->function], call->count, recorded_type(call->type));
      see(list, call->times, what);
    }
  }
}

struct recording {
  char config[512], layout[128];
  struct tagc_forecast_job job;
  struct seen_list stages[8];
  int count;
};

static enum tagc_dtype read_type(const char *name) {
  return strcmp(name, "fp32") == 0 ? TAGC_FLOAT32 : strcmp(name, "fp16") == 0 ? TAGC_FLOAT16 : TAGC_BFLOAT16;
}

static void read_step_line(struct recording *r, char *line) {
  char *times, type[8];
  line[strcspn(line, "\n")] = '\0';
  if (sscanf(line, "dtype %7s", type) == 1)
    r->job.type = read_type(type);
  else if (sscanf(line, "gradients %7s", type) == 1)
    r->job.gradients = read_type(type);
  else if (sscanf(line, "bucket %" SCNu64, &r->job.bucket) == 1)
    return;
  if (*line == '#' || sscanf(line, "config %511[^\n]", r->config) == 1 ||
      sscanf(line, "layout %127[^\n]", r->layout) == 1 || sscanf(line, "ranks %d", &r->job.ranks) == 1 ||
      sscanf(line, "sequence %" SCNu64, &r->job.sequence) == 1 ||
      sscanf(line, "micro-batch %d", &r->job.micro_batch) == 1 ||
      sscanf(line, "accumulate %d", &r->job.accumulate) == 1)
    return;
  if (strncmp(line, "stage ", 6) == 0)
    r->count++;
  else if (r->count && !strstr(line, " 1 all-reduce") && !strstr(line, " float64") && !strstr(line, " uint8") &&
           (times = strstr(line, " x"))) { /* no group of one rank, nor what DeepSpeed tells of its norm */
    *times = '\0';
    see(&r->stages[r->count - 1], strtoull(times + 2, NULL, 10), line);
  }
}

/* Elements that a rank gathers, of rows whose number is not known (ZeRO-3), too: removes these rows. */
static uint64_t take_gathers(struct seen_list *list) {
  uint64_t elements = 0, count;
  for (size_t i = 0; i < list->count; i++)
    if (sscanf(list->rows[i].what, "data %*d all-gather %" SCNu64, &count) == 1) {
      elements += count * (list->rows[i].times ? list->rows[i].times : 1);
      list->rows[i] = list->rows[--list->count];
      i--;
    }
  return elements;
}

static void test_step(const char *path) {
  static struct recording r;
  struct tagc_forecast forecast;
  char line[1024];
  const char *const name = strrchr(path, '/') + 1;
  r = (struct recording){.job = {.type = TAGC_BFLOAT16, .gradients = TAGC_FLOAT32}};
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file))
    read_step_line(&r, line);
  if (file)
    fclose(file);
  r.job.first_bucket = r.job.bucket;
  const bool made = forecast_of(&forecast, &r.job, r.layout, r.config);
  ok(made && r.count == r.job.pp, "%s: %s, %d stages", name, r.layout, r.count);
  for (int i = 0; made && i < r.count; i++) {
    static struct seen_list made_list;
    memset(&made_list, 0, sizeof made_list);
    see_stage(&made_list, &forecast, i);
    if (r.job.base == TAGC_FORECAST_ZERO3) {
      const uint64_t recorded = take_gathers(&r.stages[i]), forecast_ones = take_gathers(&made_list);
      ok(recorded && recorded == forecast_ones, "%s: %" PRIu64 " elements are gathered, forecast %" PRIu64, name,
         recorded, forecast_ones);
    }
    ok(r.stages[i].count > 0 && count_differences(&r.stages[i], &made_list, "recorded") == 0 &&
         count_differences(&made_list, &r.stages[i], "forecast") == 0,
       "%s: the calls of stage %d, %zu sorts", name, i, r.stages[i].count);
  }
  tagc_forecast_free(&forecast);
}

static void test_steps(void) {
  const size_t count = fixtures_each_step(test_step);
  ok(count >= 27, "%zu recorded steps of all groups", count);
}

/* -- steps of one communicator: NAME.calls ------------------------------------------------------------------------- */

#define LLAMA(hidden, inside, blocks, heads, kv, words, tied) \
  "{\"model_type\": \"llama\", \"hidden_size\": " #hidden ", \"intermediate_size\": " #inside \
  ", \"num_hidden_layers\": " #blocks ", \"num_attention_heads\": " #heads ", \"num_key_value_heads\": " #kv \
  ", \"vocab_size\": " #words ", \"tie_word_embeddings\": " #tied "}"
#define SMALL LLAMA(128, 344, 6, 8, 4, 1000, false)
#define GPT(hidden, blocks, words, positions, tied) \
  "{\"model_type\": \"gpt2\", \"n_embd\": " #hidden ", \"n_layer\": " #blocks \
  ", \"n_head\": 4, \"vocab_size\": " #words ", \"n_positions\": " #positions ", \"tie_word_embeddings\": " #tied "}"
#define SMALL_GPT GPT(192, 4, 256, 128, false)
#define LLAMA2_7B LLAMA(4096, 11008, 32, 32, 32, 32000, false)
#define TINY_LLAMA LLAMA(2048, 5632, 22, 32, 4, 32000, false)
#define LLAMA3_8B LLAMA(4096, 14336, 32, 32, 8, 128256, false)
#define LLAMA3_70B LLAMA(8192, 28672, 80, 64, 8, 128256, false)
#define QWEN2_500M \
  "{\"model_type\": \"qwen2\", \"hidden_size\": 896, \"intermediate_size\": 4864, \"num_hidden_layers\": 24, " \
  "\"num_attention_heads\": 14, \"num_key_value_heads\": 2, \"vocab_size\": 151936, \"tie_word_embeddings\": true}"
#define QWEN3_8B \
  "{\"model_type\": \"qwen3\", \"hidden_size\": 4096, \"intermediate_size\": 12288, \"num_hidden_layers\": 36, " \
  "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"head_dim\": 128, \"vocab_size\": 151936, " \
  "\"tie_word_embeddings\": false}"
#define GPT_345M GPT(1024, 24, 50304, 1024, true)
#define GPT2 "{\"model_type\": \"gpt2\"}"
#define MIB (UINT64_C(1) << 20)
#define MEAN "all-reduce 1 float32"
#define MEANS "all-reduce 2 float32"
#define NORM "all-reduce 57 float32"

/* `own`: calls of the program itself, which are no part of the framework: the mean of its loss, and its norm. */
static const struct fixture {
  const char *file, *config, *layout, *own[4];
  int ranks, accumulate; /* accumulate 0: 1 */
  enum tagc_dtype type, gradients;
  uint64_t first, bucket;
  enum tagc_forecast_group group;
  size_t first_calls; /* of the first step, where evaluations follow some steps; 0: the last step is compared */
} fixtures[] = {
  {"real-fsdp1", SMALL, "fsdp1", {MEAN, MEAN}, .ranks = 2},
  {"real-fsdp1-embed", SMALL, "fsdp1,embed", {MEAN, MEAN}, .ranks = 2},
  {"real-fsdp2", SMALL, "fsdp2", {NORM, MEAN}, .ranks = 2},
  {"real-fsdp2-embed", SMALL, "fsdp2,embed", {NORM, MEAN}, .ranks = 2},
  {"real-fsdp2-kept", SMALL, "fsdp2,kept", {NORM, MEAN}, .ranks = 2},
  {"real-fsdp2-titan", SMALL, "fsdp2,titan", {NORM, MEAN}, .ranks = 2, .first_calls = 25},
  {"real-fsdp2-accumulated", SMALL, "fsdp2", {NORM, MEAN}, .ranks = 2, .accumulate = 3},
  {"real-fsdp2-accumulated-every", SMALL, "fsdp2,every", {NORM, MEAN}, .ranks = 2, .accumulate = 3},
  {"real-hsdp", SMALL_GPT, "fsdp2,hsdp=2", .ranks = 4, .group = TAGC_FORECAST_REPLICAS},
  {"real-hsdp1", SMALL_GPT, "fsdp1,hsdp=2", .ranks = 4, .group = TAGC_FORECAST_REPLICAS},
  {"real-ddp", SMALL_GPT, "ddp", {MEAN}, .ranks = 2, .first = MIB, .bucket = MIB},
  {"real-ddp-every", SMALL_GPT, "ddp,every", {MEAN}, .ranks = 2, .accumulate = 3, .first = MIB, .bucket = MIB},
  {"real-ddp-static", SMALL_GPT, "ddp", {MEAN}, .ranks = 2, .first = MIB, .bucket = MIB},
  {"real-ddp-larger", SMALL_GPT, "ddp", {MEAN, "all-reduce 1048576 float32"}, .ranks = 2, .first = MIB, .bucket = MIB},
  {"real-ddp-accelerate", SMALL_GPT, "ddp", {"all-gather 1 float32"}, .ranks = 2, .first = MIB, .bucket = 25 * MIB},
  {"real-ddp-one-bucket", SMALL_GPT, "ddp", {MEAN}, .ranks = 2, .first = 25 * MIB, .bucket = 25 * MIB},
  {"real-zero1", SMALL_GPT, "zero1", .ranks = 2, .bucket = 500000000},
  {"real-zero2", SMALL_GPT, "zero2", .ranks = 2, .bucket = 500000},
  {"real-zero2-whole", SMALL_GPT, "zero2", .ranks = 2, .bucket = 500000000},
  /* Made by rules (make.py), not recorded: larger models, more ranks, two types. */
  {"ddp-gpt2-small", GPT2, "ddp", .ranks = 4, .first = MIB, .bucket = 25 * MIB},
  {"ddp-gpt2-small-loss", GPT2, "ddp", {MEAN}, .ranks = 8, .first = MIB, .bucket = 25 * MIB},
  {"ddp-tinyllama", TINY_LLAMA, "ddp", .ranks = 8, .first = MIB, .bucket = 25 * MIB},
  {"fsdp1-gpt2-small", GPT(768, 12, 50257, 512, true), "fsdp1", {MEAN, MEAN}, .ranks = 4},
  {"fsdp2-gpt2-small", GPT(768, 12, 50257, 512, true), "fsdp2", {MEAN, MEAN}, .ranks = 2},
  {"fsdp1-llama2-7b", LLAMA2_7B, "fsdp1", {MEAN, MEAN}, .ranks = 8, .type = TAGC_BFLOAT16, .gradients = TAGC_BFLOAT16},
  {"fsdp2-llama2-7b-embed", LLAMA2_7B, "fsdp2,embed", {MEAN, MEAN}, .ranks = 16, .type = TAGC_BFLOAT16},
  {"fsdp2-llama3-8b-kept", LLAMA3_8B, "fsdp2,kept", {MEAN, MEAN}, .ranks = 16, .type = TAGC_BFLOAT16},
  {"fsdp2-qwen2-accumulated", QWEN2_500M, "fsdp2", {MEAN, MEAN}, .ranks = 4, .accumulate = 4, .type = TAGC_BFLOAT16},
  {"fsdp2-qwen3-8b", QWEN3_8B, "fsdp2", {MEAN, MEAN}, .ranks = 32, .type = TAGC_BFLOAT16},
  {"fsdp2-tinyllama-every",
   TINY_LLAMA,
   "fsdp2,every",
   {MEAN, MEAN},
   .ranks = 8,
   .accumulate = 3,
   .type = TAGC_BFLOAT16},
  {"hsdp-llama3-8b", LLAMA3_8B, "fsdp2,hsdp=8", .ranks = 32, .type = TAGC_BFLOAT16, .group = TAGC_FORECAST_REPLICAS},
  {"hsdp1-llama2-7b", LLAMA2_7B, "fsdp1,hsdp=8", .ranks = 32, .type = TAGC_BFLOAT16, .group = TAGC_FORECAST_REPLICAS},
  {"fsdp2-llama3-70b", LLAMA3_70B, "fsdp2", {MEAN, MEAN}, .ranks = 64, .type = TAGC_BFLOAT16},
  {"fsdp2-llama3-8b-titan", LLAMA3_8B, "fsdp2,titan", {MEAN, MEAN}, .ranks = 64, .type = TAGC_BFLOAT16},
  {"megatron-gpt-345m", GPT_345M, "megatron,zero1", {MEANS, MEANS}, .ranks = 8, .type = TAGC_BFLOAT16},
  {"megatron-gpt-345m-overlap", GPT_345M, "megatron,zero1,overlap", {MEANS}, .ranks = 16, .type = TAGC_BFLOAT16},
  {"megatron-llama2-7b-overlap",
   LLAMA2_7B,
   "megatron,zero1,overlap",
   {MEANS, MEANS, MEANS, MEANS},
   .ranks = 32,
   .type = TAGC_BFLOAT16},
  {"ddp-gpt2-small-one-cap", GPT(768, 12, 50304, 1024, true), "megatron,overlap", .ranks = 8, .type = TAGC_BFLOAT16},
};

/* The other files, and why no layout describes their steps. */
static const struct {
  const char *pattern;
  size_t files;
  const char *why;
} others[] = {
  {"tp-*", 4,
   "activations, without gradients: steps of tensor parallelism are compared whole (megatron-tp.step and others)"},
  {"real-tp*", 3, "likewise"},
  {"real-context", 1, "context parallelism"},
  {"real-experts", 1, "experts"},
  {"real-metrics", 1, "a program without a model"},
  {"ddp-resnet50", 1, "no transformer"},
  {"real-ddp-buffers", 1, "no transformer"},
  {"real-ddp-unused", 1, "no transformer"},
  {"real-ddp-types", 1, "parameters of two types"},
  {"real-ddp-two", 1, "two models"},
  {"real-ddp-features", 1, "two models that are no transformers"},
  {"real-ddp-frozen", 1, "some parameters are frozen"},
  {"real-ddp-hook", 1, "a hook reduces in another type"},
  {"real-ddp-varied", 1, "rounds vary from step to step"},
  {"horovod-gpt2-small", 1, "Horovod"},
  {"fsdp2-mistral-7b-evaluated", 1, "evaluations and checkpoints between steps"},
  {"fsdp2-mistral-7b-hsdp", 1, "units are gathered again inside a host"},
  {"fsdp2-tinyllama-frozen", 1, "some parameters are frozen"},
  {"fsdp2-tinyllama-pairs", 1, "two blocks a unit"},
  {"real-fsdp1-replicated", 1, "NO_SHARD"},
  {"real-fsdp?-recomputed", 2, "activations are computed again, as units are gathered again"},
  {"real-fsdp2-ten", 1, "rounds vary from step to step"},
  {"real-fsdp2-varied*", 2, "rounds vary from step to step"},
  {"*zero3*", 4, "calls depend on prefetching: steps are compared by their sums (zero3.step)"},
};

/* Every file is compared, or has a reason. */
static void test_others(void) {
  glob_t files, found;
  size_t known = sizeof fixtures / sizeof *fixtures;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    const size_t count = fixtures_find(others[i].pattern, &found);
    ok(count == others[i].files, "%zu files are not compared: %s: %s", count, others[i].pattern, others[i].why);
    known += count;
    globfree(&found);
  }
  const size_t count = fixtures_find("*", &files);
  ok(count == known, "these are all %zu files", count);
  globfree(&files);
}

/* A recorded call, as see_group() writes it. */
static void see_call(struct seen_list *list, const struct tagc_signature *call) {
  char line[64], what[sizeof list->rows->what];
  unsigned long long count;
  char function[32], type[32];
  tagc_calls_line(call, line, sizeof line);
  if (sscanf(line, "%31s %llu %31s", function, &count, type) != 3)
    abort();
  snprintf(what, sizeof what, "%s %llu %s", function, count, type);
  see(list, 1, what);
}

static void see_group(struct seen_list *list, const struct tagc_forecast *forecast, enum tagc_forecast_group group) {
  char what[sizeof list->rows->what];
  const struct tagc_forecast_stage *stage = &forecast->stages[0];
  for (size_t i = 0; i < stage->count; i++) {
    const struct tagc_forecast_call *call = &stage->calls[i];
    if (call->group != group)
      continue;
    snprintf(what, sizeof what, "%s %" PRIu64 " %s", recorded_functions[call->function], call->count,
             recorded_type(call->type));
    see(list, call->times, what);
  }
}

/* The step at the end of a file; NULL: the file is missing. */
static struct tagc_call_file *read_step(const char *name, size_t *step, const char **path) {
  static glob_t found;
  struct tagc_complaint complaint;
  struct tagc_call_file *file = NULL;
  if (fixtures_find(name, &found) == 1) {
    static char kept[2048];
    snprintf(kept, sizeof kept, "%s", found.gl_pathv[0]);
    *path = kept;
    *step = fixtures_step(kept);
    file = tagc_calls_read(kept, &complaint);
  }
  globfree(&found);
  return file;
}

static void test_fixture(const struct fixture *f) {
  static struct seen_list recorded, made;
  struct tagc_forecast forecast;
  size_t step = 0;
  const char *path = "";
  struct tagc_forecast_job job = {.ranks = f->ranks,
                                  .micro_batch = 1,
                                  .accumulate = f->accumulate ? f->accumulate : 1,
                                  .sequence = 16,
                                  .type = f->type,
                                  .gradients = f->gradients,
                                  .first_bucket = f->first,
                                  .bucket = f->bucket};
  struct tagc_call_file *file = read_step(f->file, &step, &path);
  memset(&recorded, 0, sizeof recorded);
  memset(&made, 0, sizeof made);
  const size_t calls = f->first_calls ? f->first_calls : step;
  for (size_t i = 0; file && i < calls; i++)
    see_call(&recorded, &file->lists[0].calls[f->first_calls ? i : file->lists[0].count - step + i]);
  if (forecast_of(&forecast, &job, f->layout, f->config))
    see_group(&made, &forecast, f->group);
  for (int i = 0; i < 4 && f->own[i]; i++)
    see(&made, 1, f->own[i]);
  ok(recorded.count && count_differences(&recorded, &made, "recorded") == 0 &&
       count_differences(&made, &recorded, "forecast") == 0,
     "%s: %s, %zu calls of %zu sorts", f->file, f->layout, calls, recorded.count);
  tagc_forecast_free(&forecast);
  tagc_calls_free(file);
}

/* -- bytes and refusals -------------------------------------------------------------------------------------------- */

/* Eight ranks on two hosts, 1000 elements of 4 bytes. */
static void test_bytes(void) {
  struct tagc_forecast_call call = {.function = TAGC_FORECAST_REDUCE_SCATTER,
                                    .type = TAGC_FLOAT32,
                                    .hosts = {.nranks = 8, .hosts = 2, .local = 4},
                                    .count = 1000,
                                    .times = 1};
  struct tagc_traffic sent = tagc_forecast_sent(&call);
  ok(tagc_forecast_message(&call) == 32000 && sent.inside + sent.between == 28000 && sent.between == 7000,
     "a reduce-scatter: 7 of 8 parts are sent, a quarter of them by the rank at the border");
  call.function = TAGC_FORECAST_ALL_REDUCE;
  sent = tagc_forecast_sent(&call);
  ok(tagc_forecast_message(&call) == 4000 && sent.inside + sent.between == 7000 && sent.between == 1750,
     "an all-reduce: twice 7/8");
  call.function = TAGC_FORECAST_RECV;
  sent = tagc_forecast_sent(&call);
  ok(sent.inside + sent.between == 0, "who receives sends nothing");
}

/* The calls of a stage of one function and contents, added up. */
static uint64_t count_calls(const struct tagc_forecast *f, int stage, enum tagc_forecast_function function,
                            enum tagc_forecast_content content) {
  uint64_t calls = 0;
  for (size_t i = 0; i < f->count; i++)
    for (size_t k = 0; f->stages[i].first <= stage && stage <= f->stages[i].last && k < f->stages[i].count; k++)
      if (f->stages[i].calls[k].function == function && f->stages[i].calls[k].content == content)
        calls += f->stages[i].calls[k].times;
  return calls;
}

static void test_stages(void) {
  static const struct {
    const char *layout, *config;
    int pp;
    uint64_t blocks[4];
  } jobs[] = {
    {"fsdp2,pp=4", LLAMA(128, 344, 32, 8, 4, 1000, false), 4, {8, 9, 8, 7}}, /* as torchtitan prints them */
    {"fsdp2,pp=4", LLAMA(128, 344, 80, 8, 4, 1000, false), 4, {20, 21, 20, 19}},
    {"fsdp2,pp=3", LLAMA(128, 344, 32, 8, 4, 1000, false), 3, {11, 11, 10}},
    {"fsdp2,pp=4", LLAMA(128, 344, 2, 8, 4, 1000, false), 4, {0, 1, 1, 0}},
    {"megatron,pp=4", LLAMA(128, 344, 32, 8, 4, 1000, false), 4, {8, 8, 8, 8}},
  };
  for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
    struct tagc_forecast_job job = {.ranks = 12, .micro_batch = 1, .accumulate = 1, .sequence = 16};
    struct tagc_forecast forecast;
    job.ranks *= jobs[i].pp;
    bool good = forecast_of(&forecast, &job, jobs[i].layout, jobs[i].config);
    for (int stage = 0; stage < jobs[i].pp; stage++) {
      /* Beside blocks, the first stage reduces the embedding, and the last one norm and head. */
      const uint64_t more = stage == 0 || stage == jobs[i].pp - 1;
      good &= job.base == TAGC_FORECAST_MEGATRON ||
              count_calls(&forecast, stage, TAGC_FORECAST_REDUCE_SCATTER, TAGC_FORECAST_GRADIENTS) ==
                jobs[i].blocks[stage] + more;
    }
    ok(good && (job.base != TAGC_FORECAST_MEGATRON || forecast.stages[1].last == 2), "%s: the blocks of the stages",
       jobs[i].layout);
    tagc_forecast_free(&forecast);
  }
}

/* Ranks of a pipeline on one host, and on two. */
static void test_embedding_group(void) {
  for (int local = 4; local <= 8; local += 4) {
    struct tagc_forecast_job job = {.ranks = 8, .local = local, .micro_batch = 1, .accumulate = 1, .sequence = 16};
    struct tagc_forecast forecast;
    struct tagc_hosts hosts = {0};
    const bool good = forecast_of(&forecast, &job, "megatron,pp=4", LLAMA(128, 344, 8, 8, 4, 1000, true)) &&
                      tagc_forecast_hosts(&job, TAGC_FORECAST_EMBEDDING, &hosts, NULL);
    ok(good && hosts.nranks == 2 && hosts.hosts == 8 / local, "the first and the last of 4 stages, %d ranks a host",
       local);
    tagc_forecast_free(&forecast);
  }
}

static void test_tied_titan(void) {
  struct tagc_forecast_job job = {.ranks = 4, .micro_batch = 1, .accumulate = 1, .sequence = 16};
  struct tagc_forecast forecast;
  const bool good = forecast_of(&forecast, &job, "fsdp2,titan", LLAMA(128, 344, 6, 8, 4, 1000, true));
  ok(good && count_calls(&forecast, 0, TAGC_FORECAST_ALL_GATHER, TAGC_FORECAST_PARAMETERS) == 2 * 6 + 1 &&
       count_calls(&forecast, 0, TAGC_FORECAST_REDUCE_SCATTER, TAGC_FORECAST_GRADIENTS) == 6 + 1,
     "titan: embedding, norm and tied head are one unit, gathered once");
  tagc_forecast_free(&forecast);
}

/* 2^20 ranks, 10 TiB: products beyond 2^64. */
static void test_large(void) {
  struct tagc_forecast_call call = {.function = TAGC_FORECAST_ALL_REDUCE,
                                    .type = TAGC_FLOAT32,
                                    .hosts = {.nranks = 1 << 20, .hosts = 1 << 17, .local = 8},
                                    .count = UINT64_C(5) << 39,
                                    .times = 1};
  const uint64_t bytes = UINT64_C(10) << 40, all = 2 * bytes - 20 * MIB;
  struct tagc_traffic sent = tagc_forecast_sent(&call);
  ok(tagc_forecast_message(&call) == bytes && sent.inside + sent.between == all && sent.between == all / 8,
     "all-reduces of 10 TiB on 2^20 ranks");
}

static void refuses(const char *layout, const char *config, int ranks, int local, const char *expected) {
  char why[TAGC_FORECAST_WHY] = "nothing";
  struct tagc_forecast_job job = {
    .ranks = ranks, .local = local, .micro_batch = 1, .accumulate = 1, .sequence = 16, .bucket = 500000};
  struct tagc_model *model = model_of(config);
  ok(!(tagc_forecast_read_layout(layout, &job, why) && tagc_forecast_check(&job, model, why)) && strstr(why, expected),
     "%s on %d ranks: %s", layout, ranks, why);
  tagc_model_free(model);
}

static void test_refusals(void) {
  refuses("ep", SMALL, 8, 0,
          "a layout begins with ddp, fsdp1, fsdp2, zero1, zero2, zero3 or megatron, not with \"ep\"");
  refuses("fsdp2,cp=2", SMALL, 8, 0, "cp=2 is not known with fsdp2; known are tp=N, pp=N, hsdp=N, every, ");
  refuses("fsdp2,tp=2,tp=4", SMALL, 8, 0, "tp=4: tp is there already");
  refuses("fsdp2,titan,titan", SMALL, 8, 0, "titan: titan is there already");
  refuses("fsdp2,sp", SMALL, 8, 0, "sp is not known with fsdp2");
  refuses("ddp,tp=2", SMALL, 8, 0, "tp=2 is not known with ddp; known are every");
  refuses("fsdp2,tp=0", SMALL, 8, 0, "tp=0: expected is a number from 1 to 1048576");
  refuses("fsdp2,tp", SMALL, 8, 0, "tp=: expected is a number");
  refuses("fsdp2,kept=1", SMALL, 8, 0, "kept takes no number");
  refuses("fsdp2,tp=3", SMALL, 8, 0, "8 ranks: expected is a multiple of tp * pp, 3");
  refuses("fsdp2,hsdp=3", SMALL, 8, 0, "hsdp=3: expected is a divisor of the 8 ranks");
  refuses("megatron,pp=4", SMALL, 8, 0, "pp=4: expected is a divisor of the 6 blocks");
  refuses("fsdp2,pp=9", SMALL, 9, 0, "pp=9: expected are at most 8 stages");
  refuses("megatron,tp=16", LLAMA(128, 344, 6, 16, 16, 1000, false), 16, 0,
          "tp=16 does not divide the 1000 rows of embed.weight");
  refuses("megatron,tp=8", SMALL, 8, 0,
          "tp=8: expected is a divisor of the 8 heads of the model, and of its 4 for keys");
  refuses("megatron,tp=3", SMALL, 6, 0, "tp=3: expected is a divisor of the 8 heads");
  refuses("megatron,tp=3,sp", LLAMA(96, 342, 6, 6, 3, 999, false), 6, 0,
          "a sequence of 16 tokens: tp=3 divides it among its ranks");
  refuses("ddp", GPT(192, 4, 256, 15, false), 6, 0, "a sequence of 16 tokens: the model has 15 learned positions");
  refuses("fsdp2,", SMALL, 8, 0, "\"\" is not known with fsdp2");
  refuses("fsdp2", SMALL, 8, 3, "3 ranks a host: expected is a divisor of the 8 ranks");
  refuses("fsdp2,tp=4", SMALL, 12, 6, "6 ranks a host: the 3 ranks of a group (data), one in 4, are not");
  refuses("fsdp2,tp=2", LLAMA(128, 344, 6, 8, 4, 1000, true), 8, 0, "whose head is not the embedding");
  refuses("megatron", "{\"model_type\": \"mixtral\"}", 8, 0,
          "mixtral: megatron, tp, pp, embed and titan are known for");
  refuses("zero3", LLAMA3_8B, 8, 0, "zero3 is known for models of up to 500000000 parameters");
  refuses("fsdp2,tp=2", SMALL_GPT, 8, 0, "is known with megatron alone");
}

int main(void) {
  test_steps();
  for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++)
    test_fixture(&fixtures[i]);
  test_others();
  test_bytes();
  test_stages();
  test_embedding_group();
  test_tied_titan();
  test_large();
  test_refusals();
  return tap_done();
}
