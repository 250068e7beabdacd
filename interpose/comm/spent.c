/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/comm/spent.h"

#include "env/clock.h"
#include "interpose/nccl/process.h"

bool tagc_selection_is_near(const struct tagc_comm *comm, const struct tagc_call *call)
{
  return comm->voted && comm->selection_cycle && call->slot >= 0 && call->lock_number == comm->lock_number &&
         tagc_plan_looks(comm->selection_cycle, call->cycle);
}

void tagc_selection_add(struct tagc_comm *comm, int slot, double ns)
{
  if (!tagc_options_has_budget(tagc_library_options()) || slot < 0 || (size_t)slot >= comm->slot_count ||
      !tagc_comm_grounds(comm, (size_t)slot))
    return;
  struct tagc_grounds *grounds = tagc_comm_grounds(comm, (size_t)slot);
  grounds->spent_ns += ns;
  grounds->spent_calls++;
}

/* Is the call made as it was chosen for its slot, and in no cycle of a look or a vote? */
static bool counts(const struct tagc_call *call)
{
  const struct tagc_comm *comm = call->comm;
  if (!tagc_options_has_budget(tagc_library_options()) || !comm->voted || call->slot < 0 || call->lock_number != comm->lock_number ||
      !comm->device || !comm->device->host_reads || call->cycle <= comm->selected_cycle || tagc_selection_is_near(comm, call))
    return false;
  const bool chosen = comm->slots[call->slot].reason == TAGC_REASON_compressed;
  return call->decision.action == (chosen ? TAGC_COMPRESS : TAGC_PASS);
}

uint64_t tagc_selection_begin(const struct tagc_call *call) { return counts(call) ? tagc_clock_ns() : 0; }

void tagc_selection_since(const struct tagc_call *call, uint64_t began)
{
  if (began && counts(call))
    tagc_selection_add(call->comm, call->slot, (double)(tagc_clock_ns() - began));
}

void tagc_selection_hasten(struct tagc_comm *comm, uint64_t cycle)
{
  if (comm->selection_cycle > cycle + 2)
    comm->selection_cycle = cycle + 2;
}
