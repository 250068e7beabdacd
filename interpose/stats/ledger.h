/* SPDX-License-Identifier: BSD-3-Clause
 * The accounts of a communicator: the costs of its calls, for the report at exit.
 *
 * A ledger outlives its communicator, because the process prints the report at its end. A process may make
 * communicators without end, so from the TAGC_LEDGERS_KEPTth on, one of which nothing was compressed only lasts as long
 * as its communicator, and goes into a sum. The thread that makes a call on the communicator writes it, one at a time;
 * the report reads it at exit, when no thread should run.
 */
#ifndef INTERPOSE_STATS_LEDGER_H
#define INTERPOSE_STATS_LEDGER_H

#include <stdint.h>

#include "interpose/ab/windows.h"
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

/* TAGC_CODEC=auto: the reasons for a slot's codec. */
struct tagc_decision_inputs {
  struct tagc_gradient_stats own;      /* of this rank, in its last sample */
  struct tagc_gradient_stats gradient; /* of all ranks, since the vote */
  struct tagc_choice choice;           /* of the vote */
};

/* The accounts of an all-gather of parameters. */
struct tagc_ledger_allgather {
  enum tagc_reason reason;     /* of the vote, or why it became plain later */
  bool again;                  /* an earlier one of the cycle gathers the same parameters */
  bool exact;                  /* its codec loses nothing */
  uint64_t refreshed;          /* plain calls as a new reference for later ones */
  uint64_t refused;            /* compressed calls with a shard that did not fit, which were repeated plainly */
  uint64_t own_left;           /* compressed calls in place: this rank's own shard stayed as exact as it was */
  uint64_t unchanged;          /* calls with this rank's shard unchanged since it was last gathered */
  struct tagc_traffic savable; /* sent by the unchanged ones */
  struct tagc_allgather_stats stats;
};

/* The times of calls on this rank, where known; a device reports them late, or not at all. In two levels the exchange
 * includes the sums of a host. */
struct tagc_ledger_times {
  double encode_ms, exchange_ms, decode_ms;
  double hidden_ms; /* the part of encode_ms and decode_ms beside the exchange, for which nobody waited */
  uint64_t calls;
  uint64_t flushes; /* on host memory: calls that sent the residual or a reference ... */
  double flush_ms;  /* ... and their times */
};

/* One slot, or everything without one. Traffic is that of this rank (kernels/codec/cost.h). */
struct tagc_ledger_row {
  char name[TAGC_LAYER_NAME];
  uint64_t count, shard;     /* elements as the program gives them to NCCL, and of a shard */
  enum tagc_layer_kind kind; /* of its layer */
  uint32_t unit;             /* in forward order */
  struct tagc_range home;    /* place of its gradients in registered memory, if it is constant; number 0: unknown */
  const char *codec;         /* of the vote; NULL: none */
  uint64_t calls, compressed;
  uint64_t raw_bytes;              /* of the send buffers of the compressed calls */
  struct tagc_traffic plain, sent; /* of the compressed calls: as a plain call, and as sent */
  uint64_t selected, elements;     /* of a send buffer, if compressed in part: selected, and all; else 0 */
  char *parameters;        /* the selected ones, if it is selected in part; slots that are alike share the text ... */
  bool owns_parameters;    /* ... of the first of them */
  uint64_t residual_bytes; /* memory held for it */
  uint64_t residuals_dropped; /* times it was dropped: mistaken slot, failed call, or step with NaN or Inf */
  struct tagc_codec_stats stats;
  bool error_known;
  double error;                        /* relative L2, of the last sample of its codec's loss (exec/loss_samples.h) */
  bool counted;                        /* a device has reported some of them */
  struct tagc_decision_inputs *inputs; /* the ledger's; only for slots with TAGC_CODEC=auto, else NULL */
  struct tagc_ledger_allgather allgather; /* of an all-gather; its reference's memory is residual_bytes */
};

/* Collectives whose larger buffer has TAGC_MIN_BYTES or more, compressed or not. */
struct tagc_ledger_large {
  uint64_t calls, reasons[TAGC_REASON_COUNT];
  struct tagc_traffic plain; /* sent by this rank, had all been plain */
};

/* Broadcasts. The bytes are those of the calls about which the ranks agree, plain in the end or not. */
struct tagc_ledger_broadcasts {
  const char *codec; /* TAGC_BROADCAST */
  uint64_t calls, compressed, kept, reasons[TAGC_REASON_COUNT];
  struct tagc_traffic plain, sent; /* as plain calls, and as sent */
  uint64_t reference_bytes;        /* memory of the references */
  struct tagc_ledger_times times;
};

/* The compressed calls of a stage of TAGC_SPARSITY. */
struct tagc_ledger_stage {
  uint64_t calls;
  struct tagc_traffic sent;
};

/* One side of TAGC_MODE=ab. */
struct tagc_ledger_side {
  struct tagc_series step_ms;
  struct tagc_traffic sent;           /* by reduce-scatters in the counted cycles */
  struct tagc_traffic allgather_sent; /* by all-gathers of parameters, with TAGC_ALLGATHER */
};

/* Times that add up. */
struct tagc_ledger_sum {
  uint64_t count;
  double ms;
};

static inline void tagc_ledger_sum_add(struct tagc_ledger_sum *sum, double ms) {
  sum->count++;
  sum->ms += ms;
}

enum { TAGC_LEDGERS_KEPT = 1000 };

struct tagc_ledger {
  struct tagc_ledger *next;
  int rank, nranks;
  struct tagc_hosts hosts;
  bool two_levels;
  uint64_t number;     /* in the order of the communicators' first use here */
  const char *codec;   /* TAGC_CODEC */
  const char *unknown; /* functions of its NCCL that nobody here sees called; "" or NULL: none */
  bool device_comm;    /* kernels of the program send on it (ncclDevCommCreate) */
  bool probed;         /* TAGC_CODEC=auto: the vote has probed the wire */
  struct tagc_wire wire;
  struct tagc_ledger_row *rows; /* of the slots of the last lock that had some */
  size_t row_count;
  struct tagc_retune *retune;          /* TAGC_BUDGET: of this lock; otherwise NULL */
  struct tagc_decision_inputs *inputs; /* of the rows, in their order; NULL without TAGC_CODEC=auto */
  char layers[TAGC_LAYERS_WORDS];      /* the guessed model of the slots; "": unknown */
  char or_layers[TAGC_LAYERS_WHAT];    /* the difference of the next best guess; "": none */
  struct tagc_ledger_row rest;         /* reduce-scatters outside slots, and slots of earlier locks */
  uint64_t reasons[TAGC_REASON_COUNT]; /* reduce-scatters, by reason */
  uint64_t allgathers_left;            /* of other_calls: all-gathers that TAGC_ALLGATHER could compress */
  enum tagc_reason allgathers_left_reason;
  struct tagc_traffic allgathers_left_sent;
  struct tagc_ledger_large large; /* its collectives of TAGC_MIN_BYTES and more */
  const char *taken_for;          /* what its cycle is taken for, and why; NULL: no cycle has been found */
  uint64_t other_calls;           /* calls other than reduce-scatters, and all-gathers or all-reduces with rows */
  bool all_reduces;               /* its slots are all-reduces, and so are the "reduce-scatters" here */
  struct tagc_ledger_times times; /* of compressed reduce-scatters */
  uint64_t cycles;                /* that have ended, of all locks */
  struct tagc_ledger_sum steps[TAGC_AB_SIDES]; /* those that measure a step: before the vote, plain, compressed */
  struct tagc_ledger_sum plain_calls;          /* plain calls whose time is known (exec/timing.h) */
  uint64_t cycles_plain, cycles_compressed; /* since calls may be compressed, without and with compressed reductions */
  struct tagc_ledger_stage stages[TAGC_STAGES];
  struct tagc_ledger_side sides[2];   /* plain, compressed */
  struct tagc_ab_windows *ab;         /* TAGC_MODE=ab: their steps, compared; else NULL */
  struct tagc_traffic sent, plain;    /* by all reduce-scatters so far, plain or not; and if all were plain */
  const char *allgather_codec;        /* TAGC_ALLGATHER; NULL: off, and the rest is empty */
  struct tagc_ledger_row *allgathers; /* of the all-gathers of parameters of the last lock */
  size_t allgather_count;
  struct tagc_ledger_row allgather_rest; /* other all-gathers of floating-point numbers, or those of earlier locks */
  uint64_t allgather_reasons[TAGC_REASON_COUNT];
  struct tagc_ledger_times allgather_times; /* of compressed all-gathers */
  struct tagc_traffic allgather_sent, allgather_plain;
  struct tagc_ledger_broadcasts *broadcasts; /* NULL: TAGC_BROADCAST=off */
};

/* Of the ledgers that are gone. */
struct tagc_ledgers_gone {
  uint64_t count;                 /* those of which this process was rank 0, of two and more */
  struct tagc_ledger_large large; /* of these */
  bool shared, elsewhere;         /* some had two ranks; some were another process's to report */
};

/* Those of a process. */
struct tagc_ledgers {
  struct tagc_ledger *first; /* in the order of their numbers */
  struct tagc_ledgers_gone gone;
};

/* The kind of its slots. */
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

/* Makes a ledger on the list of the process; NULL without memory. The first one sets up the report at exit
 * (TAGC_REPORT). */
struct tagc_ledger *tagc_ledger_create(int rank, int nranks);

/* Its communicator ends. False: the report wants it. True: nobody else may keep it any longer, and tagc_ledger_free()
 * comes next, which adds it to the sum. */
bool tagc_ledger_may_go(const struct tagc_ledger *ledger);
void tagc_ledger_free(struct tagc_ledger *ledger);

/* Keeps the ledgers and their rows in place, for a thread that reads them while others may run: at exit. False: another
 * thread was interrupted for good while it changed them. */
bool tagc_ledgers_hold(void);
void tagc_ledgers_release(void);

/* The slots are no longer valid. Their rows stay for the report until new ones come. */
void tagc_ledger_end_slots(struct tagc_ledger *ledger);

/* Makes rows for the slots of a new lock, named after their layers (NULL: by position). If all slots are the same, they
 * keep their old counts, which otherwise move into `rest`. False without memory. */
bool tagc_ledger_set_slots(struct tagc_ledger *ledger, const struct tagc_slot_info *slots, size_t count,
                           const struct tagc_layers *layers);

/* The L2 norm of this rank's unsent values over all slots, as of their last compressed calls. */
double tagc_ledger_residual_norm(const struct tagc_ledger *ledger);

/* The row of a slot; slot < 0: the rest. */
struct tagc_ledger_row *tagc_ledger_row(struct tagc_ledger *ledger, int slot);

/* Makes rows for the all-gathers of the parameters of these slots, under their names. False without memory. */
bool tagc_ledger_set_allgathers(struct tagc_ledger *ledger, const struct tagc_allgather_info *allgathers, size_t count);
/* The row of an all-gather, by its index; else that of all others. */
struct tagc_ledger_row *tagc_ledger_allgather_row(struct tagc_ledger *ledger, int place);

/* Adds the counts of a row to another (not its name, nor the state of its residual). */
void tagc_ledger_add(struct tagc_ledger_row *to, const struct tagc_ledger_row *from);

/* Prints the report of all ledgers of which this process is rank 0 (interpose/stats/exit_report.c). */
void tagc_report_print(const struct tagc_ledgers *ledgers);

#endif
