/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/auto.h"

#include <string.h>

#include "interpose/library.h"

/* Of a communicator, then of each slot. A number of which the largest counts goes as its negated bits: those of doubles that
 * are not negative have the order of the numbers. */
enum { COMM_PROBES, COMM_TOGETHER, COMM_TOGETHER_NEGATED, COMM_WORDS };
enum { SLOT_SEEN, SLOT_DENSITY, SLOT_KURTOSIS, SLOT_FINDINGS, SLOT_WORDS = SLOT_FINDINGS + 3 * TAGC_CANDIDATES };

size_t tagc_auto_words(const struct tagc_comm *comm)
{
  size_t words = COMM_WORDS + SLOT_WORDS * comm->slot_count;
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

void tagc_auto_tell(const struct tagc_comm *comm, bool probes, size_t together, int64_t *words)
{
  words[COMM_PROBES] = probes;
  words[COMM_TOGETHER] = (int64_t)together;
  words[COMM_TOGETHER_NEGATED] = -(int64_t)together;
  for (size_t i = 0; i < comm->slot_count; i++) {
    int64_t *word = words + COMM_WORDS + SLOT_WORDS * i;
    const struct tagc_slot *slot = &comm->slots[i];
    const struct tagc_survey *survey = &slot->survey;
    word[SLOT_SEEN] = slot->seen && !slot->mixed;
    word[SLOT_DENSITY] = for_largest(survey->density);
    word[SLOT_KURTOSIS] = for_largest(survey->kurtosis);
    for (int c = 0; c < TAGC_CANDIDATES; c++) {
      int64_t *finding = word + SLOT_FINDINGS + 3 * c;
      finding[0] = for_largest(survey->of[c].error);
      finding[1] = for_largest(survey->of[c].encode_ns);
      finding[2] = for_largest(survey->of[c].decode_ns);
    }
  }
}

bool tagc_auto_hear(struct tagc_comm *comm, const int64_t *words)
{
  bool any = false;
  for (size_t i = 0; i < comm->slot_count; i++) {
    const int64_t *word = words + COMM_WORDS + SLOT_WORDS * i;
    struct tagc_slot *slot = &comm->slots[i];
    struct tagc_survey *survey = &slot->survey;
    slot->seen = word[SLOT_SEEN];
    any |= slot->seen;
    survey->density = largest(word[SLOT_DENSITY]);
    survey->kurtosis = largest(word[SLOT_KURTOSIS]);
    for (int c = 0; c < TAGC_CANDIDATES; c++) {
      const int64_t *finding = word + SLOT_FINDINGS + 3 * c;
      survey->of[c] = (struct tagc_finding){largest(finding[0]), largest(finding[1]), largest(finding[2])};
    }
  }
  return any && words[COMM_PROBES] && words[COMM_TOGETHER] == -words[COMM_TOGETHER_NEGATED];
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

/* Is the gradient of this call to be looked at? Then it will not be asked for again. */
static bool is_wanted(struct tagc_comm *comm, const struct tagc_call *call)
{
  const struct tagc_options *options = tagc_library_options();
  if (!tagc_options_auto(options) || options->mode == TAGC_MODE_OBSERVE || comm->voted || !comm->agreed || !comm->device ||
      !comm->device->host_reads || comm->nranks < 2 || call->slot < 0 || call->lock_number != comm->lock_number)
    return false;
  struct tagc_slot *slot = &comm->slots[call->slot];
  size_t count;
  const struct tagc_slot_info *info = &tagc_cycle_slots(comm->cycle, &count)[call->slot];
  struct tagc_slot_question question = {.options = options, .slot = info, .shape = slot->shape, .op = slot->op,
                                        .gradients = tagc_cycle_is_gradients(comm->cycle)};
  if (slot->looked || tagc_plan_slot_gate(&question) != TAGC_REASON_compressed)
    return false;
  slot->looked = true;
  return true;
}

void tagc_auto_look(const struct tagc_call *call)
{
  struct tagc_comm *comm = call->comm;
  struct tagc_candidate candidates[TAGC_CANDIDATES];
  struct tagc_survey survey;
  pthread_mutex_lock(&comm->lock);
  bool wanted = is_wanted(comm, call);
  struct tagc_survey_question question = {
    .shape = wanted ? comm->slots[call->slot].shape : (struct tagc_shape){0}, .rank = comm->rank, .send = call->send,
    .scale = call->scale, .candidates = candidates, .clock_ms = tagc_clock_ms,
  };
  pthread_mutex_unlock(&comm->lock);
  if (!wanted || !tagc_comms_enter(&comm, 1, TAGC_PHASE_IDLE, TAGC_PHASE_OURS))
    return;                         /* after an abort the program may free its buffers */
  tagc_choose_candidates(tagc_library_options(), candidates);
  bool seen = tagc_survey_take(&question, comm->device, &survey);
  tagc_comms_leave(&comm, 1);
  pthread_mutex_lock(&comm->lock);
  if (seen && call->lock_number == comm->lock_number) {
    comm->slots[call->slot].seen = true;
    comm->slots[call->slot].survey = survey;
  }
  pthread_mutex_unlock(&comm->lock);
}
