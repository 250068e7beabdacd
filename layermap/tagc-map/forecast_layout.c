/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-map forecast: which jobs are known. Refuses the others, by name.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "layermap/model/families.h"
#include "layermap/tagc-map/forecast.h"

__attribute__((format(printf, 2, 3))) static bool refuse_forecast(char why[TAGC_FORECAST_WHY], const char *format,
                                                                  ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, TAGC_FORECAST_WHY, format, arguments);
  va_end(arguments);
  return false;
}

/* -- words --------------------------------------------------------------------------------------------------------- */

enum {
  DDP = 1 << TAGC_FORECAST_DDP,
  FSDP1 = 1 << TAGC_FORECAST_FSDP1,
  FSDP2 = 1 << TAGC_FORECAST_FSDP2,
  MEGATRON = 1 << TAGC_FORECAST_MEGATRON
};

static const char *const forecast_bases[TAGC_FORECAST_BASES] = {"ddp",   "fsdp1", "fsdp2",   "zero1",
                                                                "zero2", "zero3", "megatron"};

/* Details, and the bases that know them. */
static const struct detail {
  const char *word;
  unsigned flag; /* 0: takes a number */
  unsigned bases;
} details[] = {
  {"tp", 0, FSDP2 | MEGATRON},
  {"pp", 0, FSDP2 | MEGATRON},
  {"hsdp", 0, FSDP1 | FSDP2},
  {"sp", TAGC_FORECAST_SP, MEGATRON},
  {"zero1", TAGC_FORECAST_OPTIMIZER, MEGATRON},
  {"overlap", TAGC_FORECAST_OVERLAP, MEGATRON},
  {"every", TAGC_FORECAST_EVERY, DDP | FSDP1 | FSDP2},
  {"kept", TAGC_FORECAST_KEPT, FSDP2},
  {"embed", TAGC_FORECAST_EMBED, FSDP1 | FSDP2},
  {"titan", TAGC_FORECAST_TITAN, FSDP2},
};
enum { DETAILS = sizeof details / sizeof *details };

/* The details that a base knows, as a list. */
static const char *details_of(enum tagc_forecast_base base, char text[160]) {
  *text = '\0';
  for (size_t i = 0; i < DETAILS; i++)
    if (details[i].bases & 1U << base)
      snprintf(text + strlen(text), 160 - strlen(text), "%s%s%s", *text ? ", " : "", details[i].word,
               details[i].flag ? "" : "=N");
  return *text ? text : "nothing";
}

static bool read_forecast_number(const char *word, const char *value, int *to, char why[TAGC_FORECAST_WHY]) {
  char *end;
  const long number = strtol(value, &end, 10);
  if (value[0] < '0' || value[0] > '9' || *end || number < 1 || number > 1 << 20)
    return refuse_forecast(why, "%s=%.40s: expected is a number from 1 to 1048576", word, value);
  *to = (int)number;
  return true;
}

/* Marks the detail in `given`. */
static bool read_detail(const char *word, struct tagc_forecast_job *job, unsigned *given, char why[TAGC_FORECAST_WHY]) {
  char known[160];
  const size_t length = strcspn(word, "=");
  for (size_t i = 0; i < DETAILS; i++) {
    const struct detail *d = &details[i];
    if (strlen(d->word) != length || strncmp(d->word, word, length) != 0 || !(d->bases & 1U << job->base))
      continue;
    if (d->flag && word[length])
      return refuse_forecast(why, "%.40s: %s takes no number", word, d->word);
    job->flags |= d->flag;
    if (*given & 1U << i)
      return refuse_forecast(why, "%.40s: %s is there already", word, d->word);
    *given |= 1U << i;
    int *const field = i == 0 ? &job->tp : i == 1 ? &job->pp : &job->shards;
    return d->flag || read_forecast_number(d->word, word[length] ? word + length + 1 : "", field, why);
  }
  return refuse_forecast(why, "%.40s is not known with %s; known are %s", *word ? word : "\"\"",
                         forecast_bases[job->base], details_of(job->base, known));
}

static bool read_forecast_base(const char *word, struct tagc_forecast_job *job, char why[TAGC_FORECAST_WHY]) {
  for (int base = 0; base < TAGC_FORECAST_BASES; base++)
    if (strcmp(word, forecast_bases[base]) == 0) {
      job->base = (enum tagc_forecast_base)base;
      return true;
    }
  return refuse_forecast(
    why, "a layout begins with ddp, fsdp1, fsdp2, zero1, zero2, zero3 or megatron, not with \"%.40s\"", word);
}

bool tagc_forecast_read_layout(const char *list, struct tagc_forecast_job *job, char why[TAGC_FORECAST_WHY]) {
  char text[256], *rest = text;
  unsigned given = 0;
  job->layout = list;
  job->tp = job->pp = 1;
  job->shards = 0;
  job->flags = 0;
  if (strlen(list) >= sizeof text)
    return refuse_forecast(why, "the layout is longer than %zu characters", sizeof text - 1);
  strcpy(text, list);
  if (!read_forecast_base(strsep(&rest, ","), job, why))
    return false;
  while (rest)
    if (!read_detail(strsep(&rest, ","), job, &given, why))
      return false;
  if (job->base == TAGC_FORECAST_FSDP2 && (job->tp > 1 || job->pp > 1))
    job->flags |= TAGC_FORECAST_TITAN; /* the formulas are those of its plans */
  return true;
}

/* -- numbers ------------------------------------------------------------------------------------------------------- */

/* Ranks of a group, and how far apart they are. */
static void group_of_job(const struct tagc_forecast_job *job, enum tagc_forecast_group group, int *ranks, int *stride) {
  const int all = tagc_forecast_replicas(job), shards = job->shards ? job->shards : all;
  const struct {
    int ranks, stride;
  } groups[TAGC_FORECAST_GROUPS] = {[TAGC_FORECAST_DATA] = {shards, job->tp},
                                    [TAGC_FORECAST_REPLICAS] = {all / shards, job->tp * shards},
                                    [TAGC_FORECAST_TENSOR] = {job->tp, 1},
                                    [TAGC_FORECAST_PIPELINE] = {job->pp, job->tp * all},
                                    [TAGC_FORECAST_EMBEDDING] = {job->pp > 1 ? 2 : 1, job->tp * all * (job->pp - 1)},
                                    [TAGC_FORECAST_MODEL] = {job->tp * job->pp, 1},
                                    [TAGC_FORECAST_WORLD] = {job->ranks, 1}};
  *ranks = groups[group].ranks;
  *stride = groups[group].stride;
}

bool tagc_forecast_hosts(const struct tagc_forecast_job *job, enum tagc_forecast_group group, struct tagc_hosts *hosts,
                         char why[TAGC_FORECAST_WHY]) {
  int ranks, stride;
  group_of_job(job, group, &ranks, &stride);
  *hosts = (struct tagc_hosts){.nranks = ranks, .hosts = ranks < 2, .local = 1};
  if (!job->local || ranks < 2)
    return true;
  if (group == TAGC_FORECAST_MODEL) { /* pieces of neighbours, far apart */
    hosts->local = job->tp < job->local ? job->tp : job->local;
    if (job->ranks / job->pp < job->local)
      hosts->local = job->tp * (job->local / (job->ranks / job->pp));
  } else if (group == TAGC_FORECAST_EMBEDDING) { /* the first and the last stage */
    hosts->local = job->local == job->ranks ? 2 : 1;
  } else if (stride < job->local) {
    hosts->local = job->local / stride < ranks ? job->local / stride : ranks;
    if (job->local % stride || ranks % hosts->local)
      return why
               ? refuse_forecast(why,
                                 "%d ranks a host: the %d ranks of a group (%s), one in %d, are not as many on each "
                                 "of their hosts; expected is %d, or a multiple of it that holds an equal part of them",
                                 job->local, ranks, tagc_forecast_group_name(group), stride, stride)
               : false;
  }
  hosts->hosts = ranks / hosts->local;
  return true;
}

static bool divides(int by, int number) { return by >= 1 && number % by == 0; }

static bool check_ranks(const struct tagc_forecast_job *job, char why[TAGC_FORECAST_WHY]) {
  struct tagc_hosts hosts;
  if ((int64_t)job->tp * job->pp > job->ranks || !divides(job->tp * job->pp, job->ranks))
    return refuse_forecast(why, "%d ranks: expected is a multiple of tp * pp, %lld", job->ranks,
                           (long long)job->tp * job->pp);
  if (job->shards && !divides(job->shards, tagc_forecast_replicas(job)))
    return refuse_forecast(why, "hsdp=%d: expected is a divisor of the %d ranks of data parallelism", job->shards,
                           tagc_forecast_replicas(job));
  if (job->local && !divides(job->local, job->ranks))
    return refuse_forecast(why, "%d ranks a host: expected is a divisor of the %d ranks", job->local, job->ranks);
  for (int group = 0; group < TAGC_FORECAST_MODEL; group++)
    if (!tagc_forecast_hosts(job, (enum tagc_forecast_group)group, &hosts, why))
      return false;
  if (job->base == TAGC_FORECAST_DDP && job->gradients != job->type)
    return refuse_forecast(why, "gradients in %s: ddp reduces them in the type of the parameters, %s",
                           tagc_forecast_type_name(job->gradients), tagc_forecast_type_name(job->type));
  return true;
}

/* -- the model ----------------------------------------------------------------------------------------------------- */

/* An embedding, blocks, and a head, in a family whose forward pass has two sums a block. */
static bool check_stack(const struct tagc_forecast_job *job, const struct tagc_model *model,
                        char why[TAGC_FORECAST_WHY]) {
  static const char *const families[] = {"gpt2", "llama", "mistral", "qwen2"};
  const int blocks = tagc_forecast_blocks(model);
  bool known = false;
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    known |= strcmp(model->family, families[i]) == 0;
  for (size_t i = 0; i < model->place_count; i++)
    known &= (model->places[i].block < 0) == (i == 0 || i + 1 == model->place_count);
  if (!known)
    return refuse_forecast(why, "%.16s: megatron, tp, pp, embed and titan are known for gpt2, llama, mistral and qwen2",
                           *model->family ? model->family : "this model");
  if (job->base == TAGC_FORECAST_FSDP2 && (job->tp > 1 || job->pp > 1) && tagc_forecast_is_tied(model))
    return refuse_forecast(why, "fsdp2 with tp or pp is known for models whose head is not the embedding alone");
  if (job->base == TAGC_FORECAST_MEGATRON && !divides(job->pp, blocks))
    return refuse_forecast(why, "pp=%d: expected is a divisor of the %d blocks of the model", job->pp, blocks);
  if (job->pp > blocks + 2) /* torchtitan, which counts the embedding and the head */
    return refuse_forecast(why, "pp=%d: expected are at most %d stages, the blocks of the model and 2", job->pp,
                           blocks + 2);
  return true;
}

static bool check_parameter(const struct tagc_forecast_job *job, const struct tagc_parameter *p,
                            char why[TAGC_FORECAST_WHY]) {
  const int cut = tagc_forecast_cut(p);
  const uint64_t size = cut == 1 ? p->rows : p->columns;
  if (cut < 0)
    return refuse_forecast(why, "tp: how to cut %.60s is not known; known are dense blocks with two norms", p->name);
  if (cut > 0 && size % (uint64_t)job->tp)
    return refuse_forecast(why, "tp=%d does not divide the %llu %s of %.60s", job->tp, (unsigned long long)size,
                           cut == 1 ? "rows" : "columns", p->name);
  if (job->base == TAGC_FORECAST_FSDP2 && (strstr(p->name, "bias") || strstr(p->name, "qkv")))
    return refuse_forecast(why, "tp: %.60s is known with megatron alone", p->name);
  if (tagc_forecast_has(job, TAGC_FORECAST_SP) && strstr(p->name, "positions"))
    return refuse_forecast(why, "sp: %.60s: learned positions are known without sp alone", p->name);
  return true;
}

static bool check_cuts(const struct tagc_forecast_job *job, const struct tagc_model *model,
                       char why[TAGC_FORECAST_WHY]) {
  const bool cuts_sequences = job->base == TAGC_FORECAST_FSDP2 || tagc_forecast_has(job, TAGC_FORECAST_SP);
  if (cuts_sequences && job->sequence % (uint64_t)job->tp)
    return refuse_forecast(why, "a sequence of %llu tokens: tp=%d divides it among its ranks; expected is a multiple",
                           (unsigned long long)job->sequence, job->tp);
  if (!divides(job->tp, (int)model->heads) || !divides(job->tp, (int)model->kv_heads))
    return refuse_forecast(why,
                           "tp=%d: expected is a divisor of the %u heads of the model, and of its %u for keys and "
                           "values",
                           job->tp, model->heads, model->kv_heads);
  for (size_t i = 0; i < model->unit_count; i++)
    for (size_t k = 0; k < model->units[i].count; k++)
      if (!check_parameter(job, &model->units[i].parameters[k], why))
        return false;
  return true;
}

/* The order of gradients decides which of them share a bucket. */
static bool check_order(const struct tagc_model *model, char why[TAGC_FORECAST_WHY]) {
  const enum tagc_family family = tagc_family_find(model->family);
  for (size_t i = 0; i < model->unit_count; i++)
    for (size_t k = 0; k < model->units[i].count; k++)
      if (tagc_family_forward(family, model->units[i].parameters[k].name) < 0)
        return refuse_forecast(
          why,
          "%.16s: the order in which the gradients of %.60s and others come is not known, and ddp, "
          "zero2 and zero3 fill their buckets in it; known are dense text models, bert and vit",
          *model->family ? model->family : "this model", model->units[i].parameters[k].name);
  return true;
}

/* The longest sequence of tokens that the model can embed; 0: any, or its input is no text. */
static uint64_t learned_positions(const struct tagc_model *model) {
  const struct tagc_unit *embedding = &model->units[model->places[0].unit];
  const bool reads_text = strcmp(model->family, "gpt2") == 0 || strcmp(model->family, "bert") == 0;
  for (size_t i = 0; i < embedding->count && reads_text; i++)
    if (strcmp(embedding->parameters[i].name, "embed.positions.weight") == 0)
      return embedding->parameters[i].rows;
  return 0;
}

/* Keeps counts of elements from overflowing; tagc_forecast_make() looks at the bytes. */
static bool check_sizes(const struct tagc_forecast_job *job, const struct tagc_model *model,
                        char why[TAGC_FORECAST_WHY]) {
  const double most = (double)(UINT64_C(1) << 50);
  if (tagc_model_elements(model) > UINT64_C(1) << 50)
    return refuse_forecast(why, "a model of more than 2^50 parameters");
  const uint64_t positions = learned_positions(model);
  if (positions && job->sequence > positions)
    return refuse_forecast(why, "a sequence of %llu tokens: the model has %llu learned positions",
                           (unsigned long long)job->sequence, (unsigned long long)positions);
  for (size_t i = 0; i < model->unit_count; i++)
    for (size_t k = 0; k < model->units[i].count; k++)
      if ((double)job->micro_batch * (double)job->sequence * (double)model->units[i].parameters[k].columns > most)
        return refuse_forecast(why, "%d sequences of %llu tokens have more than 2^50 activations", job->micro_batch,
                               (unsigned long long)job->sequence);
  return true;
}

bool tagc_forecast_check(const struct tagc_forecast_job *job, const struct tagc_model *model,
                         char why[TAGC_FORECAST_WHY]) {
  if (job->base == TAGC_FORECAST_ZERO3 && tagc_model_elements(model) > 500000000)
    return refuse_forecast(why, "zero3 is known for models of up to 500000000 parameters: of others DeepSpeed gathers "
                                "some again in the backward pass, and which depends on its prefetching");
  if (!check_sizes(job, model, why) || !check_ranks(job, why))
    return false;
  if (job->pp > 1 && job->base == TAGC_FORECAST_FSDP2 && tagc_forecast_has(job, TAGC_FORECAST_EVERY))
    return refuse_forecast(why, "every: with pp, PyTorch reduces gradients in the last micro-batch alone");
  if (tagc_forecast_is_by_gradients(job) && !check_order(model, why))
    return false;
  return (job->tp == 1 && job->pp == 1 && job->base != TAGC_FORECAST_MEGATRON &&
          !tagc_forecast_has(job, TAGC_FORECAST_EMBED | TAGC_FORECAST_TITAN)) ||
         (check_stack(job, model, why) && (job->tp == 1 || check_cuts(job, model, why)));
}
