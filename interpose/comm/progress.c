/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/comm/progress.h"

#include <inttypes.h>
#include <stdio.h>

#include "env/log.h"
#include "env/numbers.h"
#include "env/units.h"
#include "interpose/comm/comm.h"
#include "interpose/metrics/metrics.h"
#include "interpose/nccl/process.h"
#include "interpose/stats/exit_report.h"

enum { CALLS = 1024 };

static bool wants_progress(const struct tagc_comm *comm) {
  const struct tagc_options *options = tagc_library_options();
  return options->log >= TAGC_LOG_INFO && options->log_cycles && comm->rank == 0 && comm->nranks > 1;
}

/* Other cycles (of activations, say) are not steps. */
static bool is_of_steps(const struct tagc_comm *comm) {
  bool any = tagc_cycle_is_gradients(comm->observed.cycle) || (comm->layers && comm->layers->proven) ||
             tagc_library_options()->assume == TAGC_ASSUME_GRADIENTS;
  for (size_t i = 0; i < comm->slot_count && !any; i++)
    any = comm->vote.held && comm->slots[i].reason == TAGC_REASON_compressed;
  return any;
}

void tagc_progress_reset(struct tagc_comm *comm) {
  const struct tagc_ledger *ledger = comm->ledger;
  comm->progress = (struct tagc_progress){.sent = ledger->sent,
                                          .plain = ledger->plain,
                                          .allgather_sent = ledger->allgather_sent,
                                          .allgather_plain = ledger->allgather_plain,
                                          .metrics_cycles = comm->progress.metrics_cycles,
                                          .calls = comm->progress.calls,
                                          .handed_out = comm->progress.handed_out};
}

/* "; A/B so far: ..."; empty while one side has no step yet. */
static void print_ab_so_far(const struct tagc_ledger *ledger, char *text, size_t size) {
  struct tagc_ab_figures figures;
  char words[TAGC_AB_WORDS], times[64] = "";
  *text = '\0';
  if (!ledger->ab)
    return;
  tagc_ab_so_far(ledger->ab, &figures);
  if (figures.pairs)
    snprintf(times, sizeof times, "plain %.1f ms, compressed %.1f ms, ", figures.mean_ms[TAGC_AB_PLAIN],
             figures.mean_ms[TAGC_AB_COMPRESSED]);
  if (*tagc_ab_words(&figures, words))
    snprintf(text, size, "; A/B so far: %s%s", times, words);
}

/* "9.4 MiB, 2.1 MiB less than plain, ratio 0.817" */
static void print_sent(const struct tagc_ledger *ledger, const struct tagc_traffic *sent,
                       const struct tagc_traffic *plain, char *text, size_t size) {
  const uint64_t wire = tagc_report_wire(ledger, sent), plain_wire = tagc_report_wire(ledger, plain);
  char bytes[2][16], saved[64] = "";
  if (plain_wire != wire)
    snprintf(saved, sizeof saved, ", %s %s than plain, ratio %.3f",
             tagc_units_bytes(plain_wire > wire ? plain_wire - wire : wire - plain_wire, bytes[0]),
             plain_wire > wire ? "less" : "more", tagc_report_ratio(wire, plain_wire));
  snprintf(text, size, "%s%s%s", tagc_units_bytes(wire, bytes[1]), ledger->hosts.hosts > 1 ? " to other hosts" : "",
           saved);
}

static void print_progress(const struct tagc_comm *comm) {
  const struct tagc_ledger *ledger = comm->ledger;
  const struct tagc_progress *since = &comm->progress;
  const struct tagc_traffic sent = tagc_traffic_since(&ledger->sent, &since->sent),
                            plain = tagc_traffic_since(&ledger->plain, &since->plain);
  const struct tagc_traffic allgathers = tagc_traffic_since(&ledger->allgather_sent, &since->allgather_sent);
  const struct tagc_traffic plain_allgathers = tagc_traffic_since(&ledger->allgather_plain, &since->allgather_plain);
  char step[48] = "no step was measured", reduces[112], gathered[160] = "", text[112], ab[TAGC_AB_WORDS + 80];
  if (since->steps)
    snprintf(step, sizeof step, "%.1f ms a step", since->ms / (double)since->steps);
  print_sent(ledger, &sent, &plain, reduces, sizeof reduces);
  print_sent(ledger, &allgathers, &plain_allgathers, text, sizeof text);
  if (ledger->allgather_codec)
    snprintf(gathered, sizeof gathered, "; all-gathers %s", text);
  print_ab_so_far(ledger, ab, sizeof ab);
  tagc_log(TAGC_LOG_INFO, "interpose", "communicator %" PRIu64 ", cycle %" PRIu64 ": %s; %s sent %s%s%s",
           ledger->number, comm->observed.cycle_number, step, tagc_ledger_slots_words(ledger), reduces, gathered, ab);
}

static void hand_out(struct tagc_comm *comm) {
  comm->progress.metrics_cycles = comm->progress.calls = 0;
  comm->progress.handed_out = true;
  if (comm->nranks > 1)
    tagc_metrics_take(comm->ledger);
}

void tagc_progress_call(struct tagc_comm *comm) {
  if (tagc_metrics_on() && (++comm->progress.calls >= CALLS || !comm->progress.handed_out))
    hand_out(comm);
}

void tagc_progress_cycle(struct tagc_comm *comm, int side, double step_ms) {
  struct tagc_progress *since = &comm->progress;
  comm->ledger->cycles++;
  if (step_ms >= 0)
    tagc_ledger_sum_add(&comm->ledger->steps[side], step_ms);
  if (tagc_metrics_on() && ++since->metrics_cycles >= tagc_library_options()->metrics_cycles)
    hand_out(comm);
  if (!wants_progress(comm))
    return;
  since->cycles++;
  since->steps += step_ms >= 0;
  since->ms += step_ms >= 0 ? step_ms : 0;
  if (since->cycles < tagc_library_options()->log_cycles)
    return;
  if (is_of_steps(comm)) {
    const struct tagc_numbers numbers = tagc_numbers_begin();
    print_progress(comm);
    tagc_numbers_end(&numbers);
  }
  tagc_progress_reset(comm);
}
