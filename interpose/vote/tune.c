/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/vote/tune.h"

#include <stdlib.h>
#include <string.h>

#include "env/clock.h"
#include "env/log.h"
#include "interpose/comm/partial.h"
#include "interpose/nccl/process.h"
#include "interpose/vote/proposal.h"
#include "kernels/codec/codecs.h"

/* Of a communicator, then of each slot. A number of which the largest counts goes as its negated bits: those of doubles that
 * are not negative have the order of the numbers. */
enum { COMM_PROBES, COMM_WORDS };
enum { FINDING_ERROR, FINDING_ENCODE, FINDING_DECODE, FINDING_CALL, FINDING_WORDS };
enum { SLOT_SEEN, SLOT_UNDISTURBED, SLOT_BARRED, SLOT_DENSITY, SLOT_KURTOSIS, SLOT_FINDINGS,
       SLOT_COPY = SLOT_FINDINGS + FINDING_WORDS * TAGC_CANDIDATES, SLOT_NORM, SLOT_WORDS };

size_t tagc_auto_words(const struct tagc_comm *comm)
{
  size_t words = COMM_WORDS + SLOT_WORDS * comm->slot_count + (comm->ledger->retune ? 2 : 0);
  return words > TAGC_AUTO_PROBE_WORDS ? words : TAGC_AUTO_PROBE_WORDS;
}

static int64_t for_largest(double x)
{
  int64_t bits;
  x = x >= 0 ? x : __builtin_inf(); /* not a number: as bad as can be */
  memcpy(&bits, &x, sizeof bits);
  return -bits;
}

static double largest(int64_t word)
{
  double x;
  word = -word;
  memcpy(&x, &word, sizeof x);
  return x;
}

void tagc_auto_tell(const struct tagc_comm *comm, bool probes, int64_t *words)
{
  words[COMM_PROBES] = probes;
  for (size_t i = 0; i < comm->slot_count; i++) {
    int64_t *word = words + COMM_WORDS + SLOT_WORDS * i;
    const struct tagc_slot *slot = &comm->slots[i];
    const struct tagc_survey *survey = &tagc_comm_grounds(comm, i)->own;
    word[SLOT_SEEN] = slot->seen;
    word[SLOT_UNDISTURBED] = slot->seen && !survey->exceptions;
    word[SLOT_BARRED] = -(int64_t)slot->barred;   /* where ranks differ, all have one of their reasons */
    word[SLOT_DENSITY] = for_largest(survey->density);
    word[SLOT_KURTOSIS] = for_largest(survey->kurtosis);
    word[SLOT_COPY] = for_largest(survey->copy_ns);
    word[SLOT_NORM] = for_largest(survey->norm);
    for (int c = 0; c < TAGC_CANDIDATES; c++) {
      int64_t *finding = word + SLOT_FINDINGS + FINDING_WORDS * c;
      finding[FINDING_ERROR] = for_largest(survey->of[c].error);
      finding[FINDING_ENCODE] = for_largest(survey->of[c].encode_ns);
      finding[FINDING_DECODE] = for_largest(survey->of[c].decode_ns);
      finding[FINDING_CALL] = for_largest(survey->of[c].call_ns);
    }
  }
  for (int i = 0; comm->ledger->retune && i < 2; i++) {
    const double ratio = tagc_retune_measured(comm->ledger->retune, i);
    memcpy(&words[COMM_WORDS + SLOT_WORDS * comm->slot_count + (size_t)i], &ratio, sizeof ratio);
  }
}

/* Have all ranks seen the gradient as it usually is? */
static bool is_usual(const int64_t *word) { return word[SLOT_UNDISTURBED] && largest(word[SLOT_DENSITY]) > 0; }

bool tagc_auto_postpone(struct tagc_comm *comm, const int64_t *words)
{
  const uint64_t next = comm->voted ? 0 : tagc_plan_next_vote(comm->vote_cycle);   /* later looks come again by themselves */
  bool lacking = false;
  for (size_t i = 0; i < comm->slot_count && next; i++) {
    const int64_t *word = words + COMM_WORDS + SLOT_WORDS * i;
    struct tagc_slot *slot = &comm->slots[i];
    if (word[SLOT_BARRED] || is_usual(word) || !tagc_ballot_eligible(comm, i))
      continue;
    slot->looked = slot->seen = false;
    lacking = true;
  }
  if (!lacking)
    return false;
  comm->vote_cycle = next;
  tagc_log(TAGC_LOG_INFO, "interpose", "communicator %llu: a gradient was not seen by all ranks as it usually is; they look at "
           "it again before cycle %llu", (unsigned long long)comm->ledger->number, (unsigned long long)next);
  return true;
}

/* In a later vote the last look that was as usual stays. */
bool tagc_auto_hear(struct tagc_comm *comm, const int64_t *words)
{
  const bool again = comm->voted;
  bool any = again;
  for (size_t i = 0; i < comm->slot_count; i++) {
    const int64_t *word = words + COMM_WORDS + SLOT_WORDS * i;
    struct tagc_slot *slot = &comm->slots[i];
    struct tagc_survey *survey = &tagc_comm_grounds(comm, i)->survey;
    slot->barred = (enum tagc_reason)-word[SLOT_BARRED];
    if (again && !(word[SLOT_SEEN] && is_usual(word)))
      continue;
    slot->known = word[SLOT_SEEN];
    survey->density = largest(word[SLOT_DENSITY]);
    any |= slot->known && slot->barred == TAGC_REASON_compressed && survey->density > 0;
    survey->kurtosis = largest(word[SLOT_KURTOSIS]);
    survey->copy_ns = largest(word[SLOT_COPY]);
    survey->norm = largest(word[SLOT_NORM]);
    for (int c = 0; c < TAGC_CANDIDATES; c++) {
      const int64_t *finding = word + SLOT_FINDINGS + FINDING_WORDS * c;
      survey->of[c] = (struct tagc_finding){largest(finding[FINDING_ERROR]), largest(finding[FINDING_ENCODE]),
                                           largest(finding[FINDING_DECODE]), largest(finding[FINDING_CALL])};
    }
  }
  for (int i = 0; comm->ledger->retune && i < 2; i++) {
    double ratio;
    memcpy(&ratio, &words[COMM_WORDS + SLOT_WORDS * comm->slot_count + (size_t)i], sizeof ratio);
    tagc_retune_correct(comm->ledger->retune, i, ratio);
  }
  return any && words[COMM_PROBES];
}

void tagc_auto_tell_probe(const struct tagc_probe *probe, int64_t *words)
{
  for (int route = 0; route < TAGC_ROUTES; route++)
    for (int size = 0; size < 2; size++)
      words[2 * route + size] = for_largest(probe->ns[route][size]);
}

void tagc_auto_hear_probe(struct tagc_probe *probe, const int64_t *words)
{
  for (int route = 0; route < TAGC_ROUTES; route++)
    for (int size = 0; size < 2; size++)
      probe->ns[route][size] = largest(words[2 * route + size]);
}

/* ---- looking -------------------------------------------------------------------------------------------------------- */

/* Is the gradient of this call to be looked at? Call it with the lock held. */
static bool is_wanted(const struct tagc_comm *comm, const struct tagc_call *call)
{
  if (!tagc_comm_awaits_vote(comm, call) || !tagc_plan_looks(tagc_comm_next_vote(comm), call->cycle))
    return false;
  const struct tagc_slot *slot = &comm->slots[call->slot];
  return !slot->looked && slot->barred == TAGC_REASON_compressed && tagc_ballot_eligible(comm, (size_t)call->slot);
}

bool tagc_auto_waits(const struct tagc_call *call)
{
  struct tagc_comm *comm = call->comm;
  if (!tagc_options_auto(tagc_library_options()))
    return false;
  pthread_mutex_lock(&comm->lock);
  bool waits = is_wanted(comm, call) && !comm->device->host_reads;
  pthread_mutex_unlock(&comm->lock);
  return waits;
}

/* Codecs that do not run on the device are not tried. False: none does. */
static bool choose_candidates(const struct tagc_device *device, const struct tagc_shape *shape, struct tagc_candidate *candidates)
{
  bool any = false;
  tagc_choose_candidates(tagc_library_options(), candidates);
  for (int i = 0; i < TAGC_CANDIDATES; i++) {
    struct tagc_shape its = *shape;
    struct tagc_layout layout;
    its.residual = candidates[i].residual;
    its.keep_ppm = 1;
    if (candidates[i].codec && !device->host_reads && !device->layout(device, candidates[i].codec, &its, &layout))
      candidates[i].codec = NULL;
    any |= candidates[i].codec != NULL;
  }
  return any;
}

/* A codec of which nothing is known is out of the question. */
static void estimate_costs(const struct tagc_device *device, const struct tagc_survey_question *question,
                           struct tagc_survey *survey)
{
  const uint32_t keep = tagc_survey_keep(survey->density);
  for (int i = 0; i < TAGC_CANDIDATES; i++) {
    const struct tagc_candidate *candidate = &question->candidates[i];
    struct tagc_finding *finding = &survey->of[i];
    struct tagc_shape shape = question->shape;
    struct tagc_gpu_cost cost;
    shape.residual = candidate->residual;
    shape.keep_ppm = keep;
    if (finding->error < __builtin_inf() && device->cost(device, candidate->codec, &shape, &cost))
      *finding = (struct tagc_finding){finding->error, cost.encode_ns, cost.decode_ns, cost.call_ns};
    else
      finding->error = __builtin_inf();
  }
}

/* Where but a part of the slot is selected, nothing else is looked at: it is packed as in a call. Nanoseconds of an element's copy are
 * those of the second time on the host, when the memory is there, and on a GPU those of codec none, which does nothing else, with
 * what all copies of a call take to begin. False without memory, or where the device fails. */
static bool pack_selected(const struct tagc_call *call, const struct tagc_parts *parts, struct tagc_survey_question *question,
                          void **packed, double *copy_ns)
{
  const struct tagc_device *device = call->comm->device;
  const double elements = (double)question->shape.n * question->shape.nranks, whole = (double)call->count * (question->shape.nranks + 1);
  const double copies = (double)tagc_split_copies(parts, question->shape.nranks);
  struct tagc_gpu_cost cost = {0};
  *packed = device->alloc(device, (size_t)question->shape.n * (size_t)question->shape.nranks * tagc_dtype_size(question->shape.dtype),
                          call->stream);
  if (!*packed || !tagc_split_pack_selected(call, parts, *packed))
    return false;
  question->send = *packed;
  *copy_ns = device->cost(device, &tagc_codec_none, &question->shape, &cost) ? cost.encode_ns + TAGC_GPU_LAUNCH_NS * copies / whole : 0;
  if (!device->host_reads)
    return true;
  const double began = tagc_clock_ms();
  const bool good = tagc_split_pack_selected(call, parts, *packed);
  *copy_ns = 1e6 * (tagc_clock_ms() - began) / elements;
  return good;
}

/* Where the gradient is on a device, the host waits for what was enqueued before. */
static bool survey_gradient(const struct tagc_call *call, const struct tagc_parts *parts, struct tagc_survey_question *question,
                            struct tagc_survey *survey)
{
  struct tagc_comm *comm = call->comm;
  struct tagc_survey_sample sample = {0};
  void *packed = NULL;
  double copy_ns = 0;
  bool seen = tagc_comms_enter_driver(&comm, 1) && (!parts || pack_selected(call, parts, question, &packed, &copy_ns)) &&
              tagc_survey_read(question, comm->device, call->stream, &sample);
  seen = tagc_comms_leave_driver(&comm, 1) && seen && tagc_survey_try(question, &sample, survey);
  tagc_survey_free(&sample);
  if (packed) {
    if (tagc_comms_enter_driver(&comm, 1))         /* else the stream may be gone */
      comm->device->release(comm->device, packed, call->stream);
    tagc_comms_leave_driver(&comm, 1);
  }
  if (seen && !comm->device->host_reads)
    estimate_costs(comm->device, question, survey);
  if (seen)
    survey->copy_ns = copy_ns;
  return seen;
}

void tagc_auto_look(const struct tagc_call *call)
{
  const struct tagc_options *options = tagc_library_options();
  struct tagc_comm *comm = call->comm;
  struct tagc_candidate candidates[TAGC_CANDIDATES];
  struct tagc_survey survey;
  if (!tagc_options_auto(options))
    return;
  pthread_mutex_lock(&comm->lock);
  bool wanted = is_wanted(comm, call);
  if (wanted)
    comm->slots[call->slot].looked = true;         /* and not again */
  struct tagc_survey_question question = {
    .shape = wanted ? comm->slots[call->slot].shape : (struct tagc_shape){0}, .rank = comm->rank, .send = call->send,
    .scale = call->scale, .stochastic = options->rounding == TAGC_ROUNDING_STOCHASTIC, .candidates = candidates,
    .clock_ms = comm->device->host_reads ? tagc_clock_ms : NULL,
  };
  const struct tagc_parts *parts = wanted ? comm->slots[call->slot].parts : NULL;
  pthread_mutex_unlock(&comm->lock);
  if (!wanted || !tagc_comms_enter(&comm, 1, TAGC_PHASE_IDLE, TAGC_PHASE_OURS))
    return;                         /* after an abort the program may free its buffers */
  bool any = tagc_comms_enter_driver(&comm, 1) && choose_candidates(comm->device, &question.shape, candidates);
  any = tagc_comms_leave_driver(&comm, 1) && any;
  bool seen = any && survey_gradient(call, parts, &question, &survey);
  tagc_comms_leave(&comm, 1);
  pthread_mutex_lock(&comm->lock);
  if (!any)
    tagc_comm_bar(comm, call, TAGC_REASON_device);
  if (seen && call->lock_number == comm->lock_number) {
    comm->slots[call->slot].seen = true;
    tagc_comm_grounds(comm, (size_t)call->slot)->own = survey;
    if (comm->voted)
      comm->cycle_disturbed = true;     /* a step with a look in it is no measurement of a step */
  }
  pthread_mutex_unlock(&comm->lock);
}
