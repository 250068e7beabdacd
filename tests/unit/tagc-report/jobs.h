/* SPDX-License-Identifier: BSD-3-Clause
 * Synthetic jobs: summaries of communicators with calls, call by call as a rank makes them in a step, or from files of
 * calls (tests/fixtures) with layermap/'s slots. job_free() ends one. A job holds a few communicators.
 */
#ifndef TESTS_UNIT_TAGC_REPORT_JOBS_H
#define TESTS_UNIT_TAGC_REPORT_JOBS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/tagc-report/read/summary.h"
#include "layermap/cycle/calls.h"
#include "layermap/cycle/cycle.h"
#include "layermap/infer/layers.h"
#include "tests/unit/fixtures.h"

enum { JOB_COMMS = 16, JOB_LINES = 64, JOB_SLOTS = 1024, JOB_RANKS = 64, JOB_STEPS = 3 };

enum job_function {
  JOB_RS = 1,
  JOB_AG,
  JOB_AR,
  JOB_BROADCAST,
  JOB_REDUCE,
  JOB_A2A,
  JOB_SEND,
  JOB_RECV,
  JOB_GATHER,
  JOB_SCATTER
};
enum job_type {
  JOB_UINT8 = 1,
  JOB_INT64 = 4,
  JOB_F16 = 6,
  JOB_F32 = 7,
  JOB_F64 = 8,
  JOB_BF16 = 9
}; /* ncclDataType_t */
enum job_op { JOB_SUM, JOB_AVG = 4, JOB_MAX = 2 };

static inline struct tagc_summary *job_make(void) {
  static const char *const functions[] = {
    [JOB_RS] = "ncclReduceScatter",    [JOB_AG] = "ncclAllGather",  [JOB_AR] = "ncclAllReduce",
    [JOB_BROADCAST] = "ncclBroadcast", [JOB_REDUCE] = "ncclReduce", [JOB_A2A] = "ncclAlltoAll",
    [JOB_SEND] = "ncclSend",           [JOB_RECV] = "ncclRecv",     [JOB_GATHER] = "ncclGather",
    [JOB_SCATTER] = "ncclScatter"};
  static const char *const types[] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                      "uint64", "float16", "float32", "float64", "bfloat16"};
  static const char *const ops[] = {"sum", "prod", "max", "min", "avg"};
  struct tagc_summary *job = calloc(1, sizeof *job);
  job->ranks = calloc(JOB_RANKS, sizeof *job->ranks);
  job->comms = calloc(JOB_COMMS, sizeof *job->comms);
  job->rank_count = JOB_RANKS;
  for (size_t i = 1; i < sizeof functions / sizeof *functions; i++)
    job->names.text[TAGC_TRACE_FUNCTIONS][i] = strdup(functions[i]);
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    job->names.text[TAGC_TRACE_TYPES][i] = strdup(types[i]);
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    job->names.text[TAGC_TRACE_OPS][i] = strdup(ops[i]);
  return job;
}

static inline void job_free(struct tagc_summary *job) {
  for (size_t i = 0; i < job->comm_count; i++) {
    for (size_t k = 0; k < job->comms[i].slot_count; k++)
      free(job->comms[i].slots[k].name);
    free(job->comms[i].slots);
    free(job->comms[i].lines);
    free(job->comms[i].members);
  }
  for (int table = 0; table < 6; table++)
    for (int code = 0; code < 256; code++)
      free(job->names.text[table][code]);
  free(job->comms);
  free(job->ranks);
  free(job);
}

/* Ranks first, first + stride, ... of the job; all have made JOB_STEPS whole steps, in a known cycle. */
static inline struct tagc_sum_comm *job_comm(struct tagc_summary *job, int nranks, size_t first, size_t stride) {
  struct tagc_sum_comm *comm = &job->comms[job->comm_count++];
  comm->nranks = nranks;
  comm->members = calloc((size_t)nranks, sizeof *comm->members);
  comm->member_count = (size_t)nranks;
  for (int i = 0; i < nranks; i++)
    comm->members[i] = (struct tagc_sum_member){.rank = first + (size_t)i * stride, .as = i};
  comm->lines = calloc(JOB_LINES, sizeof *comm->lines);
  comm->whole_steps = (uint64_t)nranks * JOB_STEPS;
  comm->last_lock = 1;
  return comm;
}

static inline uint64_t job_element(uint8_t type) {
  static const uint8_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return bytes[type];
}

/* The bytes that a call of a function sends in a ring, for its elements. */
static inline uint64_t job_plain(uint16_t function, uint64_t ranks, uint64_t bytes) {
  switch (function) {
  case JOB_RS:
  case JOB_AG: return (ranks - 1) * bytes;
  case JOB_AR: return 2 * (ranks - 1) * bytes / ranks;
  case JOB_SEND: return bytes;
  case JOB_RECV: return 0;
  default: return (ranks - 1) * bytes / ranks;
  }
}

static inline void job_add_calls(struct tagc_sum_calls *sum, uint64_t calls, uint64_t raw, uint64_t plain) {
  sum->calls += calls;
  sum->raw_bytes += calls * raw;
  sum->plain.between += calls * plain;
  sum->sent.between += calls * plain;
}

/* Adds that many calls of all ranks together. */
static inline void job_add(struct tagc_sum_comm *comm, uint16_t function, uint8_t type, uint8_t op, uint64_t count,
                           uint64_t calls, bool whole) {
  const uint64_t ranks = (uint64_t)comm->nranks, bytes = count * job_element(type);
  const uint64_t raw = function == JOB_RS || function == JOB_A2A ? ranks * bytes : function == JOB_RECV ? 0 : bytes;
  int8_t class = -1;
  for (uint64_t rest = raw; rest; rest /= 2)
    class ++;
  size_t i = 0;
  struct tagc_sum_line *line = comm->lines;
  while (i < comm->line_count &&
         (line[i].function != function || line[i].type != type || line[i].op != op || line[i].size_class != class))
    i++;
  if (i == comm->line_count && ++comm->line_count <= JOB_LINES)
    line[i] = (struct tagc_sum_line){
      .function = function, .type = type, .op = op, .size_class = class, .least_count = count, .most_count = count};
  line += i;
  line->least_count = count < line->least_count ? count : line->least_count;
  line->most_count = count > line->most_count ? count : line->most_count;
  job_add_calls(&line->calls, calls, raw, job_plain(function, ranks, bytes));
  if (whole)
    job_add_calls(&line->whole, calls, raw, job_plain(function, ranks, bytes));
  job_add_calls(&comm->calls, calls, raw, job_plain(function, ranks, bytes));
}

/* Adds that many calls per rank and step; some came before the first whole step, too. */
static inline void job_calls(struct tagc_sum_comm *comm, uint16_t function, uint8_t type, uint8_t op, uint64_t count,
                             uint64_t calls) {
  job_add(comm, function, type, op, count, calls * comm->whole_steps, true);
  job_add(comm, function, type, op, count, calls * (uint64_t)comm->nranks, false);
}

static inline void job_slot(struct tagc_sum_comm *comm, const char *name, uint32_t unit, uint32_t pass, uint64_t count,
                            uint16_t type) {
  if (!comm->slots)
    comm->slots = calloc(JOB_SLOTS, sizeof *comm->slots);
  comm->slots[comm->slot_count] = (struct tagc_sum_slot){.lock = comm->last_lock,
                                                         .slot = (uint32_t)comm->slot_count,
                                                         .unit = unit,
                                                         .pass = pass,
                                                         .count = count,
                                                         .type = type,
                                                         .name = strdup(name)};
  comm->slot_count++;
}

/* -- files of calls ------------------------------------------------------------------------------------------------ */

static inline void job_find_slots(struct tagc_sum_comm *comm, const struct tagc_call_list *list, size_t step) {
  struct tagc_cycle_options options = {1, 256, 0};
  struct tagc_cycle *cycle = tagc_cycle_create(&options);
  struct tagc_sighting seen;
  char why[160];
  size_t count;
  for (size_t i = 0; i < list->count + 8 * step + 512; i++)
    tagc_cycle_observe(cycle, &list->calls[i < list->count ? i : list->count - step + (i - list->count) % step], &seen);
  const struct tagc_slot_info *slots = tagc_cycle_slots(cycle, &count);
  struct tagc_layers *layers = tagc_layers_infer(slots, count, list->nranks, NULL, why);
  for (size_t i = 0; i < count && i < JOB_SLOTS; i++)
    job_slot(comm, layers ? layers->layers[i].name : slots[i].name, slots[i].unit, slots[i].pass,
             slots[i].signature.count, slots[i].signature.dtype);
  comm->gradients = tagc_cycle_is_gradients(cycle);
  tagc_layers_free(layers);
  tagc_cycle_destroy(cycle);
}

/* A communicator whose ranks from `first` on follow a file. NULL: the file cannot be read. */
static inline struct tagc_sum_comm *job_fixture(struct tagc_summary *job, const char *path, size_t first) {
  static const uint16_t functions[] = {
    [TAGC_COLL_REDUCE_SCATTER] = JOB_RS,   [TAGC_COLL_ALL_GATHER] = JOB_AG,  [TAGC_COLL_ALL_REDUCE] = JOB_AR,
    [TAGC_COLL_BROADCAST] = JOB_BROADCAST, [TAGC_COLL_REDUCE] = JOB_REDUCE,  [TAGC_COLL_ALL_TO_ALL] = JOB_A2A,
    [TAGC_COLL_GATHER] = JOB_GATHER,       [TAGC_COLL_SCATTER] = JOB_SCATTER};
  /* By enum tagc_op; others are maxima in these files. */
  static const uint8_t ops[] = {JOB_SUM, JOB_AVG, JOB_SUM, JOB_MAX};
  struct tagc_complaint complaint;
  struct tagc_call_file *file = tagc_calls_read(path, &complaint);
  const size_t step = fixtures_step(path);
  if (!file || file->count == 0 || step == 0 || step > file->lists[0].count) {
    tagc_calls_free(file);
    return NULL;
  }
  const struct tagc_call_list *list = &file->lists[0];
  struct tagc_sum_comm *comm = job_comm(job, list->nranks, first, 1);
  for (size_t i = 0; i < list->count; i++) {
    const struct tagc_signature *call = &list->calls[i];
    const bool whole = i >= list->count - step;
    job_add(comm, functions[call->collective], call->dtype, ops[call->op % 4], call->count,
            (uint64_t)list->nranks * (whole ? JOB_STEPS : 1), whole);
  }
  job_find_slots(comm, list, step);
  tagc_calls_free(file);
  return comm;
}

#endif
