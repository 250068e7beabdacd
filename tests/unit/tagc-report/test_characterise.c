/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-report --characterise: every recording (tests/fixtures) byte by byte, and bandwidths as nccl-tests count them.
 */
#include "interpose/tagc-report/judge/characterise.h"

#include <inttypes.h>
#include <math.h>

#include "interpose/tagc-report/judge/volume.h"
#include "interpose/tagc-report/show/report.h"
#include "tests/unit/fixtures.h"
#include "tests/unit/tap.h"
#include "tests/unit/tagc-report/jobs.h"

/* The first ranks of a job make whole steps. */
static void make_steps(struct tagc_summary *job, int ranks) {
  static struct tagc_sum_step steps[JOB_STEPS];
  static char none[] = "";
  job->rank_count = (size_t)ranks;
  for (int i = 0; i < JOB_STEPS; i++)
    steps[i].whole = true;
  for (int i = 0; i < ranks; i++) {
    job->ranks[i].steps = steps;
    job->ranks[i].step_count = JOB_STEPS;
    job->ranks[i].blocking = true;
    job->ranks[i].options = job->ranks[i].path = none;
  }
}

/* What --characterise prints, and behind that the document; for free(). */
static char *print_traits(struct tagc_summary *job) {
  char *text = NULL;
  size_t size;
  FILE *to = open_memstream(&text, &size);
  struct tagc_report report = {.summary = job};
  if (!to || !tagc_traits_find(job, &report.traits))
    abort();
  tagc_report_characterise(&report, to);
  tagc_report_json(&report, to);
  fclose(to);
  tagc_traits_free(&report.traits);
  return text;
}

/* The messages of the step at the end of a file; counts its calls. */
static double step_of_file(const char *path, size_t *calls) {
  struct tagc_complaint complaint;
  struct tagc_call_file *file = tagc_calls_read(path, &complaint);
  const struct tagc_call_list *list = &file->lists[0];
  double bytes = 0;
  *calls = fixtures_step(path);
  ok(file->count == 1, "%s has one communicator", strrchr(path, '/') + 1);
  for (size_t i = list->count - *calls; i < list->count; i++) {
    const struct tagc_signature *call = &list->calls[i];
    const bool whole = call->collective != TAGC_COLL_ALL_REDUCE && call->collective != TAGC_COLL_BROADCAST &&
                       call->collective != TAGC_COLL_REDUCE;
    bytes += (double)(call->count * job_element(call->dtype)) * (whole ? list->nranks : 1);
  }
  tagc_calls_free(file);
  return bytes;
}

/* Messages and calls a step, of a table or the rows of a role (TAGC_ROLES: of all). */
static void add_up(const struct tagc_traits *traits, const struct tagc_traits_row *rows, size_t count, int role,
                   double *calls, double *bytes) {
  *calls = *bytes = 0;
  for (size_t i = 0; i < count; i++)
    if (role == TAGC_ROLES || role == (int)rows[i].role) {
      *calls += rows[i].calls / traits->each;
      *bytes += rows[i].message_bytes / traits->each;
    }
}

/* Every table must have the calls and bytes a step. */
static void check_tables(const struct tagc_traits *traits, double calls, double bytes) {
  const struct {
    const char *name;
    const struct tagc_traits_row *rows;
    size_t count;
  } tables[] = {{"rows", traits->rows, traits->count},
                {"calls", traits->calls.rows, traits->calls.count},
                {"sizes", traits->sizes.rows, traits->sizes.count}};
  double plain = 0, got_calls, got_bytes;
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    add_up(traits, tables[i].rows, tables[i].count, TAGC_ROLES, &got_calls, &got_bytes);
    ok(fabs(got_calls - calls) < 1e-6, "%s: %g calls a step, of %g", tables[i].name, got_calls, calls);
    ok(fabs(got_bytes - bytes) < 0.5, "%s: messages of %.0f bytes a step, of %.0f", tables[i].name, got_bytes, bytes);
  }
  for (int role = 0; role < TAGC_ROLES; role++)
    plain += traits->of[role].plain_bytes;
  ok(plain == traits->all.plain_bytes && fabs(traits->all.calls / traits->each - calls) < 1e-6, "shares add up");
}

static void check_text(struct tagc_summary *job) {
  char *text = print_traits(job), *document = strstr(text, "\n{");
  size_t widest = 0;
  *document = '\0';
  for (const char *line = text; *line; line += strcspn(line, "\n") + (line[strcspn(line, "\n")] == '\n'))
    widest = strcspn(line, "\n") > widest ? strcspn(line, "\n") : widest;
  ok(widest <= 120 && strstr(text, "Sizes of messages"), "the text has %zu columns", widest);
  free(text);
}

static void test_file(const char *path) {
  struct tagc_summary *job = job_make();
  struct tagc_sum_comm *comm = job_fixture(job, path, 0);
  struct tagc_traits traits;
  size_t expected_calls;
  make_steps(job, comm->nranks);
  tagc_sum_roles(job);
  const double expected = step_of_file(path, &expected_calls);
  ok(tagc_traits_find(job, &traits) && traits.steps, "%s has steps", strrchr(path, '/') + 1);
  check_tables(&traits, (double)expected_calls, expected);
  ok(traits.of[comm->role].calls == traits.all.calls, "all of one kind of parallelism");
  check_text(job);
  tagc_traits_free(&traits);
  job_free(job);
}

static void test_fixtures(void) {
  glob_t found;
  const size_t count = fixtures_find("*", &found);
  for (size_t i = 0; i < count; i++)
    test_file(found.gl_pathv[i]);
  ok(count > 60, "%zu files of calls", count);
  globfree(&found);
}

/* -- steps of all groups: parallel/NAME.step ----------------------------------------------------------------------- */

enum { GROUPS = 16 };

/* A job of one rank a stage, as the file has it. Stages share the groups of the pipeline and of all ranks. */
struct step_file {
  struct tagc_summary *job;
  char layout[128];
  int stages;
  struct step_group {
    char name[16];
    int stage; /* -1: all */
    struct tagc_sum_comm *comm;
    double calls, bytes; /* of all stages */
  } groups[GROUPS];
  size_t count;
};

static struct step_group *step_group_of(struct step_file *file, const char *name, const char *function, int nranks) {
  /* The group of tied embeddings has the ranks of a short pipeline, whose name a recording gives it. */
  if (strcmp(name, "pipeline") == 0 && strcmp(function, "all-reduce") == 0)
    name = "embedding";
  const int stage = strcmp(name, "data") == 0 || strcmp(name, "tensor") == 0 ? file->stages - 1 : -1;
  for (size_t i = 0; i < file->count; i++)
    if (strcmp(file->groups[i].name, name) == 0 && file->groups[i].stage == stage &&
        file->groups[i].comm->nranks == nranks)
      return &file->groups[i];
  if (file->count == GROUPS)
    abort();
  struct step_group *group = &file->groups[file->count++];
  *group = (struct step_group){.stage = stage, .comm = job_comm(file->job, nranks, 0, 1)};
  snprintf(group->name, sizeof group->name, "%s", name);
  group->comm->member_count = 0;
  group->comm->whole_steps = 0;
  return group;
}

/* The rank of this stage is in the group, from its first call on. */
static void join_step_group(const struct step_file *file, struct step_group *group) {
  struct tagc_sum_comm *comm = group->comm;
  const size_t rank = (size_t)file->stages - 1;
  if (comm->member_count && comm->members[comm->member_count - 1].rank == rank)
    return;
  comm->members[comm->member_count++] = (struct tagc_sum_member){.rank = rank, .as = group->stage < 0 ? (int)rank : 0};
  comm->whole_steps += JOB_STEPS;
}

static void add_step_call(struct step_file *file, const char *name, int nranks, const char *function, uint64_t count,
                          const char *type, uint64_t times) {
  static const struct {
    const char *name;
    enum job_function function;
    bool of_all; /* the message is the buffer of all ranks */
  } functions[] = {{"all-gather", JOB_AG, true},
                   {"reduce-scatter", JOB_RS, true},
                   {"all-reduce", JOB_AR, false},
                   {"send", JOB_SEND, false},
                   {"receive", JOB_RECV, false}};
  static const struct {
    const char *name;
    enum job_type type;
    double bytes;
  } types[] = {{"float32", JOB_F32, 4}, {"float64", JOB_F64, 8}, {"bfloat16", JOB_BF16, 2}, {"uint8", JOB_UINT8, 1}};
  size_t f = 0, t = 0;
  while (strcmp(functions[f].name, function) != 0)
    f++;
  while (strcmp(types[t].name, type) != 0)
    t++;
  struct step_group *group = step_group_of(file, name, function, nranks);
  struct tagc_sum_comm *comm = group->comm;
  join_step_group(file, group);
  job_add(comm, (uint16_t)functions[f].function, (uint8_t)types[t].type, JOB_SUM, count, times * JOB_STEPS, true);
  group->calls += (double)times;
  group->bytes += (double)(times * count) * types[t].bytes * (functions[f].of_all ? nranks : 1);
  /* What layermap/ would say: */
  const bool reduced = functions[f].function == JOB_RS || functions[f].function == JOB_AR;
  if (strcmp(name, "data") == 0 && reduced && (double)count * types[t].bytes >= 4096) {
    for (uint64_t i = 0; i < times; i++) {
      job_slot(comm, "block", (uint32_t)comm->slot_count, 0, count, (uint16_t)types[t].type);
      comm->slots[comm->slot_count - 1].all_reduce = functions[f].function == JOB_AR;
    }
    comm->gradients = true;
  }
  if (functions[f].function == JOB_SEND)
    comm->sends[file->stages == 1 ? TAGC_WAY_ON : TAGC_WAY_BACK] += times;
}

static bool read_step_file(struct step_file *file, const char *path) {
  char line[1024], name[16], function[24], type[16];
  uint64_t count, times;
  int nranks;
  FILE *from = fopen(path, "r");
  *file = (struct step_file){.job = job_make()};
  while (from && fgets(line, sizeof line, from))
    if (sscanf(line, "%15s %d %23s %" SCNu64 " %15s x%" SCNu64, name, &nranks, function, &count, type, &times) == 6)
      add_step_call(file, name, nranks, function, count, type, times);
    else if (sscanf(line, "layout %127s", file->layout) != 1)
      file->stages += strncmp(line, "stage ", 6) == 0;
  if (from)
    fclose(from);
  return file->count && file->stages;
}

/* What a group is for, by its name and the layout. */
static bool is_role_of_group(const char *layout, const struct step_group *group) {
  const enum tagc_sum_role role = group->comm->role;
  if (group->comm->nranks == 1)
    return role == TAGC_ROLE_IDLE;
  if (strcmp(group->name, "world") == 0)
    return role == TAGC_ROLE_CONTROL;
  if (strcmp(group->name, "pipeline") == 0)
    return role == TAGC_ROLE_PIPELINE;
  if (strcmp(group->name, "tensor") == 0)
    return role == TAGC_ROLE_TENSOR || role == TAGC_ROLE_SEQUENCE;
  if (strcmp(group->name, "embedding") == 0) /* too few calls to tell */
    return role != TAGC_ROLE_PIPELINE;
  /* Of several micro-batches ZeRO-3 gathers less than it reduces, as its small parameters stay. */
  if (strcmp(layout, "zero3") == 0)
    return role == TAGC_ROLE_OPTIMIZER || role == TAGC_ROLE_UNKNOWN;
  /* Beside a pipeline FSDP keeps its parameters, and this ZeRO-3 does so: gathered once, they look like ZeRO-1's. */
  const bool sharded = strstr(layout, "fsdp2") && !strstr(layout, "pp=");
  return role == (sharded                                             ? TAGC_ROLE_SHARDED
                  : strstr(layout, "fsdp2") || strstr(layout, "zero") ? TAGC_ROLE_OPTIMIZER
                                                                      : TAGC_ROLE_DATA);
}

static void test_step_file(const char *path) {
  struct step_file file;
  struct tagc_traits traits;
  double calls = 0, bytes = 0;
  if (!read_step_file(&file, path))
    abort();
  make_steps(file.job, file.stages);
  tagc_sum_roles(file.job);
  ok(tagc_traits_find(file.job, &traits) && traits.steps, "%s: %d stages, %zu groups", strrchr(path, '/') + 1,
     file.stages, file.count);
  for (size_t i = 0; i < file.count; i++) {
    calls += file.groups[i].calls / file.stages;
    bytes += file.groups[i].bytes / file.stages;
    ok(is_role_of_group(file.layout, &file.groups[i]), "%s: the group %s of %d ranks: %s", file.layout,
       file.groups[i].name, file.groups[i].comm->nranks, tagc_role_words(file.groups[i].comm->role));
  }
  check_tables(&traits, calls, bytes);
  for (int role = 0; role < TAGC_ROLES; role++) {
    double expected_calls = 0, expected = 0, got_calls, got;
    for (size_t i = 0; i < file.count; i++)
      if ((int)file.groups[i].comm->role == role) {
        expected_calls += file.groups[i].calls / file.stages;
        expected += file.groups[i].bytes / file.stages;
      }
    add_up(&traits, traits.rows, traits.count, role, &got_calls, &got);
    if (expected_calls > 0 || got_calls > 0)
      ok(fabs(got_calls - expected_calls) < 1e-6 && fabs(got - expected) < 0.5, "%s: %g calls of %.0f bytes, of %.0f",
         tagc_role_words((enum tagc_sum_role)role), got_calls, got, expected);
  }
  check_text(file.job);
  tagc_traits_free(&traits);
  job_free(file.job);
}

static void test_step_files(void) {
  const size_t count = fixtures_each_step(test_step_file);
  ok(count >= 27, "%zu recorded steps of all groups", count);
}

/* -- rounds of broadcasts: broadcasts/NAME.broadcasts -------------------------------------------------------------- */

/* A job that makes one round and no steps. */
static void test_broadcast_file(const char *path) {
  enum { RANKS = 3 };
  struct tagc_summary *job = job_make();
  struct tagc_sum_comm *comm = job_comm(job, RANKS, 0, 1);
  struct tagc_traits traits;
  double calls = 0, bytes = 0;
  char line[256], type[8];
  uint64_t count;
  FILE *file = fopen(path, "r");
  make_steps(job, RANKS);
  for (int i = 0; i < RANKS; i++)
    job->ranks[i].step_count = 0;
  comm->whole_steps = 0;
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "%*[a-z] %7s %" SCNu64, type, &count) == 2) {
      const bool is_bytes = strcmp(type, "u8") == 0;
      job_add(comm, JOB_BROADCAST, is_bytes ? JOB_UINT8 : JOB_BF16, 0, count, RANKS, false);
      calls++;
      bytes += (double)count * (is_bytes ? 1 : 2);
    }
  if (file)
    fclose(file);
  tagc_sum_roles(job);
  ok(tagc_traits_find(job, &traits) && !traits.steps && calls > 0, "%s: no steps", strrchr(path, '/') + 1);
  check_tables(&traits, calls, bytes);
  check_text(job);
  tagc_traits_free(&traits);
  job_free(job);
}

static void test_broadcast_files(void) {
  glob_t found;
  const size_t count = fixtures_glob("broadcasts/*.broadcasts", &found);
  for (size_t i = 0; i < count; i++)
    test_broadcast_file(found.gl_pathv[i]);
  ok(count >= 5, "%zu rounds of broadcasts", count);
  globfree(&found);
}

/* -- figures by hand ----------------------------------------------------------------------------------------------- */

/* The calls a step of a function and size class, and their messages together, by hand from the lines of the file. */
static const struct by_hand {
  const char *file;
  uint16_t function;
  int size_class;
  double calls, bytes;
} by_hand[] = {
  /* all-reduce 345408, 296640 x2, 296832 x2, 296256; 74112; 1; of 4 bytes each */
  {"real-ddp", JOB_AR, 20, 6, 7314432},
  {"real-ddp", JOB_AR, 18, 1, 296448},
  {"real-ddp", JOB_AR, 2, 1, 4},
  /* two ranks: all-gather 90752 x12, 128064; reduce-scatter 90752 x6, 128064; all-reduce 57 */
  {"real-fsdp2", JOB_AG, 19, 13, 9736704},
  {"real-fsdp2", JOB_RS, 19, 7, 5380608},
  {"real-fsdp2", JOB_AR, 7, 1, 228},
  {"real-zero1", JOB_AG, 22, 1, 7610880},
};

static void test_by_hand(void) {
  for (size_t i = 0; i < sizeof by_hand / sizeof *by_hand; i++) {
    const struct by_hand *hand = &by_hand[i];
    struct tagc_summary *job = job_make();
    struct tagc_traits traits;
    double calls = 0, bytes = 0;
    glob_t found;
    if (fixtures_find(hand->file, &found) != 1)
      abort();
    make_steps(job, job_fixture(job, found.gl_pathv[0], 0)->nranks);
    tagc_sum_roles(job);
    if (!tagc_traits_find(job, &traits))
      abort();
    for (size_t k = 0; k < traits.count; k++)
      if (traits.rows[k].function == hand->function && traits.rows[k].size_class == hand->size_class) {
        calls += traits.rows[k].calls / traits.each;
        bytes += traits.rows[k].message_bytes / traits.each;
      }
    ok(fabs(calls - hand->calls) < 1e-9 && fabs(bytes - hand->bytes) < 0.5,
       "%s: %g calls of 2^%d bytes or more, %.0f bytes; by hand %g, %.0f", hand->file, calls, hand->size_class, bytes,
       hand->calls, hand->bytes);
    tagc_traits_free(&traits);
    globfree(&found);
    job_free(job);
  }
}

/* 4 MB in 1 ms: algbw 4 GB/s; a message of 2 KB in 10 us. */
static void test_bandwidth(void) {
  struct tagc_summary *job = job_make();
  struct tagc_sum_comm *comm = job_comm(job, 4, 0, 1);
  make_steps(job, 4);
  job_calls(comm, JOB_AR, JOB_F32, JOB_SUM, 1000000, 2);
  job_calls(comm, JOB_AG, JOB_F32, 0, 1000000, 1);
  job_calls(comm, JOB_SEND, JOB_F16, 0, 1000, 3);
  comm->lines[0].whole.wire_calls = comm->lines[0].whole.calls;
  comm->lines[0].whole.wire_ns = comm->lines[0].whole.calls * 1000000;
  comm->lines[2].whole.alone_calls = 5; /* the others were in groups */
  comm->lines[2].whole.alone_ns = 50000;
  tagc_sum_roles(job);
  ok(tagc_busbw_factor(job, JOB_AR, 4) == 1.5 && tagc_busbw_factor(job, JOB_AG, 4) == 0.75 &&
       tagc_busbw_factor(job, JOB_RS, 4) == 0.75 && tagc_busbw_factor(job, JOB_A2A, 4) == 0.75 &&
       tagc_busbw_factor(job, JOB_BROADCAST, 4) == 1 && tagc_busbw_factor(job, JOB_SEND, 4) == 1,
     "busbw over algbw");
  ok(tagc_message_bytes(job, JOB_AG, 4, 10) == 40 && tagc_message_bytes(job, JOB_AR, 4, 10) == 10, "sizes of messages");
  char *text = print_traits(job);
  const char *sum = strstr(text, "\n  AllReduce "), *message = strstr(text, "\n  Send ");
  char calls[16] = "", size[16] = "";
  double us = 0, algbw = 0, busbw = 0;
  int read = sum ? sscanf(sum, " AllReduce 4 %15s MiB plain %15s %lf %lf %lf", size, calls, &us, &algbw, &busbw) : 0;
  ok(read == 5 && us == 1000 && algbw == 4 && busbw == 6 && strcmp(calls, "24") == 0,
     "an all-reduce: %s calls of %s MiB in %g us: %g GB/s, busbw %g", calls, size, us, algbw, busbw);
  read = message ? sscanf(message, " Send 4 %15s KiB plain %15s %lf %lf %lf", size, calls, &us, &algbw, &busbw) : 0;
  ok(read == 5 && us == 10 && algbw == 0.2 && busbw == 0.2 && strcmp(calls, "5") == 0,
     "a message: %s calls of %s KiB in %g us: %g GB/s", calls, size, us, algbw);
  ok(strstr(text,
            "\"function\":\"ncclAllReduce\",\"ranks\":4,\"size_class\":21,\"compressed\":false,\"by_thread\":false,"
            "\"small\":false,\"calls\":24,\"mean_bytes\":4000000,\"mean_ns\":1000000,\"algbw\":4,\"busbw\":6}") &&
       strstr(text, "\"mean_bytes\":2000,\"mean_ns\":10000,\"algbw\":0.2,\"busbw\":0.2}"),
     "the document has these times");
  free(text);
  job_free(job);
}

/* Two messages of 4 KiB in each of 24 groups, and one alone: of 16 us, the shortest 10. */
static void test_groups(void) {
  for (int blocking = 0; blocking < 2; blocking++) {
    struct tagc_summary *job = job_make();
    struct tagc_sum_comm *comm = job_comm(job, 4, 0, 1);
    struct tagc_sum_group groups[] = {
      {.sends = 1, .receives = 1, .size_class = 13, .whole = {24, 24 * 8192, 24 * 16000, 10000}, .all = {30, 1, 1, 1}},
      {.sends = 1, .receives = 1, .size_class = 12, .all = {5, 5 * 4100, 1000, 200}}}; /* in no whole step */
    make_steps(job, 4);
    for (int i = 0; i < 4; i++)
      job->ranks[i].blocking = blocking;
    job_calls(comm, JOB_SEND, JOB_F16, 0, 2048, 3);
    job_calls(comm, JOB_RECV, JOB_F16, 0, 2048, 2);
    comm->lines[0].whole.alone_calls = 12;
    comm->lines[0].whole.alone_ns = 12 * 7000;
    comm->groups = groups;
    comm->group_count = 2;
    tagc_sum_roles(job);
    char *text = print_traits(job);
    const char *row = strstr(text, " 4      1        1    8.0 KiB          24         16.0         10.0  small\n");
    ok((row != NULL) == blocking &&
         (strstr(text, "\"groups\":24,\"mean_bytes\":8192,\"mean_ns\":16000,\"least_ns\":10000}]") != NULL) == blocking,
       "groups of messages have %s", blocking ? "a time" : "none on a GPU");
    ok(blocking
         ? strstr(text, "\"untimed\":0}") && !strstr(text, "have no time")
         : strstr(text, "\"untimed\":60}") && strstr(text, "60 messages between two ranks have no time: on a GPU"),
       "and it says how many messages have none");
    free(text);
    comm->groups = NULL;
    job_free(job);
  }
}

int main(void) {
  test_fixtures();
  test_step_files();
  test_broadcast_files();
  test_by_hand();
  test_bandwidth();
  test_groups();
  return tap_done();
}
