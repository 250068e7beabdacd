/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/vote/retune.h"

#include <stdio.h>
#include <string.h>

#include "env/log.h"
#include "interpose/comm/slot.h"
#include "interpose/nccl/process.h"
#include "interpose/vote/proposal.h"

/* ---- what was measured ------------------------------------------------------------------------------------------------ */

/* By what was estimated, for calls of compressed slots or of the others. 0: nothing was measured. */
static double measured_ratio(const struct tagc_comm *comm, bool compressed)
{
  double measured = 0, estimated = 0;
  for (size_t i = 0; i < comm->slot_count; i++) {
    const struct tagc_grounds *grounds = tagc_comm_grounds(comm, i);
    if (!grounds || (grounds->choice.candidate >= 0) != compressed)
      continue;
    measured += grounds->spent_ns;
    estimated += (double)grounds->spent_calls * tagc_choice_ns(&grounds->choice);
  }
  return measured > 0 && estimated > 0 ? tagc_budget_ratio(measured, estimated) : 0;
}

size_t tagc_selection_words(void) { return tagc_options_has_budget(tagc_library_options()) ? 2 : 0; }

/* Bits of doubles that are not negative have the order of the numbers; 0, where a rank has measured nothing, is the least. */
void tagc_selection_tell(const struct tagc_comm *comm, int64_t *words)
{
  for (size_t i = 0; i < tagc_selection_words(); i++) {
    const double ratio = comm->voted ? measured_ratio(comm, i == 1) : 0;
    memcpy(&words[i], &ratio, sizeof ratio);
  }
}

void tagc_selection_hear(struct tagc_comm *comm, const int64_t *words)
{
  for (size_t i = 0; i < tagc_selection_words(); i++) {
    double ratio;
    memcpy(&ratio, &words[i], sizeof ratio);
    if (!comm->voted)
      comm->ledger->ratio[i] = 1;
    if (ratio > 0)
      comm->ledger->ratio[i] = ratio;
  }
}

/* ---- the choice --------------------------------------------------------------------------------------------------------- */

/* Option 0 is plain. What has not been chosen for yet has been plain. */
static struct tagc_budget_slot slot_of(struct tagc_comm *comm, size_t i, const struct tagc_wire *wire)
{
  const struct tagc_slot *slot = &comm->slots[i];
  struct tagc_grounds *grounds = tagc_comm_grounds(comm, i);
  const double *ratio = comm->ledger->ratio;
  struct tagc_slot_question question = tagc_slot_question(comm, i);
  question.residual_left = tagc_library_options()->residual_max;
  const bool chosen = slot->reason == TAGC_REASON_compressed || slot->reason == TAGC_REASON_denser;
  struct tagc_budget_slot asked = {.before = comm->voted && chosen ? 1 + grounds->choice.candidate : 0};
  grounds->choice = tagc_choose(&question, slot->known ? &grounds->survey : NULL, wire);
  if (slot->barred != TAGC_REASON_compressed)
    grounds->choice.reason = slot->barred;
  const bool open = grounds->choice.reason == TAGC_REASON_compressed;
  asked.norm = open ? grounds->survey.norm : 0;
  asked.ns[0] = ratio[0] * grounds->choice.plain_ns;
  for (int c = 0; c < TAGC_CANDIDATES; c++) {
    asked.ns[1 + c] = open ? ratio[1] * grounds->choice.ns[c] : __builtin_inf();
    asked.error[1 + c] = open ? tagc_choose_error(&question, &grounds->survey, c) : 0;
  }
  return asked;
}

/* What has come of the last selection is known now. */
static void close_entry(struct tagc_ledger *ledger)
{
  const double ns = tagc_ledger_spent(ledger);
  if (ledger->selection_count && ns > 0)
    ledger->selections[ledger->selection_count - 1].measured_ns = ns;
}

void tagc_selection_plan(struct tagc_comm *comm, const struct tagc_wire *wire)
{
  struct tagc_ledger *ledger = comm->ledger;
  struct tagc_budget_slot *slots = ledger->budget_slots;
  if (comm->voted)
    close_entry(ledger);
  ledger->outcome = (struct tagc_budget_outcome){0};
  for (size_t i = 0; i < comm->slot_count && wire; i++)
    slots[i] = slot_of(comm, i, wire);
  if (wire)
    ledger->outcome = tagc_budget_choose(&tagc_library_options()->budget, slots, comm->slot_count);
  for (size_t i = 0; i < comm->slot_count; i++) {
    struct tagc_choice *choice = &tagc_comm_grounds(comm, i)->choice;
    if (!wire) {
      *choice = (struct tagc_choice){.reason = TAGC_REASON_vote, .candidate = -1};
      continue;
    }
    choice->candidate = slots[i].option - 1;
    if (choice->reason == TAGC_REASON_compressed && choice->candidate < 0)
      choice->reason = TAGC_REASON_budget;
  }
  if (comm->voted && ledger->selection_count && ledger->outcome.error_before > 0)
    ledger->selections[ledger->selection_count - 1].measured_error = ledger->outcome.error_before;
}

/* ---- afterwards ----------------------------------------------------------------------------------------------------------- */

/* The codecs that slots have now: "3 q4, 1 plain". */
static void describe(const struct tagc_comm *comm, char text[TAGC_SELECTION_TEXT])
{
  unsigned of[TAGC_BUDGET_OPTIONS] = {0};
  size_t n = 0;
  for (size_t i = 0; i < comm->slot_count; i++)
    of[comm->slots[i].reason == TAGC_REASON_compressed ? 1 + tagc_comm_grounds(comm, i)->choice.candidate : 0]++;
  *text = '\0';
  for (int i = TAGC_BUDGET_OPTIONS; i-- > 0;)
    if (of[i])
      n += (size_t)snprintf(text + n, TAGC_SELECTION_TEXT - n, "%s%u %s", n ? ", " : "", of[i], i ? tagc_choose_name(i - 1) : "plain");
}

/* A line for each selection that has changed something; of very many the first one and the last ones are kept. */
static void note(struct tagc_comm *comm, uint64_t cycle)
{
  struct tagc_ledger *ledger = comm->ledger;
  const struct tagc_budget_outcome *outcome = &ledger->outcome;
  struct tagc_selected entry = {.cycle = cycle, .last = cycle, .times = 1, .outcome = *outcome};
  describe(comm, entry.codecs);
  struct tagc_selected *last = &ledger->selections[ledger->selection_count ? ledger->selection_count - 1 : 0];
  if (ledger->selection_count && !outcome->changed && strcmp(entry.codecs, last->codecs) == 0) {
    last->last = entry.cycle;
    last->times++;
    return;
  }
  if (ledger->selection_count == TAGC_SELECTIONS) {
    memmove(&ledger->selections[1], &ledger->selections[2], (TAGC_SELECTIONS - 2) * sizeof entry);
    ledger->selection_count--;
  }
  ledger->selections[ledger->selection_count++] = entry;
}

void tagc_selection_end(struct tagc_comm *comm, uint64_t cycle)
{
  char target[32];
  const struct tagc_options *options = tagc_library_options();
  const struct tagc_budget_outcome *outcome = &comm->ledger->outcome;
  if (!tagc_options_has_budget(options) || !comm->ledger->probed)
    return;
  const bool first = comm->selected_cycle == 0;
  comm->selection_interval = first ? TAGC_BUDGET_FIRST_INTERVAL
                                   : tagc_budget_interval(comm->selection_interval, outcome->backed_off > 0);
  comm->selected_cycle = cycle;
  comm->selection_cycle = cycle + comm->selection_interval;
  note(comm, cycle);
  for (size_t i = 0; i < comm->slot_count; i++) {
    comm->slots[i].looked = comm->slots[i].seen = false;
    tagc_comm_grounds(comm, i)->spent_ns = 0;
    tagc_comm_grounds(comm, i)->spent_calls = 0;
  }
  const struct tagc_selected *last = &comm->ledger->selections[comm->ledger->selection_count - 1];
  tagc_log(TAGC_LOG_INFO, "interpose", "communicator %llu: TAGC_BUDGET=%s in cycle %llu: %s; estimated %.3f ms a step, error %.3g%%%s, "
           "%u slots changed; next in cycle %llu", (unsigned long long)comm->ledger->number, tagc_budget_text(&options->budget, target),
           (unsigned long long)comm->selected_cycle, last->codecs, 1e-6 * outcome->ns, 100 * outcome->error,
           outcome->met ? "" : ", which is the nearest to it", outcome->changed, (unsigned long long)comm->selection_cycle);
}

