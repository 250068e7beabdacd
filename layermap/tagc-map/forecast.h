/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-map forecast: the calls of a training step that nobody has run yet, by the formulas of the frameworks.
 *
 * Layout      A list of words: a framework's way to share the model (ddp, fsdp1, fsdp2, zero1, zero2, zero3, megatron),
 *             then details of it. forecast_layout.c has them, and refuses combinations that no formula here covers.
 * Ranks       are numbered as all these frameworks do: those of a tensor-parallel group are neighbours, then come those
 *             of data parallelism, and the stages of a pipeline are farthest apart. A stage is what its ranks share:
 *             all of its ranks make the same calls.
 * Call        A row stands for `times` equal calls of a rank in a step. `count` is what the program gives to NCCL:
 *             elements of one shard for all-gathers and reduce-scatters, else of the whole buffer.
 * Left out    are the calls of the program itself (the mean of a loss, FSDP's and DDP's gradient norm), those of the
 *             first step, and buffers that DDP broadcasts.
 * Units       bytes and elements. Threads: pure functions of their arguments; any thread.
 */
#ifndef LAYERMAP_TAGC_MAP_FORECAST_H
#define LAYERMAP_TAGC_MAP_FORECAST_H

#include <stdio.h>

#include "kernels/codec/cost.h"
#include "layermap/model/layout.h"
#include "layermap/model/model.h"

enum tagc_forecast_base {
  TAGC_FORECAST_DDP,
  TAGC_FORECAST_FSDP1,
  TAGC_FORECAST_FSDP2,
  TAGC_FORECAST_ZERO1,
  TAGC_FORECAST_ZERO2,
  TAGC_FORECAST_ZERO3,
  TAGC_FORECAST_MEGATRON,
  TAGC_FORECAST_BASES
};

/* Words of a layout that take no number. */
enum tagc_forecast_flag {
  TAGC_FORECAST_SP = 1,        /* megatron: sequence parallelism */
  TAGC_FORECAST_OPTIMIZER = 2, /* megatron,zero1: its distributed optimizer */
  TAGC_FORECAST_OVERLAP = 4,   /* megatron: buckets, as --overlap-grad-reduce cuts them */
  TAGC_FORECAST_EVERY = 8,     /* gradients are reduced in every micro-batch, not in the last one */
  TAGC_FORECAST_KEPT = 16,     /* fsdp2: reshard_after_forward=False */
  TAGC_FORECAST_EMBED = 32,    /* fsdp1, fsdp2: the embedding is a unit of its own */
  TAGC_FORECAST_TITAN = 64,    /* fsdp2: units as torchtitan makes them: embedding, blocks, norm and head */
};

/* What the user asks about. tp, pp, shards: 1 or more. */
struct tagc_forecast_job {
  const char *config, *layout; /* the model's file, and the list; as the user wrote them, borrowed */
  enum tagc_forecast_base base;
  unsigned flags;
  int tp, pp, shards;          /* shards: hsdp=N, the ranks that share one copy of the model; 0: all */
  int ranks, local;            /* local: ranks of a host; 0: not known */
  int micro_batch, accumulate; /* sequences of a micro-batch of a rank; micro-batches of a step */
  uint64_t sequence;
  enum tagc_dtype type, gradients;
  /* As the framework counts it: bytes (ddp), elements (zero1, zero2, zero3); of the first one, and of the others. */
  uint64_t first_bucket, bucket;
};

enum tagc_forecast_group {
  TAGC_FORECAST_DATA,
  TAGC_FORECAST_REPLICAS, /* of HSDP */
  TAGC_FORECAST_TENSOR,
  TAGC_FORECAST_PIPELINE,
  TAGC_FORECAST_EMBEDDING, /* the first and the last stage, which share a tied embedding */
  TAGC_FORECAST_MODEL,     /* tensor and pipeline together */
  TAGC_FORECAST_WORLD,
  TAGC_FORECAST_GROUPS
};

enum tagc_forecast_function {
  TAGC_FORECAST_ALL_REDUCE,
  TAGC_FORECAST_REDUCE_SCATTER,
  TAGC_FORECAST_ALL_GATHER,
  TAGC_FORECAST_SEND,
  TAGC_FORECAST_RECV,
  TAGC_FORECAST_FUNCTIONS
};

enum tagc_forecast_content {
  TAGC_FORECAST_PARAMETERS,
  TAGC_FORECAST_GRADIENTS,
  TAGC_FORECAST_ACTIVATIONS, /* and their gradients */
  TAGC_FORECAST_LOSS,        /* maxima and sums over a vocabulary that is divided */
  TAGC_FORECAST_NORM,        /* of the gradients */
  TAGC_FORECAST_CONTENTS
};

struct tagc_forecast_call {
  enum tagc_forecast_group group;
  enum tagc_forecast_function function;
  enum tagc_forecast_content content;
  enum tagc_dtype type;
  struct tagc_hosts hosts; /* of the group; hosts = 0: not known */
  uint64_t count, times;   /* times 0: not known; count is then that of all calls together */
};

/* Stages first to last are alike. */
struct tagc_forecast_stage {
  int first, last;
  struct tagc_forecast_call *calls;
  size_t count;
};

struct tagc_forecast {
  struct tagc_forecast_job job;
  uint64_t parameters; /* of the whole model */
  struct tagc_forecast_stage *stages;
  size_t count;
};

enum { TAGC_FORECAST_WHY = 400 };

/* Reads a layout into job. False: `why` names the word, and what is accepted. */
bool tagc_forecast_read_layout(const char *list, struct tagc_forecast_job *job, char why[TAGC_FORECAST_WHY]);

/* Does the size of buckets matter? */
static inline bool tagc_forecast_has_buckets(const struct tagc_forecast_job *job) {
  return job->base == TAGC_FORECAST_DDP || (job->base >= TAGC_FORECAST_ZERO1 && job->base <= TAGC_FORECAST_ZERO3);
}

/* Do buckets follow the gradients, and not the registered order? */
static inline bool tagc_forecast_is_by_gradients(const struct tagc_forecast_job *job) {
  return job->base == TAGC_FORECAST_DDP || job->base == TAGC_FORECAST_ZERO2 || job->base == TAGC_FORECAST_ZERO3;
}

/* Checks numbers against each other and against the model. False: see `why`. */
bool tagc_forecast_check(const struct tagc_forecast_job *job, const struct tagc_model *model,
                         char why[TAGC_FORECAST_WHY]);

/* The calls of a job that tagc_forecast_check() accepts. False: no memory, or a sort of call has more than 2^53 bytes.
 * End with tagc_forecast_free(), also then. */
bool tagc_forecast_make(struct tagc_forecast *forecast, const struct tagc_forecast_job *job,
                        const struct tagc_model *model);
void tagc_forecast_free(struct tagc_forecast *forecast);

/* Bytes of a message as nccl-tests count it (of all ranks for all-gathers and reduce-scatters), and sent by a rank for
 * one such call: by a ring, as a mean over the ranks of a host. */
uint64_t tagc_forecast_message(const struct tagc_forecast_call *call);
struct tagc_traffic tagc_forecast_sent(const struct tagc_forecast_call *call);

const char *tagc_forecast_group_name(enum tagc_forecast_group group);
const char *tagc_forecast_function_name(enum tagc_forecast_function function);
const char *tagc_forecast_content_name(enum tagc_forecast_content content);
const char *tagc_forecast_type_name(enum tagc_dtype type);

/* What a codec makes of the calls with gradients, or with parameters, of a stage: bytes that a rank sends in a step. */
struct tagc_forecast_codec {
  const char *name;
  struct tagc_traffic plain, coded; /* of the calls that it can carry, and as it carries them; others are in neither */
};

/* Fills `codecs` (room for `room`), and returns their number. Calls below `least` bytes pass. */
size_t tagc_forecast_codecs(const struct tagc_forecast_stage *stage, enum tagc_forecast_content content, uint64_t least,
                            double sparsity, struct tagc_forecast_codec *codecs, size_t room);

/* Sums over the calls of a group, or of all (TAGC_FORECAST_GROUPS). */
struct tagc_forecast_sum {
  uint64_t calls, messages, sent, between; /* bytes, but for calls */
  bool unknown;                            /* some calls have no number */
};
struct tagc_forecast_sum tagc_forecast_sum_up(const struct tagc_forecast_stage *stage, enum tagc_forecast_group group);

void tagc_forecast_print(const struct tagc_forecast *forecast, double sparsity, FILE *to);
/* Several jobs that differ in the model and in the length of sequences, a line each. count: at least 1. */
void tagc_forecast_compare(const struct tagc_forecast *forecasts, size_t count, FILE *to);
/* One object, or an array of several. */
void tagc_forecast_write_json(const struct tagc_forecast *forecasts, size_t count, double sparsity, FILE *to);

/* The last part of the path. */
const char *tagc_forecast_model_name(const struct tagc_forecast *forecast);

/* -- between the files --------------------------------------------------------------------------------------------- */

/* A parameter of a rank of a stage, cut by tensor parallelism. */
struct tagc_forecast_part {
  struct tagc_parameter parameter;
  uint64_t before; /* elements of the parameters that are registered before it */
  bool cut;        /* each rank of the tensor-parallel group has another piece */
  bool alone;      /* a bucket of its own (Megatron's shared embedding) */
};

/* The parameters of a unit of FSDP; `twice`: gathered again in the backward pass. */
struct tagc_forecast_unit {
  size_t first, count; /* of parts */
  bool twice;
};

/* A stage in the making. */
struct tagc_forecast_work {
  const struct tagc_forecast_job *job;
  const struct tagc_model *model;
  int stage, first_block, blocks;   /* blocks: of this stage */
  uint64_t hidden, shared;          /* shared: elements of Megatron's tied embedding in a pipeline; 0: none */
  struct tagc_forecast_part *parts; /* in the order of registration */
  size_t part_count;
  uint64_t elements;                /* of all parts */
  struct tagc_forecast_unit *units; /* of FSDP */
  size_t unit_count;
  struct tagc_forecast_stage *to;
  bool failed; /* no memory, or an overflow */
};

static inline bool tagc_forecast_has(const struct tagc_forecast_job *job, unsigned flag) { return job->flags & flag; }
static inline bool tagc_forecast_is_first(const struct tagc_forecast_work *w) { return w->stage == 0; }
static inline bool tagc_forecast_is_last(const struct tagc_forecast_work *w) { return w->stage == w->job->pp - 1; }
static inline int tagc_forecast_replicas(const struct tagc_forecast_job *job) {
  return job->ranks / job->tp / job->pp; /* ranks of data parallelism */
}

/* Adds `times` calls; equal ones share a row. Groups of one rank, and no times, add nothing. */
void tagc_forecast_add(struct tagc_forecast_work *w, enum tagc_forecast_group group,
                       enum tagc_forecast_function function, enum tagc_forecast_content content, enum tagc_dtype type,
                       uint64_t count, uint64_t times);
/* Messages of a pipeline: on to the next stage and back from it, or with the one before. */
void tagc_forecast_add_message(struct tagc_forecast_work *w, enum tagc_forecast_function function, bool on,
                               uint64_t count, uint64_t times);
/* Calls whose number nobody knows, of `count` elements together. */
void tagc_forecast_add_some(struct tagc_forecast_work *w, enum tagc_forecast_group group,
                            enum tagc_forecast_function function, enum tagc_forecast_content content,
                            enum tagc_dtype type, uint64_t count);

/* forecast_data.c: gradients and parameters. forecast_model.c: activations, and sums within a model. */
void tagc_forecast_data(struct tagc_forecast_work *w);
void tagc_forecast_model(struct tagc_forecast_work *w);

/* Is the parameter cut in pieces of rows (1), of columns (2), or not at all (0) by tensor parallelism? -1: unknown. */
int tagc_forecast_cut(const struct tagc_parameter *parameter);

/* The blocks of a model, by their places. */
int tagc_forecast_blocks(const struct tagc_model *model);

/* Is the head the embedding? The last place must be the head. */
bool tagc_forecast_is_tied(const struct tagc_model *model);

/* The hosts of a group. False: uneven, see `why` (or NULL). */
bool tagc_forecast_hosts(const struct tagc_forecast_job *job, enum tagc_forecast_group group, struct tagc_hosts *hosts,
                         char why[TAGC_FORECAST_WHY]);

#endif
