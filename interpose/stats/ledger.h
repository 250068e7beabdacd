/* SPDX-License-Identifier: BSD-3-Clause
 * The accounts of a communicator: what its calls cost, for the report at exit.
 *
 * A ledger outlives its communicator: the report is printed when the process ends. It is written by the thread that
 * makes a call on the communicator, one at a time; the report reads it at exit, when no thread is expected to run.
 */
#ifndef INTERPOSE_STATS_LEDGER_H
#define INTERPOSE_STATS_LEDGER_H

#include <stdint.h>

#include "interpose/budget/retune.h"
#include "interpose/policy/registered_memory.h"
#include "interpose/stats/layers_log.h"
#include "layermap/model/contents.h"

/* Mean and spread of a series, updated one value at a time (Welford 1962). */
struct tagc_series {
  uint64_t count;
  double mean, m2;
};

void tagc_series_add(struct tagc_series *series, double value);
double tagc_series_deviation(const struct tagc_series *series);

/* TAGC_CODEC=auto: why a slot has its codec. */
struct tagc_decision_inputs {
  struct tagc_gradient_stats own;      /* of this rank, as it was seen last */
  struct tagc_gradient_stats gradient; /* of all ranks, since the vote has been held */
  struct tagc_choice choice;           /* of the vote */
};

/* Of an all-gather of parameters. */
struct tagc_ledger_allgather {
  enum tagc_reason reason; /* of the vote, or why it has become plain since */
  bool again;              /* an earlier one of the cycle gathers the same parameters */
  bool exact;              /* its codec loses nothing */
  uint64_t refreshed;      /* calls that went plain, so that later ones could send what has changed */
  uint64_t refused;        /* of the compressed ones: a shard did not fit, and the call was made again, plain */
  uint64_t own_left;  /* of the compressed ones: in place, and so this rank's own shard stayed as exact as it was */
  uint64_t unchanged; /* of the calls: this rank's shard was what it had been when it was gathered last */
  struct tagc_traffic savable; /* sent by those */
  struct tagc_allgather_stats stats;
};

/* What calls took, on this rank: those whose times are known; a device tells them late, or not at all. The exchange of
 * a call in two levels has the sums of its host. */
struct tagc_ledger_times {
  double encode_ms, exchange_ms, decode_ms;
  double hidden_ms; /* of encode_ms and decode_ms: beside the exchange, and nobody waited for it */
  uint64_t calls;
};

/* One slot, or everything that has none. Traffic is that of this rank (kernels/codec/cost.h). */
struct tagc_ledger_row {
  char name[TAGC_LAYER_NAME];
  uint64_t shard;            /* elements of one */
  enum tagc_layer_kind kind; /* of its layer */
  uint32_t unit;             /* in forward order */
  struct tagc_range home; /* where its gradients lie in registered memory, if they always lie there; number 0: unknown
                           */
  const char *codec;      /* of the vote; NULL: none */
  uint64_t calls, compressed;
  uint64_t raw_bytes;              /* of the send buffers of the compressed calls */
  struct tagc_traffic plain, sent; /* of the compressed calls: as a plain call, and as sent */
  uint64_t selected, elements;     /* where its slot is compressed in part: elements of a send buffer that are, and all;
                                      else 0 */
  char *parameters; /* those that are selected, where it is selected in part; slots that are alike share the text ... */
  bool owns_parameters;       /* ... of the first of them */
  uint64_t residual_bytes;    /* memory held for it */
  uint64_t residuals_dropped; /* times its residual was zeroed: suspected of another slot, or a step with NaN or Inf */
  struct tagc_codec_stats stats;
  bool counted;                           /* a device has told some of them */
  struct tagc_decision_inputs *inputs;    /* the ledger's; NULL but for slots with TAGC_CODEC=auto */
  struct tagc_ledger_allgather allgather; /* of an all-gather, whose reference's memory is residual_bytes */
};

/* One side of TAGC_MODE=ab. */
struct tagc_ledger_side {
  struct tagc_series step_ms;
  struct tagc_traffic sent;           /* by reduce-scatters in the cycles counted */
  struct tagc_traffic allgather_sent; /* and by all-gathers of parameters, with TAGC_ALLGATHER */
};

struct tagc_ledger {
  struct tagc_ledger *next;
  int rank, nranks;
  struct tagc_hosts hosts;
  bool two_levels;
  uint64_t number;   /* in the order in which communicators were first used here */
  const char *codec; /* TAGC_CODEC */
  bool probed;       /* TAGC_CODEC=auto: the vote has probed the wire */
  struct tagc_wire wire;
  struct tagc_ledger_row *rows; /* of the slots of the last lock that was voted on */
  size_t row_count;
  struct tagc_retune *retune;          /* TAGC_BUDGET: of this lock; NULL: not asked for */
  struct tagc_decision_inputs *inputs; /* of the rows, in their order; NULL: not asked for */
  char layers[TAGC_LAYERS_WORDS];      /* what the slots were taken for; "": nobody knows */
  char or_layers[TAGC_LAYERS_WHAT];    /* what is different in the next best guess; "": nothing */
  struct tagc_ledger_row rest;         /* reduce-scatters outside slots, and slots of earlier locks */
  uint64_t reasons[TAGC_REASON_COUNT]; /* reduce-scatters, by why they went the way they went */
  uint64_t allgathers_left; /* of other_calls: all-gathers of parameters that TAGC_ALLGATHER could compress, and what
                               they sent */
  struct tagc_traffic allgathers_left_sent;
  uint64_t other_calls;           /* calls that are no reduce-scatter, nor all-gathers or all-reduces that have rows */
  bool all_reduces;               /* its slots are some, and so are what is said of reduce-scatters here */
  struct tagc_ledger_times times; /* of compressed reduce-scatters */
  uint64_t cycles_plain, cycles_compressed;
  struct tagc_ledger_side sides[2];   /* plain, compressed */
  struct tagc_traffic sent, plain;    /* by all reduce-scatters so far, plain or not; and had they all been plain */
  const char *allgather_codec;        /* TAGC_ALLGATHER; NULL: off, and what follows is empty */
  struct tagc_ledger_row *allgathers; /* of the all-gathers of parameters of the last lock */
  size_t allgather_count;
  struct tagc_ledger_row allgather_rest; /* those of floating-point numbers that are none, or were in earlier locks */
  uint64_t allgather_reasons[TAGC_REASON_COUNT];
  struct tagc_ledger_times allgather_times; /* of compressed all-gathers */
  struct tagc_traffic allgather_sent, allgather_plain;
};

/* What its slots are. */
static inline const char *tagc_ledger_slots_words(const struct tagc_ledger *ledger) {
  return ledger->all_reduces ? "all-reduces" : "reduce-scatters";
}

static inline void tagc_traffic_add(struct tagc_traffic *to, const struct tagc_traffic *more) {
  to->inside += more->inside;
  to->between += more->between;
}

static inline struct tagc_traffic tagc_traffic_since(const struct tagc_traffic *now, const struct tagc_traffic *then) {
  return (struct tagc_traffic){now->inside - then->inside, now->between - then->between};
}

/* A new ledger on the list of the process; NULL without memory. The first one makes the process print a report at exit
 * (TAGC_REPORT). Never freed. */
struct tagc_ledger *tagc_ledger_create(int rank, int nranks);

/* The slots are known no more. Their rows stay for the report, until there are others. */
void tagc_ledger_end_slots(struct tagc_ledger *ledger);

/* Gives the ledger rows for the slots of a new lock, with the names that their layers have (NULL: by their position);
 * what the old ones counted stays where all of them are the same, and else moves into `rest`. False without memory. */
bool tagc_ledger_set_slots(struct tagc_ledger *ledger, const struct tagc_slot_info *slots, size_t count,
                           const struct tagc_layers *layers);

/* The L2 norm of what this rank has not sent yet, over all slots, as of their last calls that were compressed. */
double tagc_ledger_residual_norm(const struct tagc_ledger *ledger);

/* The row of a slot; slot < 0: the rest. */
struct tagc_ledger_row *tagc_ledger_row(struct tagc_ledger *ledger, int slot);

/* Gives it rows for the all-gathers of the parameters of these slots, under their names. False without memory. */
bool tagc_ledger_set_allgathers(struct tagc_ledger *ledger, const struct tagc_allgather_info *allgathers, size_t count);
/* The row of one of them, by its place; else that of all others. */
struct tagc_ledger_row *tagc_ledger_allgather_row(struct tagc_ledger *ledger, int place);

/* Adds the counts of a row to another (not its name, nor the state of its residual). */
void tagc_ledger_add(struct tagc_ledger_row *to, const struct tagc_ledger_row *from);

/* Prints the report of all ledgers of which this process is rank 0 (interpose/stats/exit_report.c). */
void tagc_report_print(const struct tagc_ledger *ledgers);

#endif
