/* SPDX-License-Identifier: BSD-3-Clause
 * Summaries of traces: sums, steps and slots of synthetic jobs, and messages about faulty files.
 */
#include <inttypes.h>
#include <unistd.h>

#include "interpose/tagc-report/judge/codecs.h"
#include "interpose/tagc-report/read/summary.h"
#include "tests/unit/tap.h"
#include "tests/unit/tagc-report/make.h"

static char folder[] = "/tmp/test_trace_summary.XXXXXX";

static const char *problem(const struct tagc_summary *s, const char *words) {
  for (size_t i = 0; s && i < s->problem_count; i++)
    if (strstr(s->problems[i], words))
      return s->problems[i];
  return NULL;
}

static void say_problems(const struct tagc_summary *s) {
  for (size_t i = 0; s && i < s->problem_count; i++)
    note("%s", s->problems[i]);
}

static const struct tagc_sum_line *line_of(const struct tagc_summary *s, const struct tagc_sum_comm *c,
                                           const char *function) {
  for (size_t i = 0; i < c->line_count; i++)
    if (tagc_sum_is(s, TAGC_TRACE_FUNCTIONS, c->lines[i].function, function))
      return &c->lines[i];
  return NULL;
}

/* The shards of all layers: the bytes that a gather or a reduce-scatter of a whole step sends to each other rank. */
static uint64_t step_bytes(const struct trace_job *job) {
  uint64_t sum = 0;
  for (unsigned i = 0; i < job->layers; i++)
    sum += trace_job_shard(job, i) * 4;
  return sum;
}

/* -- sums ---------------------------------------------------------------------------------------------------------- */

static void test_sums(void) {
  struct trace_job job = trace_job_usual(4, 10, 3);
  job.hosts = 2;
  char **paths = trace_job_write(&job, folder, "sums");
  struct tagc_summary *s = tagc_sum_read(paths, 4);
  say_problems(s);
  if (!ok(s && s->rank_count == 4 && s->comm_count == 1 && s->has_main && !s->problem_count,
          "four ranks, one communicator, no problem"))
    return;
  const struct tagc_sum_comm *c = &s->comms[0];
  const struct tagc_sum_line *allgathers = line_of(s, c, "ncclAllGather"), *sums = line_of(s, c, "ncclReduceScatter");
  const uint64_t bytes = step_bytes(&job), calls = 4 * 11;
  ok(c->nranks == 4 && c->hosts == 2 && c->member_count == 4 && c->members[3].as == 3 && c->identity == job.identity,
     "its members");
  ok(c->calls.calls == 10 * calls && c->calls.compressed == 0 && c->calls.failed == 0, "calls: %" PRIu64,
     c->calls.calls);
  ok(c->calls.raw_bytes == calls * (2 * bytes + 4 * bytes + 4), "bytes of buffers: %" PRIu64, c->calls.raw_bytes);
  ok(allgathers && allgathers->calls.calls == 6 * 44 && allgathers->per_step == 6 &&
       allgathers->calls.sent.inside + allgathers->calls.sent.between == 44 * 6 * bytes,
     "gathers send what rings send");
  ok(sums && sums->calls.calls == 3 * 44 && sums->per_step == 3 &&
       sums->calls.sent.inside + sums->calls.sent.between == 44 * 3 * bytes && sums->calls.wire_calls == 3 * 44 &&
       sums->whole.calls == 3 * 40,
     "and reduce-scatters, whose times are known");
  ok(sums && sums->least_count == job.shard && sums->most_count == job.shard + 2, "and the counts are known");
  ok(c->whole_steps == 40 && s->ranks[2].step_count == 10 && s->ranks[2].steps[9].whole &&
       s->ranks[2].steps[9].cycle == 10,
     "ten steps a rank");
  const struct tagc_sum_step *step = &s->ranks[1].steps[4];
  ok(step->calls == 10 && step->sent.inside + step->sent.between == 9 * bytes + 6 && step->raw_bytes == 6 * bytes + 4 &&
       step->host_ns == 10 * job.plain_ns,
     "what a step sends");
  ok(c->slot_count == 3 && c->slots[0].calls.calls == 40 && strcmp(c->slots[2].name, "embed") == 0 &&
       c->slots[2].kind == TAGC_TRACE_EMBED && c->slots[0].kind == TAGC_TRACE_MLP && c->slots[1].part[TAGC_TRACE_ATTN],
     "three slots, of all ranks");
  ok(c->reasons[MADE_OBSERVED] == 4 * 33, "why they were plain");
  ok(s->ranks[0].host_index == s->ranks[1].host_index && s->ranks[1].host_index != s->ranks[2].host_index, "two hosts");
  ok(s->ranks[3].blocking && s->ranks[3].number == 3 && s->ranks[3].pid == 1003 &&
       strcmp(s->ranks[3].program, "train") == 0,
     "the processes");
  tagc_sum_free(s);
  trace_paths_free(paths);
}

static void test_sides(void) {
  struct trace_job job = trace_job_usual(2, 22, 2);
  job.window = 5;
  job.on_gpu = true;
  char **paths = trace_job_write(&job, folder, "sides");
  struct tagc_summary *s = tagc_sum_read(paths, 2);
  size_t ab[3] = {0};
  for (size_t i = 0; s && i < s->ranks[0].step_count; i++)
    ab[s->ranks[0].steps[i].side]++;
  ok(s && ab[0] == 2 && ab[1] == 10 && ab[2] == 10, "steps know their sides");
  const struct tagc_sum_comm *c = &s->comms[0];
  ok(c->calls.compressed == 2 * 2 * 10 && c->reasons[MADE_SAID_YES] == 40 && strcmp(c->slots[0].codec, "q4") == 0 &&
       c->slots[0].voted,
     "slots know what came of the vote");
  ok(c->slots[0].point_count == 10 && c->slots[1].points[0].cycle == 8 &&
       fabs(c->slots[1].points[0].error - 0.11) < 1e-12,
     "and what their codec loses");
  ok(!s->ranks[0].blocking, "calls that only enqueue are told from those that wait");
  const struct tagc_sum_slot *slot = &c->slots[0];
  ok(slot->calls.sent.between < slot->calls.plain.between && slot->calls.encode_ns == 20 * (job.compressed_ns / 10),
     "less is sent");
  tagc_sum_free(s);
  trace_paths_free(paths);
}

/* All-gathers have their slots, forward and backward; compressed ones are identified by their codec. */
static void test_allgathers(void) {
  struct trace_job job = trace_job_usual(2, 20, 3);
  job.allgathers = job.compressed = true;
  char **paths = trace_job_write(&job, folder, "gathers");
  struct tagc_summary *s = tagc_sum_read(paths, 2);
  const struct tagc_sum_comm *c = &s->comms[0];
  const struct tagc_sum_slot *first = &c->allgathers[0], *last = &c->allgathers[5];
  ok(c->slot_count == 3 && c->allgather_count == 6, "three slots, six all-gathers");
  ok(strcmp(first->name, "embed") == 0 && first->of == 2 && !first->again && first->kind == TAGC_TRACE_EMBED &&
       strcmp(last->name, "embed") == 0 && last->of == 2 && last->again && first->count == job.shard &&
       strcmp(c->allgathers[3].name, "block.1") == 0,
     "each has the layer of its slot");
  ok(strcmp(first->codec, "bf16") == 0 && first->calls.calls == 2 * 20 && first->calls.compressed == 2 * 18,
     "its codec, and its calls");
  ok(first->choice_count == 1 && first->choices[0].calls.calls == 2 * 18 &&
       first->choices[0].calls.compressed == 2 * 18,
     "those that are compressed are its choice's");
  const uint64_t plain = tagc_sent_all(&c->slots[2].gathered.plain);
  ok(c->slots[2].gathered.calls == 2 * 40 && plain == 2 * 40 * job.shard * 4 &&
       tagc_sent_all(&c->slots[2].gathered.sent) * 40 == plain * 13,
     "and the slot knows what its parameters take");
  ok(c->allgather_reasons[MADE_SAID_YES] == 2 * 18 * 6 && c->allgather_reasons[MADE_WARMUP] == 2 * 2 * 6,
     "and why they go so");
  tagc_sum_free(s);
  trace_paths_free(paths);
}

/* A call has the codec of the vote before it. */
static void test_votes(void) {
  struct trace_job job = trace_job_usual(2, 20, 2);
  job.compressed = job.allgathers = true;
  job.revote = 11;
  char **paths = trace_job_write(&job, folder, "votes");
  struct tagc_summary *s = tagc_sum_read(paths, 2);
  const struct tagc_sum_comm *c = &s->comms[0];
  const struct tagc_sum_slot *slot = &c->slots[0];
  ok(c->vote_count == 2 && c->votes[0].cycle == 3 && c->votes[1].cycle == 11 && c->votes[1].vote == 2 &&
       strcmp(c->votes[1].why, "the error was 3%") == 0 && !*c->votes[0].why,
     "two votes, and why");
  ok(slot->choice_count == 2 && strcmp(slot->choices[0].codec, "q4") == 0 &&
       strcmp(slot->choices[1].codec, "q8") == 0 && strcmp(slot->codec, "q8") == 0,
     "a slot has two codecs, one after the other");
  ok(slot->choices[0].calls.calls == 2 * 8 && slot->choices[1].calls.calls == 2 * 10,
     "with the calls of each: %" PRIu64 " and %" PRIu64, slot->choices[0].calls.calls, slot->choices[1].calls.calls);
  ok(!tagc_sum_choice_of(slot, 2) && tagc_sum_choice_of(slot, 3) == &slot->choices[0] &&
       tagc_sum_choice_of(slot, 10) == &slot->choices[0] && tagc_sum_choice_of(slot, 11) == &slot->choices[1],
     "a cycle tells which");
  ok(c->allgathers[0].choice_count == 1, "what stays the same is one choice");
  struct tagc_codec_sum sums[TAGC_CODEC_SUMS];
  const size_t count = tagc_codecs_sum(s, sums);
  ok(count == 3 && strcmp(sums[0].codec, "q4") == 0 && sums[0].slots == 2 && sums[0].calls.calls == 2 * 2 * 8 &&
       strcmp(sums[1].codec, "q8") == 0 && sums[1].calls.calls == 2 * 2 * 10 &&
       strcmp(sums[2].function, "AllGather") == 0 && sums[2].slots == 4,
     "and codecs know theirs");
  tagc_sum_free(s);
  trace_paths_free(paths);
}

/* Hidden work takes no time of the step. */
static void test_hidden(void) {
  struct trace_job job = trace_job_usual(2, 20, 2);
  job.compressed = job.on_gpu = true;
  char **paths = trace_job_write(&job, folder, "hidden");
  struct tagc_summary *s = tagc_sum_read(paths, 2);
  const struct tagc_sum_calls open = s->ranks[0].calls;
  const uint64_t wire = s->ranks[0].steps[10].wire_ns;
  tagc_sum_free(s);
  trace_paths_free(paths);
  job.hidden_percent = 80;
  paths = trace_job_write(&job, folder, "hidden");
  s = tagc_sum_read(paths, 2);
  const struct tagc_sum_calls *c = &s->ranks[0].calls;
  ok(open.hidden_ns == 0 && c->encode_ns == open.encode_ns && c->hidden_ns == (c->encode_ns + c->decode_ns) * 4 / 5,
     "80%% of encode and decode are hidden");
  ok(fabs(tagc_hidden_share(c) - 0.8) < 1e-12 && isnan(tagc_hidden_share(&(struct tagc_sum_calls){0})), "as a share");
  ok(c->wire_ns == open.wire_ns + c->hidden_ns && s->ranks[0].steps[10].wire_ns == wire + 2 * 105000 * 4 / 5,
     "the transfer takes as much longer, of a step that is not longer for it");
  const struct tagc_sum_calls all = *c;
  tagc_sum_free(s);
  trace_paths_free(paths);
  job.often_unknown = true;
  paths = trace_job_write(&job, folder, "hidden");
  s = tagc_sum_read(paths, 2);
  c = &s->ranks[0].calls;
  ok(c->compressed == all.compressed && c->packed_wire_calls > 0 && c->packed_wire_calls < all.packed_wire_calls &&
       c->wire_calls - c->packed_wire_calls == all.wire_calls - all.packed_wire_calls &&
       fabs(tagc_hidden_share(c) - 0.8) < 1e-12,
     "calls that do not know what was hidden are in no mean and no share, and are not taken for plain ones");
  ok(c->packed_wire_ns * all.packed_wire_calls == all.packed_wire_ns * c->packed_wire_calls,
     "nor in that of the transfer");
  tagc_sum_free(s);
  trace_paths_free(paths);
}

/* Slots of data parallel programs are all-reduces of whole layers. */
static void test_all_reduces(void) {
  struct trace_job job = trace_job_usual(4, 20, 3);
  job.compressed = job.all_reduces = true;
  char **paths = trace_job_write(&job, folder, "reduces");
  struct tagc_summary *s = tagc_sum_read(paths, 4);
  const struct tagc_sum_comm *c = &s->comms[0];
  struct tagc_codec_sum sums[TAGC_CODEC_SUMS];
  ok(c->slot_count == 3 && c->slots[0].all_reduce && c->all_reduces && c->slots[2].count == 4 * job.shard,
     "slots that are all-reduces");
  ok(c->reasons[MADE_SAID_YES] == 4 * 3 * 18 && c->slots[0].calls.compressed == 4 * 18, "why they went so");
  ok(tagc_codecs_sum(s, sums) == 1 && strcmp(sums[0].function, "AllReduce") == 0, "and what with");
  tagc_sum_free(s);
  trace_paths_free(paths);
}

/* Steps of 100 ms with a call of 60 ms on each of two streams of a GPU; the last step has 30 ms more on the second. */
static void test_streams(void) {
  struct trace t = {0};
  struct tagc_trace_process process = {.pid = 1, .realtime_ns = 5};
  char path[64], *const paths[] = {path};
  trace_process(&t, &process, "h", "p", "0.1");
  trace_names(&t);
  trace_put(&t, COMM, 1, .identity = 9, .rank = 0, .nranks = 2);
  for (uint64_t cycle = 1; cycle <= 10; cycle++) {
    const uint64_t began = cycle * 100000000;
    for (unsigned i = 0; i < (cycle == 10 ? 3 : 2); i++) {
      trace_put(&t, CALL, 1, .number = ++t.calls, .began_ns = began + 1000000 * i, .host_ns = 5000, .raw_bytes = 64,
                .lock = 1, .cycle = cycle, .slot = -1, .stream = i ? 7 : 3);
      trace_put(&t, TIMES, 1, .call = t.calls, .exchange_ns = i < 2 ? 60000000 : 30000000, .by_device = 1);
    }
    trace_put(&t, CYCLE, 1, .began_ns = began, .ended_ns = began + 100000000, .cycle = cycle, .lock = 1);
  }
  trace_put(&t, END, 0, .calls = t.calls);
  snprintf(path, sizeof path, "%s/streams.trace", folder);
  trace_write(&t, path);
  trace_free(&t);
  struct tagc_summary *s = tagc_sum_read(paths, 1);
  const struct tagc_sum_step *steps = s && s->rank_count ? s->ranks[0].steps : NULL;
  ok(steps && steps[4].wire_ns == 61000000, "calls on two streams at once are under way once");
  ok(steps && steps[9].wire_ns == 91000000, "and those of one stream one behind the other");
  tagc_sum_free(s);
  unlink(path);
}

/* Steps of 100 ms with two plain calls, of which the stream shows 60 ms each, one behind the other. NCCL's kernels ran
 * for 20 ms each: at once in even steps, and in the fifth the second one is unknown. A third call has one rank alone.
 */
static void test_profiles(void) {
  struct trace t = {0};
  struct tagc_trace_process process = {.pid = 1, .realtime_ns = 5};
  char path[64], *const paths[] = {path};
  trace_process(&t, &process, "h", "p", "0.1");
  trace_names(&t);
  trace_put(&t, COMM, 1, .identity = 9, .rank = 0, .nranks = 2);
  trace_put(&t, COMM, 2, .identity = 8, .rank = 0, .nranks = 1);
  for (uint64_t cycle = 1; cycle <= 10; cycle++) {
    const uint64_t began = cycle * 100000000, second = began + (cycle % 2 ? 30000000 : 10000000);
    const uint64_t first_call = t.calls + 1, second_call = t.calls + 2;
    if (cycle == 3) /* before its call, too */
      trace_put(&t, PROFILE, 1, .call = first_call, .posted_ns = began, .kernel_began_ns = began + 5000000,
                .kernel_ns = 20000000);
    for (unsigned i = 0; i < 3; i++)
      trace_put(&t, CALL, i < 2 ? 1 : 2, .number = ++t.calls, .began_ns = began + 1000 * i, .host_ns = 5000,
                .raw_bytes = 64, .count = 16, .lock = i < 2, .cycle = cycle, .slot = -1, .stream = 3);
    trace_put(&t, TIMES, 1, .call = first_call, .exchange_ns = 60000000, .by_device = 1);
    if (cycle != 3)
      trace_put(&t, PROFILE, 1, .call = first_call, .posted_ns = began, .kernel_began_ns = began + 5000000,
                .kernel_ns = 20000000, .sent_bytes = 70, .sending_ns = 4000000, .send_peer_ns = 5);
    if (cycle != 5)
      trace_put(&t, PROFILE, 1, .call = second_call, .posted_ns = began, .kernel_began_ns = second,
                .kernel_ns = 20000000);
    if (cycle == 9) /* another message of the call */
      trace_put(&t, PROFILE, 1, .call = second_call, .posted_ns = began, .kernel_began_ns = second - 2000000,
                .kernel_ns = 7000000);
    if (cycle == 7) /* the rest of an operation: its kernel ended later, and it sent more */
      trace_put(&t, PROFILE, 1, .call = second_call, .posted_ns = began, .kernel_began_ns = second,
                .kernel_ns = 25000000, .sent_bytes = 30);
    trace_put(&t, TIMES, 1, .call = second_call, .exchange_ns = 60000000, .by_device = 1);
    trace_put(&t, CYCLE, 1, .began_ns = began, .ended_ns = began + 100000000, .cycle = cycle, .lock = 1);
  }
  trace_put(&t, PROFILE, 0, .posted_ns = 210000000, .kernel_began_ns = 210000000, .kernel_ns = 1, .sent_bytes = 9);
  trace_put(&t, PROFILE, 1, .call = 1, .kernel_ns = UINT64_MAX);
  trace_put(&t, PROFILE, 1, .call = 1, .sent_bytes = UINT64_MAX);
  trace_put(&t, END, 0, .calls = t.calls);
  snprintf(path, sizeof path, "%s/profiles.trace", folder);
  trace_write(&t, path);
  trace_free(&t);
  struct tagc_summary *s = tagc_sum_read(paths, 1);
  const struct tagc_sum_step *steps = s && s->rank_count ? s->ranks[0].steps : NULL;
  if (!ok(steps && s->ranks[0].step_count == 10, "a trace with profiles is read"))
    return;
  ok(steps[0].wire_ns == 40000000 && steps[1].wire_ns == 25000000 && steps[2].wire_ns == 40000000,
     "the kernels' times replace those of the stream, whichever comes first");
  ok(tagc_sum_step_exact(&steps[0]) && tagc_sum_step_exact(&steps[2]) && steps[0].kernels_due == 2,
     "a step with all of them is exact; a communicator of one rank has none");
  ok(!tagc_sum_step_exact(&steps[4]) && steps[4].kernels == 1, "one without is not");
  ok(steps[6].wire_ns == 45000000 && steps[6].network.bytes == 100, "several records of an operation add up");
  ok(steps[8].wire_ns == 42000000 && tagc_sum_step_exact(&steps[8]), "and messages of a call are one after another");
  ok(steps[0].network.bytes == 70 && steps[0].network.sending_ns == 4000000 && steps[0].network.peer_ns == 5 &&
       steps[1].network.bytes == 79,
     "the network's bytes, also those that are no call's");
  ok(s->ranks[0].calls.wire_calls == 20 &&
       s->ranks[0].calls.wire_ns == UINT64_C(19) * 20000000 + 60000000 + 5000000 + 2000000,
     "the sum over calls has each call once: %d in %d ms", (int)s->ranks[0].calls.wire_calls,
     (int)(s->ranks[0].calls.wire_ns / 1000000));
  ok(problem(s, "make no sense, and are left out: 2") != NULL, "absurd profiles are left out");
  tagc_sum_free(s);
  unlink(path);
}

/* -- steps that are no measurement --------------------------------------------------------------------------------- */

static size_t whole_steps(struct trace *t, const char *path, struct tagc_summary **s) {
  size_t whole = 0;
  trace_write(t, path);
  trace_free(t);
  *s = tagc_sum_read((char *const[]){(char *)path}, 1);
  for (size_t i = 0; *s && (*s)->rank_count && i < (*s)->ranks[0].step_count; i++)
    whole += (*s)->ranks[0].steps[i].whole;
  return whole;
}

static void test_whole(void) {
  struct trace_job job = trace_job_usual(1, 12, 2);
  struct trace t = {0};
  struct tagc_summary *s;
  char path[64];
  snprintf(path, sizeof path, "%s/whole.trace", folder);
  job.disturbed = 4;
  trace_job_rank(&t, &job, 0);
  size_t whole = whole_steps(&t, path, &s);
  ok(whole == 9 && s->ranks[0].step_count == 12, "disturbed steps are no measurement: %zu of 12 are", whole);
  tagc_sum_free(s);
  job.disturbed = 0;
  trace_job_rank(&t, &job, 0);
  for (size_t at = sizeof(struct tagc_trace_head) + sizeof(struct tagc_trace_chunk), calls = 0; at < t.size;) {
    struct tagc_trace_record *record = (void *)(t.bytes + at);
    calls += record->kind == TAGC_TRACE_CALL;
    if (record->kind == TAGC_TRACE_CALL && calls == 40)
      record->kind = 200; /* lost: 7 in the warm-up, 33 of others; in the fifth step */
    at += record->bytes;
  }
  trace_sum(&t, sizeof(struct tagc_trace_head));
  whole = whole_steps(&t, path, &s);
  ok(whole == 11 && !s->ranks[0].steps[4].whole, "nor are those of which a call is missing");
  ok(problem(s, "kinds that are not known here: 1 ") != NULL, "%s", s->problem_count ? s->problems[0] : "");
  tagc_sum_free(s);
  unlink(path);
}

/* -- files that are not as they should be -------------------------------------------------------------------------- */

static void test_missing(void) {
  struct trace_job job = trace_job_usual(8, 5, 2);
  char **paths = trace_job_write(&job, folder, "missing");
  char *const some[] = {paths[6], paths[1], paths[2], paths[3]};
  struct tagc_summary *s = tagc_sum_read(some, 4);
  say_problems(s);
  ok(s && s->rank_count == 4 && s->ranks[0].number == 1 && s->ranks[3].number == 6 &&
       problem(s, "no trace of ranks 0, 4-5, 7 of 8"),
     "ranks without a trace are named, and the others have their numbers");
  tagc_sum_free(s);
  char *const twice[] = {paths[0], paths[1], paths[0]};
  s = tagc_sum_read(twice, 3);
  ok(s && s->rank_count == 2 && problem(s, "is another copy of") && s->comms[0].calls.calls == 2 * 42,
     "the same file twice counts once");
  tagc_sum_free(s);
  trace_paths_free(paths);
}

static void test_other_jobs(void) {
  struct trace_job job = trace_job_usual(2, 5, 2), other = trace_job_usual(4, 5, 2);
  other.identity = 0x777;
  other.first_pid = 50;
  char **a = trace_job_write(&job, folder, "a"), **b = trace_job_write(&other, folder, "b");
  char *all[] = {a[0], a[1], b[0], b[1], b[2], b[3]};
  struct tagc_summary *s = tagc_sum_read(all, 6);
  say_problems(s);
  ok(s && s->rank_count == 4 && s->comm_count == 1 && s->comms[0].nranks == 4 &&
       problem(s, "2 of the 6 traces are of other jobs"),
     "of several jobs the larger one is told");
  tagc_sum_free(s);
  trace_paths_free(a);
  trace_paths_free(b);
}

static void test_unknown_identity(void) {
  struct trace_job job = trace_job_usual(3, 5, 2);
  job.identity = 0;
  char **paths = trace_job_write(&job, folder, "nobody");
  struct tagc_summary *s = tagc_sum_read(paths, 3);
  ok(s && s->comm_count == 1 && s->comms[0].member_count == 3 && !s->problem_count,
     "communicators without an identity are told by their ranks");
  tagc_sum_free(s);
  char *const twins[] = {paths[0], paths[1]};
  struct trace t = {0};
  trace_job_rank(&t, &job, 1);
  ((struct tagc_trace_process *)(void *)(t.bytes + 56))->pid = 9;
  trace_sum(&t, sizeof(struct tagc_trace_head));
  trace_write(&t, paths[0]);
  s = tagc_sum_read(twins, 2);
  ok(s && s->comm_count == 2 && s->rank_count == 2, "two that have the same rank are two");
  tagc_sum_free(s);
  trace_free(&t);
  trace_paths_free(paths);
}

static void test_versions(void) {
  struct trace t[2] = {{0}, {0}};
  char path[2][64], *const paths[] = {path[0], path[1]};
  for (int i = 0; i < 2; i++) {
    struct tagc_trace_process process = {.pid = i + 1, .realtime_ns = 5, .nccl_version = 22707};
    trace_process(&t[i], &process, "h", "p", i ? "0.2" : "0.1");
    trace_name(&t[i], TAGC_TRACE_FUNCTIONS, i ? 0 : 5, "ncclReduceScatter");
    trace_name(&t[i], TAGC_TRACE_FUNCTIONS, i ? 5 : 0, "ncclAllGather");
    trace_name(&t[i], TAGC_TRACE_FUNCTIONS, 300, "ncclTooMuch");
    trace_put(&t[i], COMM, 1, .identity = 7, .rank = i, .nranks = 2);
    for (int j = 0; j < 10; j++)
      trace_put(&t[i], CALL, 1, .number = (uint64_t)j + 1, .function = i ? 0 : 5, .raw_bytes = 64, .slot = -1);
    trace_put(&t[i], END, 0, .calls = 10);
    snprintf(path[i], sizeof path[i], "%s/version%d.trace", folder, i);
    trace_write(&t[i], path[i]);
    trace_free(&t[i]);
  }
  struct tagc_summary *s = tagc_sum_read(paths, 2);
  say_problems(s);
  const struct tagc_sum_line *line = s && s->comm_count ? line_of(s, &s->comms[0], "ncclReduceScatter") : NULL;
  ok(line && line->calls.calls == 20 && s->comms[0].line_count == 1,
     "codes that mean other things in another version are told by their names");
  ok(problem(s, "ranks differ in the version of the library: 0.1 on rank 0, 0.2 on rank 1") != NULL,
     "and the versions are said");
  tagc_sum_free(s);
  for (int i = 0; i < 2; i++)
    unlink(path[i]);
}

static void test_clocks(void) {
  struct trace_job job = trace_job_usual(2, 5, 2);
  job.clock_skew_ns = -3500000000;
  char **paths = trace_job_write(&job, folder, "clocks");
  struct tagc_summary *s = tagc_sum_read(paths, 2);
  ok(s && problem(s, "clocks of hosts node0 and node1 differ by 3.5 s") && s->comms[0].whole_steps == 10,
     "hosts whose clocks differ");
  tagc_sum_free(s);
  trace_paths_free(paths);
}

static void test_absurd(void) {
  struct trace_job job = trace_job_usual(1, 6, 2);
  struct trace t = {0};
  struct tagc_summary *s;
  char path[64];
  snprintf(path, sizeof path, "%s/absurd.trace", folder);
  trace_job_rank(&t, &job, 0);
  trace_put(&t, CALL, 1, .number = 1, .raw_bytes = UINT64_MAX, .slot = -1);
  trace_put(&t, CALL, 1, .number = 2, .host_ns = UINT64_MAX, .slot = -1);
  trace_put(&t, CALL, 1, .number = 3, .slot = INT32_MIN);
  trace_put(&t, CALL, 1, .number = 4, .count = 1000000000000000000, .slot = -1);
  trace_put(&t, COMM, 2, .nranks = INT32_MAX, .rank = 5);
  trace_put(&t, COMM, 3, .nranks = 2, .rank = 2);
  trace_put(&t, CYCLE, 1, .cycle = 3, .lock = 1, .began_ns = 900000000000, .ended_ns = 900000000001);
  trace_put(&t, CYCLE, 1, .cycle = 9, .lock = 1, .began_ns = 7, .ended_ns = 5);
  trace_put(&t, STATE, 1, .cycle = 1, .lock = 1, .slot = UINT32_MAX, .error = NAN);
  trace_put(&t, TIMES, 1, .call = 3, .exchange_ns = UINT64_MAX);
  struct tagc_trace_slot slot = {.lock = 1, .slot = 1, .count = UINT64_MAX};
  trace_slot(&t, 1, &slot, "x", "y");
  trace_put(&t, END, 0, .calls = 5);
  size_t whole = whole_steps(&t, path, &s);
  say_problems(s);
  ok(s && s->comms[0].calls.calls == 7 * 7 && s->comms[0].calls.raw_bytes < 1 << 30, "absurd calls are in no sum");
  ok(problem(s, "make no sense, and are left out: 10") != NULL, "they are counted");
  ok(problem(s, "and are left out: 1") != NULL, "and so are cycles that go backwards");
  ok(whole == 6, "the steps stand");
  tagc_sum_free(s);
  unlink(path);
}

static void test_bad_files(void) {
  char path[3][64];
  struct trace_job job = trace_job_usual(2, 40, 10);
  char **paths = trace_job_write(&job, folder, "bad");
  snprintf(path[0], sizeof path[0], "%s/empty.trace", folder);
  snprintf(path[1], sizeof path[1], "%s/none.trace", folder);
  snprintf(path[2], sizeof path[2], "%s/text.trace", folder);
  fclose(fopen(path[0], "w"));
  FILE *text = fopen(path[2], "w");
  fputs("this is no trace, but it is long enough to be one\n", text);
  fclose(text);
  if (truncate(paths[1], 100000) != 0)
    abort();
  char *const all[] = {path[0], path[1], path[2], paths[0], paths[1]};
  struct tagc_summary *s = tagc_sum_read(all, 5);
  say_problems(s);
  ok(s && s->rank_count == 2 && s->problem_count == 4, "what can be read is read");
  ok(problem(s, "empty") && problem(s, "No such file") && problem(s, "no trace:") &&
       problem(s, "ends early, inside a chunk"),
     "and the rest is said");
  tagc_sum_free(s);
  s = tagc_sum_read(all, 3);
  ok(s && !s->rank_count && s->problem_count == 3 && !s->comm_count && !s->has_main,
     "nothing but files that cannot be read");
  tagc_sum_free(s);
  unlink(path[0]);
  unlink(path[2]);
  trace_paths_free(paths);
}

/* Every byte of a trace is damaged in turn: something is read, or reported. */
static void test_damage(void) {
  struct trace_job job = trace_job_usual(2, 3, 1);
  char **paths = trace_job_write(&job, folder, "damage");
  struct trace t = {0};
  unsigned silent = 0, lost = 0, tried = 0;
  trace_job_rank(&t, &job, 1);
  for (size_t i = 0; i < t.size; i += 13, tried++) {
    t.bytes[i] ^= 0xa5;
    trace_write(&t, paths[1]);
    t.bytes[i] ^= 0xa5;
    struct tagc_summary *s = tagc_sum_read(paths, 2);
    silent += !s || !s->problem_count;
    lost += !s || !s->rank_count || s->ranks[0].step_count != 3;
    tagc_sum_free(s);
  }
  ok(tried > 100 && !silent && !lost, "of %u damaged traces all are said to be, and the other rank is there", tried);
  trace_free(&t);
  trace_paths_free(paths);
}

/* -- several communicators ----------------------------------------------------------------------------------------- */

/* Two ranks with a pipeline of two and messages both ways, without a cycle. */
static void test_ways(void) {
  struct trace t[3] = {{0}, {0}, {0}};
  char path[3][64], *const paths[] = {path[0], path[1], path[2]};
  for (int i = 0; i < 3; i++) {
    struct tagc_trace_process process = {.pid = i + 1, .realtime_ns = 5};
    trace_process(&t[i], &process, "h", "p", "0.1");
    trace_names(&t[i]);
    trace_put(&t[i], COMM, 4, .identity = 9, .rank = i, .nranks = 3);
    for (int peer = 0; peer < 3; peer++)
      if (peer != i)
        trace_put(&t[i], CALL, 4, .number = (uint64_t)peer + 1, .function = MADE_SEND, .raw_bytes = 64, .between = 64,
                  .slot = -1, .peer = peer);
    trace_put(&t[i], END, 0, .calls = 2);
    snprintf(path[i], sizeof path[i], "%s/ways%d.trace", folder, i);
    trace_write(&t[i], path[i]);
    trace_free(&t[i]);
  }
  struct tagc_summary *s = tagc_sum_read(paths, 3);
  const uint64_t *sends = s && s->comm_count ? s->comms[0].sends : (uint64_t[TAGC_WAYS]){0};
  ok(s && !s->has_main && sends[TAGC_WAY_ON] == 2 && sends[TAGC_WAY_BACK] == 2 && sends[TAGC_WAY_ROUND_ON] == 1 &&
       sends[TAGC_WAY_ROUND_BACK] == 1 && sends[TAGC_WAY_ACROSS] == 0,
     "where messages go");
  ok(s && s->comm_count && isnan(s->comms[0].lines[0].per_step), "without steps nothing is told of a step");
  tagc_sum_free(s);
  for (int i = 0; i < 3; i++)
    unlink(path[i]);
}

static size_t largest_block;

void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);

void *__wrap_realloc(void *block, size_t size) {
  largest_block = size > largest_block ? size : largest_block;
  return __real_realloc(block, size);
}

/* Messages of tokens to experts: each has a count of its own. */
static void test_many_counts(void) {
  enum { STEPS = 20, MESSAGES = 2000 };
  struct trace t = {0};
  struct tagc_trace_process process = {.pid = 1, .realtime_ns = 5};
  char path[64], *const paths[] = {path};
  uint64_t bytes[STEPS] = {0}, all = 0, sent = 0, sends = 0;
  trace_process(&t, &process, "h", "p", "0.1");
  trace_names(&t);
  trace_put(&t, COMM, 1, .identity = 9, .rank = 0, .nranks = 8);
  for (uint64_t cycle = 1; cycle <= STEPS; cycle++) {
    const uint64_t began = cycle * 100000000;
    for (unsigned i = 0; i < MESSAGES; i++) {
      const uint64_t count = (uint64_t)1001 + t.calls++, size = 4 * count;
      const bool goes = i % 2;
      trace_put(&t, CALL, 1, .number = t.calls, .began_ns = began + 1000 * i, .host_ns = 500, .lock = 1, .cycle = cycle,
                .function = goes ? MADE_SEND : MADE_RECV, .peer = 1 + (int)(i / 2 % 7), .slot = -1, .count = count,
                .raw_bytes = size, .inside = goes && i % 4 == 1 ? size : 0, .between = goes && i % 4 == 3 ? size : 0,
                .plain_inside = goes && i % 4 == 1 ? size : 0, .plain_between = goes && i % 4 == 3 ? size : 0);
      all += size;
      sends += goes;
      sent += goes ? size : 0;
      bytes[cycle - 1] += goes && i % 4 == 3 ? size : 0;
    }
    trace_put(&t, CYCLE, 1, .began_ns = began, .ended_ns = began + 100000000, .cycle = cycle, .lock = 1);
  }
  trace_put(&t, END, 0, .calls = t.calls);
  snprintf(path, sizeof path, "%s/counts.trace", folder);
  trace_write(&t, path);
  largest_block = 0;
  struct tagc_summary *s = tagc_sum_read(paths, 1);
  ok(largest_block < 120 * t.calls, "messages with %" PRIu64 " counts take at most %zu bytes", t.calls, largest_block);
  if (ok(s && s->comm_count == 1 && s->rank_count == 1 && s->ranks[0].step_count == STEPS, "they are read")) {
    const struct tagc_sum_comm *c = &s->comms[0];
    bool right = true;
    for (size_t i = 0; i < STEPS; i++)
      right = right && s->ranks[0].steps[i].sent.between == bytes[i] && s->ranks[0].steps[i].plain.between == bytes[i];
    ok(right, "the bytes of each step are exact");
    ok(c->calls.raw_bytes == all && tagc_sent_all(&c->calls.sent) == sent && c->calls.calls == t.calls, "so are all");
    uint64_t in_lines = 0, whole = 0, ways = 0, least = UINT64_MAX, most = 0;
    for (size_t i = 0; i < c->line_count; i++) {
      const struct tagc_sum_line *line = &c->lines[i];
      in_lines += line->calls.raw_bytes;
      whole += tagc_sent_all(&line->whole.sent);
      least = line->least_count < least ? line->least_count : least;
      most = line->most_count > most ? line->most_count : most;
    }
    for (size_t i = 0; i < TAGC_WAYS; i++)
      ways += c->sends[i];
    ok(in_lines == all && whole == sent && least == 1001 && most == 1000 + t.calls && ways == sends,
       "and those of %zu lines: counts from %" PRIu64 " to %" PRIu64, c->line_count, least, most);
  }
  tagc_sum_free(s);
  trace_free(&t);
  unlink(path);
}

/* Many samples are thinned out; cycles stay in order and reach from the first to the last. */
static void test_points(void) {
  struct trace_job job = trace_job_usual(2, 3000, 1);
  job.compressed = true;
  job.times = false;
  char **paths = trace_job_write(&job, folder, "points");
  struct tagc_summary *s = tagc_sum_read(paths, 2);
  const struct tagc_sum_slot *slot = s && s->comm_count ? &s->comms[0].slots[0] : NULL;
  bool ordered = slot && slot->point_count > 100 && slot->point_count <= TAGC_SUM_POINTS;
  for (size_t i = 1; ordered && i < slot->point_count; i++)
    ordered = slot->points[i].cycle > slot->points[i - 1].cycle;
  ok(ordered && slot->points[0].cycle == 3 && slot->points[slot->point_count - 1].cycle > 2900,
     "samples are thinned out evenly");
  ok(ordered && fabs(slot->points[1].residual - 1.0 / (double)slot->points[1].cycle) < 1e-12,
     "and stay what they were");
  tagc_sum_free(s);
  trace_paths_free(paths);
}

int main(void) {
  if (!mkdtemp(folder))
    return 1;
  test_sums();
  test_sides();
  test_allgathers();
  test_votes();
  test_hidden();
  test_all_reduces();
  test_streams();
  test_profiles();
  test_whole();
  test_missing();
  test_other_jobs();
  test_unknown_identity();
  test_versions();
  test_clocks();
  test_absurd();
  test_bad_files();
  test_damage();
  test_ways();
  test_many_counts();
  test_points();
  ok(rmdir(folder) == 0, "nothing is left");
  return tap_done();
}
