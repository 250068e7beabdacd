/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/vote/changes.h"

#include <stdlib.h>

#include "env/log.h"
#include "interpose/calls/calls.h"
#include "interpose/vote/tune_allgathers.h"

/* ---- places ------------------------------------------------------------------------------------------------------ */

static size_t count_allgathers(const struct tagc_comm *comm) {
  size_t count;
  tagc_cycle_allgathers(comm->observed.cycle, &count);
  return count;
}

static size_t count_places(const struct tagc_comm *comm) { return count_allgathers(comm) + comm->slot_count; }

size_t tagc_changes_words(const struct tagc_comm *comm) {
  if (!comm->changes.watched)
    return 0;
  return tagc_comm_compares_ranks(comm) ? TAGC_MESSAGE_VALUE * TAGC_CHANGE_VALUES * comm->slot_count
                                        : TAGC_MESSAGE_CHANGE * count_places(comm);
}

static void *sample_at(const struct tagc_comm *comm, size_t place, uint64_t cycle) {
  return (char *)comm->changes.samples + (2 * place + cycle % 2) * TAGC_CHANGE_BYTES;
}

/* The elements that a rank sends. */
static size_t sent_count(const struct tagc_comm *comm, enum tagc_collective collective, size_t count) {
  return collective == TAGC_COLL_REDUCE_SCATTER ? count * (size_t)comm->nranks : count;
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

/* Is the call one of a watched cycle, shortly before its vote? Sets its place. With the lock. */
static bool is_change_due(const struct tagc_comm *comm, const struct tagc_call *call, size_t *place) {
  if (!comm->changes.places || !tagc_comm_agreed(comm) || !comm->device ||
      call->lock_number != comm->observed.lock_number || !tagc_plan_samples_changes(comm->vote.cycle, call->cycle))
    return false;
  *place = call->slot >= 0 ? count_allgathers(comm) + (size_t)call->slot : (size_t)call->allgather;
  return call->count > 0 && call->send;
}

static bool is_set_up(const struct tagc_device *device) {
  return device->host_reads || tagc_device_cuda_is_set_up(device);
}

/* A reduction sets its device up; an all-gather, which never waits, is sampled from then on. */
static bool sampled_place(const struct tagc_call *call, size_t *place) {
  struct tagc_comm *comm = call->comm;
  if (!comm || (call->slot < 0 && call->allgather < 0) || !comm->changes.watched || comm->changes.judged)
    return false;
  pthread_mutex_lock(&comm->lock);
  const bool due = is_change_due(comm, call, place) && (call->slot >= 0 || is_set_up(comm->device));
  pthread_mutex_unlock(&comm->lock);
  return due;
}

bool tagc_changes_waits(const struct tagc_call *call) {
  size_t place;
  return call->slot >= 0 && sampled_place(call, &place) && !is_set_up(call->comm->device);
}

/* Calls come on several streams, and the vote on one of them: the fence goes from sample to sample. NCCL keeps the same
 * order between the calls themselves. */
static bool take_sample(const struct tagc_call *call, size_t place) {
  struct tagc_comm *comm = call->comm;
  const struct tagc_device *device = comm->device;
  const size_t element = tagc_call_type_size(call->type);
  const struct tagc_change_rows rows =
    tagc_change_rows(sent_count(comm, tagc_call_collective(call), call->count) * element, element);
  if (!device->takes_stream(device, call->stream) || !device->reaches(device, call->send) ||
      (!comm->sync.fence && !(comm->sync.fence = device->fence_make(device))) ||
      !device->fence_wait(device, comm->sync.fence, call->stream))
    return false;
  if (!comm->changes.samples)
    comm->changes.samples = device->alloc(device, 2 * count_places(comm) * TAGC_CHANGE_BYTES, call->stream);
  const bool good = comm->changes.samples && device->copy(device, sample_at(comm, place, call->cycle), rows.width,
                                                          call->send, rows.pitch, rows.width, rows.rows, call->stream);
  return device->fence_set(device, comm->sync.fence, call->stream) && good;
}

void tagc_changes_sample(const struct tagc_call *call) {
  struct tagc_comm *comm = call->comm;
  size_t place;
  if (!sampled_place(call, &place) || !tagc_comms_enter(&comm, 1))
    return;
  bool good = tagc_comms_enter_driver(&comm, 1) && take_sample(call, place);
  good = tagc_comms_leave_driver(&comm, 1) && good;
  tagc_comms_leave(&comm, 1);
  pthread_mutex_lock(&comm->lock);
  if (comm->changes.places && call->lock_number == comm->observed.lock_number)
    comm->changes.places[place].cycles[call->cycle % 2] = good ? call->cycle : 0;
  pthread_mutex_unlock(&comm->lock);
}

/* ---- changes ----------------------------------------------------------------------------------------------------- */

/* The signature of a place. */
static struct tagc_signature signature_at(const struct tagc_comm *comm, size_t place) {
  size_t allgathers, slots;
  const struct tagc_allgather_info *gathered = tagc_cycle_allgathers(comm->observed.cycle, &allgathers);
  const struct tagc_slot_info *reduced = tagc_cycle_slots(comm->observed.cycle, &slots);
  return place < allgathers ? gathered[place].signature : reduced[place - allgathers].signature;
}

/* Sets the change from one sample to the other, if they are of two cycles in a row, and values of the newest one.
 * `samples`: NULL if they cannot be read. */
static void compare_samples(struct tagc_comm *comm, size_t place, const char *samples) {
  struct tagc_change_place *p = &comm->changes.places[place];
  const uint64_t *cycles = p->cycles;
  const struct tagc_signature s = signature_at(comm, place);
  enum tagc_dtype dtype;
  p->change = TAGC_CHANGE_UNKNOWN;
  tagc_change_pick(NULL, 0, TAGC_FLOAT32, p->values);
  if (!samples || (!cycles[0] && !cycles[1]) || !tagc_comm_dtype((ncclDataType_t)s.dtype, &dtype))
    return;
  const size_t element = tagc_dtype_size(dtype);
  const struct tagc_change_rows rows = tagc_change_rows(sent_count(comm, s.collective, s.count) * element, element);
  const size_t n = rows.rows * rows.width / element;
  const char *both = samples + 2 * place * TAGC_CHANGE_BYTES;
  const char *before = both + (cycles[0] > cycles[1] ? TAGC_CHANGE_BYTES : 0);
  const char *after = both + (cycles[0] > cycles[1] ? 0 : TAGC_CHANGE_BYTES);
  tagc_change_pick(after, n, dtype, p->values);
  if (!cycles[0] || !cycles[1] || cycles[0] + 1 - cycles[1] > 2)
    return;
  tagc_tune_allgather(comm, place, before, after, n);
  p->change = tagc_change_between(before, after, n, dtype);
}

void tagc_changes_read(struct tagc_comm *comm, void *stream) {
  const struct tagc_device *device = comm->device;
  const size_t count = count_places(comm), bytes = 2 * count * TAGC_CHANGE_BYTES;
  char *samples = comm->changes.samples ? malloc(bytes) : NULL;
  const bool read = samples && device->fence_wait(device, comm->sync.fence, stream) &&
                    device->get(device, samples, comm->changes.samples, bytes, stream);
  for (size_t i = 0; i < count && comm->changes.places; i++) {
    compare_samples(comm, i, read ? samples : NULL);
    memset(comm->changes.places[i].cycles, 0, sizeof comm->changes.places[i].cycles);
  }
  device->release(device, comm->changes.samples, stream);
  comm->changes.samples = NULL;
  free(samples);
}

static void pack_values(const struct tagc_comm *comm, struct tagc_message *message) {
  for (size_t i = count_allgathers(comm); i < count_places(comm); i++)
    for (size_t k = 0; k < TAGC_CHANGE_VALUES; k++) {
      const float own = comm->changes.places ? comm->changes.places[i].values[k] : __builtin_nanf("");
      tagc_message_value(message, &(struct tagc_vote_value){own, own});
    }
}

void tagc_changes_pack(const struct tagc_comm *comm, struct tagc_message *message) {
  if (tagc_comm_compares_ranks(comm)) {
    pack_values(comm, message);
    return;
  }
  for (size_t i = 0; i < count_places(comm); i++) {
    const enum tagc_change own = comm->changes.places ? comm->changes.places[i].change : TAGC_CHANGE_UNKNOWN;
    tagc_message_change(message, &(struct tagc_change_range){own, own});
  }
}

/* ---- verdicts ---------------------------------------------------------------------------------------------------- */

/* The tallies of the counts of all slots; `of` has that of each slot. A model has few counts. */
struct tallies {
  struct tagc_change_tally *tallies;
  size_t count;
  size_t *of;
};

static struct tagc_change_tally *find_tally(struct tallies *t, uint64_t count) {
  size_t i = 0;
  while (i < t->count && t->tallies[i].count != count)
    i++;
  if (i == t->count)
    t->tallies[t->count++] = (struct tagc_change_tally){.count = count};
  return &t->tallies[i];
}

/* Adds the changes of all places. All-gathers come first, and each has the count of some slot. */
static void add_places(struct tagc_comm *comm, struct tagc_message *message, struct tallies *t) {
  const size_t allgathers = count_allgathers(comm), count = count_places(comm);
  for (size_t i = 0; i < count; i++) {
    struct tagc_change_tally *tally = find_tally(t, signature_at(comm, i).count);
    struct tagc_change_range changes = {0};
    tagc_message_change(message, &changes);
    if (i < allgathers)
      tagc_change_add_allgather(tally, &changes);
    else
      tagc_change_add_reduce_scatter(tally, &changes);
    if (i < comm->allgather_count)
      comm->allgathers[i].changes = tagc_change_is_whole(&changes);
    if (i >= allgathers)
      t->of[i - allgathers] = (size_t)(tally - t->tallies);
  }
}

/* Would some slot be a gradient, if only its parameters moved? And is none anyway? */
static bool is_worth_waiting(const struct tagc_comm *comm, const struct tallies *t) {
  bool any = false;
  for (size_t i = 0; i < comm->slot_count; i++) {
    if (tagc_slot_is_gradient(comm, i))
      return false;
    any |= tagc_change_is_missing(&t->tallies[t->of[i]]);
  }
  return any;
}

static void judge_slots(struct tagc_comm *comm, const struct tallies *t) {
  size_t verdicts[TAGC_PROOF_OTHER + 1] = {0};
  for (size_t i = 0; i < comm->slot_count; i++) {
    const enum tagc_proof proof = tagc_change_judge(&t->tallies[t->of[i]]);
    comm->slots[i].sample.proof = proof;
    verdicts[proof]++;
  }
  comm->changes.judged = true;
  if (verdicts[TAGC_PROOF_PARAMETERS])
    comm->ledger->taken_for = "gradients, as what is gathered changes as parameters do";
  else if (verdicts[TAGC_PROOF_OTHER] && !verdicts[TAGC_PROOF_NONE])
    comm->ledger->taken_for = "a step with activations, as what is gathered changes wholly";
  tagc_shards_set(comm);
  tagc_log(
    TAGC_LOG_INFO, "interpose",
    "communicator %llu: by their contents %zu reduce-scatters of a cycle are gradients, %zu are none, and %zu are "
    "judged by the order of calls",
    (unsigned long long)comm->ledger->number, verdicts[TAGC_PROOF_PARAMETERS], verdicts[TAGC_PROOF_OTHER],
    verdicts[TAGC_PROOF_NONE]);
}

/* Are the all-reduces, which something has proved, those of averaged parameters? */
static void judge_averages(struct tagc_comm *comm, struct tagc_message *message) {
  struct tagc_likeness likeness = {0};
  for (size_t i = 0; i < comm->slot_count; i++) {
    const bool counts = tagc_slot_is_gradient(comm, i);
    for (size_t k = 0; k < TAGC_CHANGE_VALUES; k++) {
      struct tagc_vote_value value = {0};
      tagc_message_value(message, &value);
      if (counts)
        tagc_likeness_add(&likeness, value.least, value.largest);
    }
  }
  const uint64_t next = tagc_plan_next_vote(comm->vote.cycle);
  if (next && !tagc_likeness_is_known(&likeness)) {
    comm->vote.cycle = next;
    return;
  }
  comm->changes.judged = true;
  const bool averaged = tagc_likeness_is_of_parameters(&likeness);
  tagc_log(averaged && comm->rank == 0 ? TAGC_LOG_WARN : TAGC_LOG_INFO, "interpose",
           "communicator %llu: of %zu values of what the ranks send, %zu are nearly the same on all of them%s",
           (unsigned long long)comm->ledger->number, likeness.values, likeness.near,
           averaged
             ? ", as averaged parameters (local SGD) are, so its all-reduces pass; TAGC_ASSUME=gradients compresses "
               "gradients that are so much alike"
             : "");
  for (size_t i = 0; i < comm->slot_count && averaged; i++)
    if (tagc_slot_is_gradient(comm, i))
      comm->slots[i].sample.proof = TAGC_PROOF_OTHER;
  if (averaged)
    comm->ledger->taken_for = "averaged parameters, as all ranks send nearly the same";
}

bool tagc_changes_resolve(struct tagc_comm *comm, struct tagc_message *message) {
  if (tagc_comm_compares_ranks(comm)) {
    judge_averages(comm, message);
    return true;
  }
  struct tallies t = {.tallies = calloc(count_places(comm), sizeof *t.tallies),
                      .of = calloc(comm->slot_count, sizeof *t.of)};
  const bool good = t.tallies && t.of;
  const uint64_t next = tagc_plan_next_vote(comm->vote.cycle);
  if (good) {
    add_places(comm, message, &t);
    if (next && is_worth_waiting(comm, &t))
      comm->vote.cycle = next;
    else
      judge_slots(comm, &t);
  }
  free(t.tallies);
  free(t.of);
  return good;
}
