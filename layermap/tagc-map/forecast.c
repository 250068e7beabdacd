/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-map forecast: stages of a job, their parameters, and rows of calls. The formulas are in forecast_data.c and
 * forecast_model.c.
 */
#include "layermap/tagc-map/forecast.h"

#include <stdlib.h>
#include <string.h>

#include "layermap/model/families.h"
#include "layermap/model/megatron.h"

/* -- names --------------------------------------------------------------------------------------------------------- */

const char *tagc_forecast_group_name(enum tagc_forecast_group group) {
  static const char *const names[TAGC_FORECAST_GROUPS] = {"data",      "replicas", "tensor", "pipeline",
                                                          "embedding", "model",    "world"};
  return names[group];
}

const char *tagc_forecast_function_name(enum tagc_forecast_function function) {
  static const char *const names[TAGC_FORECAST_FUNCTIONS] = {"AllReduce", "ReduceScatter", "AllGather", "Send", "Recv"};
  return names[function];
}

const char *tagc_forecast_content_name(enum tagc_forecast_content content) {
  static const char *const names[TAGC_FORECAST_CONTENTS] = {"parameters", "gradients", "activations", "loss", "norm"};
  return names[content];
}

const char *tagc_forecast_type_name(enum tagc_dtype type) {
  return type == TAGC_FLOAT32 ? "fp32" : type == TAGC_FLOAT16 ? "fp16" : "bf16";
}

static const double MOST_BYTES = (double)(UINT64_C(1) << 54); /* of a row */

/* -- calls --------------------------------------------------------------------------------------------------------- */

uint64_t tagc_forecast_message(const struct tagc_forecast_call *call) {
  const bool whole = call->function == TAGC_FORECAST_REDUCE_SCATTER || call->function == TAGC_FORECAST_ALL_GATHER;
  return call->count * tagc_dtype_size(call->type) * (whole ? (uint64_t)call->hosts.nranks : 1);
}

/* Messages of a pipeline stay on a host or leave it, all of them. */
static struct tagc_traffic message_traffic(const struct tagc_forecast_call *call) {
  const uint64_t bytes = call->function == TAGC_FORECAST_SEND ? tagc_forecast_message(call) : 0;
  return call->hosts.hosts > 1 ? (struct tagc_traffic){0, bytes} : (struct tagc_traffic){bytes, 0};
}

struct tagc_traffic tagc_forecast_sent(const struct tagc_forecast_call *call) {
  const uint64_t bytes = tagc_forecast_message(call), ranks = (uint64_t)call->hosts.nranks;
  if (call->function == TAGC_FORECAST_SEND || call->function == TAGC_FORECAST_RECV)
    return message_traffic(call);
  if (call->function != TAGC_FORECAST_ALL_REDUCE)
    return tagc_plain_traffic(bytes / ranks, &call->hosts);
  /* 2 (W-1)/W of it, rounded down */
  return tagc_ring_traffic(2 * bytes - (2 * bytes + ranks - 1) / ranks, &call->hosts);
}

/* True if they differ in nothing but how often they are made. */
static bool are_like_calls(const struct tagc_forecast_call *a, const struct tagc_forecast_call *b) {
  return a->group == b->group && a->function == b->function && a->content == b->content && a->type == b->type &&
         a->count == b->count && a->hosts.hosts == b->hosts.hosts;
}

static struct tagc_forecast_call *find_call(struct tagc_forecast_stage *stage, const struct tagc_forecast_call *like) {
  for (size_t i = 0; i < stage->count; i++)
    if (are_like_calls(&stage->calls[i], like))
      return &stage->calls[i];
  return NULL;
}

static void add_forecast_call(struct tagc_forecast_work *w, const struct tagc_forecast_call *like) {
  struct tagc_forecast_stage *stage = w->to;
  struct tagc_forecast_call *call = like->times ? find_call(stage, like) : NULL;
  if (w->failed || like->hosts.nranks < 2 || !like->count)
    return;
  /* No sum of rows can overflow then. */
  w->failed = 2 * (double)tagc_forecast_message(like) * (double)(like->times ? like->times : 1) > MOST_BYTES;
  if (w->failed)
    return;
  if (call) {
    call->times += like->times;
    return;
  }
  if (!(stage->count & (stage->count - 1))) { /* full: as many as a power of two */
    struct tagc_forecast_call *more = realloc(stage->calls, 2 * (stage->count + 1) * sizeof *more);
    w->failed = !more;
    if (!more)
      return;
    stage->calls = more;
  }
  stage->calls[stage->count++] = *like;
}

/* The hosts of a message from this stage to a neighbour: two ranks, on one host or on two. */
static struct tagc_hosts neighbours(const struct tagc_forecast_work *w, bool on) {
  const struct tagc_forecast_job *job = w->job;
  const int stride = job->ranks / job->pp, edge = (w->stage + on) * stride;
  return (struct tagc_hosts){.nranks = job->pp, .hosts = !job->local ? 0 : edge % job->local == 0 ? 2 : 1, .local = 1};
}

void tagc_forecast_add(struct tagc_forecast_work *w, enum tagc_forecast_group group,
                       enum tagc_forecast_function function, enum tagc_forecast_content content, enum tagc_dtype type,
                       uint64_t count, uint64_t times) {
  struct tagc_forecast_call call = {group, function, content, type, {0}, count, times};
  tagc_forecast_hosts(w->job, group, &call.hosts, NULL);
  if (times)
    add_forecast_call(w, &call);
}

void tagc_forecast_add_message(struct tagc_forecast_work *w, enum tagc_forecast_function function, bool on,
                               uint64_t count, uint64_t times) {
  struct tagc_forecast_call call = {
    TAGC_FORECAST_PIPELINE, function, TAGC_FORECAST_ACTIVATIONS, w->job->type, neighbours(w, on), count, times};
  if (times)
    add_forecast_call(w, &call);
}

void tagc_forecast_add_some(struct tagc_forecast_work *w, enum tagc_forecast_group group,
                            enum tagc_forecast_function function, enum tagc_forecast_content content,
                            enum tagc_dtype type, uint64_t count) {
  struct tagc_forecast_call call = {group, function, content, type, {0}, count, 0};
  tagc_forecast_hosts(w->job, group, &call.hosts, NULL);
  add_forecast_call(w, &call);
}

/* -- parameters of a stage ----------------------------------------------------------------------------------------- */

/* Does a name begin so, and end with .weight or .bias behind it? */
static bool is_part(const char *name, const char *part) {
  const size_t length = strlen(part);
  return strncmp(name, part, length) == 0 && (!strcmp(name + length, ".weight") || !strcmp(name + length, ".bias"));
}

int tagc_forecast_cut(const struct tagc_parameter *parameter) {
  static const char *const by_rows[] = {"embed",    "head",     "attn.q", "attn.k",     "attn.v",
                                        "attn.qkv", "mlp.gate", "mlp.up", "mlp.gate_up"};
  static const char *const whole[] = {"norm1", "norm2", "norm", "embed.positions"};
  const bool bias = parameter->kinds & TAGC_KIND_BIAS;
  for (size_t i = 0; i < sizeof by_rows / sizeof *by_rows; i++)
    if (is_part(parameter->name, by_rows[i]))
      return 1;
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
    if (is_part(parameter->name, whole[i]))
      return 0;
  return !is_part(parameter->name, "attn.o") && !is_part(parameter->name, "mlp.down") ? -1 : bias ? 0 : 2;
}

static void add_part(struct tagc_forecast_work *w, const struct tagc_parameter *parameter, bool alone) {
  struct tagc_forecast_part *part = &w->parts[w->part_count++];
  const uint64_t tp = (uint64_t)w->job->tp;
  const int cut = w->job->tp > 1 ? tagc_forecast_cut(parameter) : 0;
  *part = (struct tagc_forecast_part){.parameter = *parameter, .cut = cut > 0, .alone = alone};
  if (cut == 1)
    part->parameter.rows /= tp;
  if (cut == 2)
    part->parameter.columns /= tp;
  part->before = w->elements;
  w->elements += part->parameter.rows * part->parameter.columns;
}

static void add_place(struct tagc_forecast_work *w, size_t place) {
  const struct tagc_unit *unit = &w->model->units[w->model->places[place].unit];
  for (size_t i = 0; i < unit->count; i++)
    add_part(w, &unit->parameters[i], false);
}

/* Adds a unit of FSDP with the parts from `first` on. */
static void end_fsdp_unit(struct tagc_forecast_work *w, size_t first, bool twice) {
  if (w->part_count > first)
    w->units[w->unit_count++] =
      (struct tagc_forecast_unit){.first = first, .count = w->part_count - first, .twice = twice};
}

static bool is_block(const struct tagc_forecast_work *w, size_t place) { return w->model->places[place].block >= 0; }

/* The number of blocks in the stages before this one. Megatron shares them out evenly; torchtitan's first and last
 * stages have one less, for the embedding and for the head, and what is left over goes to the first stages
 * (pipeline_parallel.py, _generate_llm_fqn_per_model_part()). */
static int blocks_before(const struct tagc_forecast_job *job, int blocks, int stage) {
  if (job->base == TAGC_FORECAST_MEGATRON || stage == 0)
    return blocks / job->pp * stage;
  const int all = blocks + 2, more = all % job->pp;
  return stage == job->pp ? blocks : all / job->pp * stage + (stage < more ? stage : more) - 1;
}

/* Is this place one of the stage's? */
static bool is_of_stage(const struct tagc_forecast_work *w, size_t place) {
  if (is_block(w, place)) {
    const int block = w->model->places[place].block - w->first_block;
    return w->job->pp == 1 || (block >= 0 && block < w->blocks);
  }
  return place == 0 ? tagc_forecast_is_first(w) : w->job->pp == 1 || tagc_forecast_is_last(w);
}

/* FSDP: what is no block comes first; it is the root, or two units. torchtitan has one unit if the head is the
 * embedding (fsdp.py, apply_fsdp_to_decoder()). */
static void add_fsdp_parts(struct tagc_forecast_work *w) {
  const bool apart = tagc_forecast_has(w->job, TAGC_FORECAST_EMBED) ||
                     (tagc_forecast_has(w->job, TAGC_FORECAST_TITAN) && !tagc_forecast_is_tied(w->model));
  const bool kept = w->job->pp > 1 || tagc_forecast_has(w->job, TAGC_FORECAST_KEPT);
  size_t first = 0;
  for (size_t i = 0; i < w->model->place_count; i++)
    if (!is_block(w, i) && is_of_stage(w, i)) {
      add_place(w, i);
      if (apart && i == 0) {
        end_fsdp_unit(w, first, !kept);
        first = w->part_count;
      }
    }
  end_fsdp_unit(w, first, false);
  for (size_t i = 0; i < w->model->place_count; i++)
    if (is_block(w, i) && is_of_stage(w, i)) {
      first = w->part_count;
      add_place(w, i);
      end_fsdp_unit(w, first, !kept);
    }
}

static const struct tagc_parameter *parameter_named(const struct tagc_unit *unit, const char *name) {
  for (size_t i = 0; i < unit->count; i++)
    if (strcmp(unit->parameters[i].name, name) == 0)
      return &unit->parameters[i];
  return NULL;
}

int tagc_forecast_blocks(const struct tagc_model *model) {
  int blocks = 0;
  for (size_t i = 0; i < model->place_count; i++)
    blocks += model->places[i].block >= 0;
  return blocks;
}

bool tagc_forecast_is_tied(const struct tagc_model *model) {
  const struct tagc_unit *head = &model->units[model->places[model->place_count - 1].unit];
  return !parameter_named(head, "head.weight");
}

/* In the model's order. Megatron's last stage has a copy of a tied embedding as its head (language_module.py,
 * setup_embeddings_and_output_layer()). */
static void add_parts_in_order(struct tagc_forecast_work *w) {
  const struct tagc_unit *embedding = &w->model->units[w->model->places[0].unit];
  const bool shared = w->job->base == TAGC_FORECAST_MEGATRON && w->job->pp > 1 && tagc_forecast_is_tied(w->model);
  const bool alone = shared && tagc_forecast_has(w->job, TAGC_FORECAST_OPTIMIZER);
  for (size_t i = 0; i < w->model->place_count; i++) {
    if (is_of_stage(w, i))
      add_place(w, i);
  }
  if (alone && tagc_forecast_is_first(w))
    w->parts[0].alone = true;
  if (shared && tagc_forecast_is_last(w))
    add_part(w, parameter_named(embedding, "embed.weight"), alone);
  if (shared)
    w->shared = parameter_named(embedding, "embed.weight")->rows / (uint64_t)w->job->tp * w->hidden;
}

static bool make_forecast_parts(struct tagc_forecast_work *w) {
  size_t most = 1;
  for (size_t i = 0; i < w->model->place_count; i++)
    most += w->model->units[w->model->places[i].unit].count;
  w->parts = calloc(most, sizeof *w->parts);
  w->units = calloc(w->model->place_count + 2, sizeof *w->units);
  if (!w->parts || !w->units)
    return false;
  if (w->job->base == TAGC_FORECAST_FSDP1 || w->job->base == TAGC_FORECAST_FSDP2)
    add_fsdp_parts(w);
  else
    add_parts_in_order(w);
  return true;
}

/* -- stages -------------------------------------------------------------------------------------------------------- */

static bool make_stage(struct tagc_forecast_stage *stage, const struct tagc_forecast_job *job,
                       const struct tagc_model *model, int number) {
  struct tagc_forecast_work w = {.job = job, .model = model, .stage = number, .to = stage};
  const int blocks = tagc_forecast_blocks(model);
  w.first_block = blocks_before(job, blocks, number);
  w.blocks = blocks_before(job, blocks, number + 1) - w.first_block;
  const struct tagc_parameter *embedding = parameter_named(&model->units[model->places[0].unit], "embed.weight");
  w.hidden = embedding ? embedding->columns : 0;
  *stage = (struct tagc_forecast_stage){.first = number, .last = number};
  w.failed = !make_forecast_parts(&w);
  if (!w.failed) {
    tagc_forecast_data(&w);
    tagc_forecast_model(&w);
  }
  free(w.parts);
  free(w.units);
  return !w.failed;
}

static bool is_same_stage(const struct tagc_forecast_stage *a, const struct tagc_forecast_stage *b) {
  bool same = a->count == b->count;
  for (size_t i = 0; same && i < a->count; i++)
    same = are_like_calls(&a->calls[i], &b->calls[i]) && a->calls[i].times == b->calls[i].times;
  return same;
}

static bool make_stages(struct tagc_forecast *forecast, const struct tagc_model *model) {
  for (int i = 0; i < forecast->job.pp; i++) {
    struct tagc_forecast_stage *stage = &forecast->stages[forecast->count];
    const bool made = make_stage(stage, &forecast->job, model, i);
    if (made && forecast->count && is_same_stage(stage, stage - 1)) {
      stage[-1].last = i;
      free(stage->calls);
      stage->calls = NULL;
      continue;
    }
    forecast->count++;
    if (!made)
      return false;
  }
  return true;
}

bool tagc_forecast_make(struct tagc_forecast *forecast, const struct tagc_forecast_job *job,
                        const struct tagc_model *model) {
  const bool megatron = job->base == TAGC_FORECAST_MEGATRON;
  bool no_memory = false;
  /* Gradients come in the reverse of the forward order, and llama registers its norms behind all else. */
  struct tagc_model *other = megatron                             ? tagc_megatron_model(model, &no_memory)
                             : tagc_forecast_is_by_gradients(job) ? tagc_family_forward_model(model, &no_memory)
                                                                  : NULL;
  *forecast = (struct tagc_forecast){
    .job = *job, .parameters = tagc_model_elements(model), .stages = calloc((size_t)job->pp, sizeof *forecast->stages)};
  const bool made =
    forecast->stages && (other || (!megatron && !no_memory)) && make_stages(forecast, other ? other : model);
  tagc_model_free(other);
  return made;
}

void tagc_forecast_free(struct tagc_forecast *forecast) {
  for (size_t i = 0; forecast->stages && i < forecast->count; i++)
    free(forecast->stages[i].calls);
  free(forecast->stages);
  *forecast = (struct tagc_forecast){.count = 0};
}
