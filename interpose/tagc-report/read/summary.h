/* SPDX-License-Identifier: BSD-3-Clause
 * The traces of a job, summarized: merged ranks, sums, steps. All output of tagc-report comes from this, and, for
 * single calls, from a second reading of the files.
 *
 * Ranks       A process is a rank of its job. Its number is that in the largest communicator which all traces have (the
 *             first such), else its place in the order of the files.
 * Merging     Communicators of different processes are one if their identities are equal. Without identities, those
 *             with as many ranks are one, each rank once, in order of appearance.
 * Steps       The cycles of the *main* communicator: the one with gradients whose calls have most bytes, else the one
 *             with a cycle and most bytes. Calls on others count for the step in which they began.
 * Units       Bytes, nanoseconds. Sums are over the ranks with a trace, unless they are of one rank.
 * Ownership   tagc_sum_free() frees everything.
 * Threads     One at a time.
 */
#ifndef INTERPOSE_TAGC_REPORT_READ_SUMMARY_H
#define INTERPOSE_TAGC_REPORT_READ_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/tagc-report/read/records.h"

#define TAGC_NS_MOST (UINT64_C(366) * 86400 * 1000000000) /* a year: longer times are absurd */

/* Bytes sent inside hosts, and between them. */
struct tagc_sum_sent {
  uint64_t inside, between;
};

static inline uint64_t tagc_sent_all(const struct tagc_sum_sent *sent) {
  return sent->inside > UINT64_MAX - sent->between ? UINT64_MAX : sent->inside + sent->between;
}

/* Sums over some calls. */
struct tagc_sum_calls {
  uint64_t calls, compressed, failed;
  uint64_t raw_bytes;
  struct tagc_sum_sent sent, plain; /* plain: if all had been plain */
  uint64_t host_ns;                 /* the program's thread was in them */
  uint64_t alone_calls, alone_ns;   /* the calls outside of groups, and their host_ns */
  uint64_t wire_calls, wire_ns;     /* the number of calls with known times, and their time under way (sum, exchange) */
  uint64_t encode_ns, decode_ns;    /* of these */
  uint64_t hidden_ns;               /* the part of encode and decode during the transfer */
  uint64_t packed_wire_calls, packed_wire_ns; /* the compressed ones of these */
};

/* The share of encode in hidden_ns, split in proportion to encode and decode. hidden <= encode + decode. */
static inline uint64_t tagc_encode_hidden(uint64_t encode_ns, uint64_t decode_ns, uint64_t hidden_ns) {
  const double share = encode_ns ? (double)encode_ns / ((double)encode_ns + (double)decode_ns) : 0;
  const uint64_t least = hidden_ns > decode_ns ? hidden_ns - decode_ns : 0,
                 most = hidden_ns < encode_ns ? hidden_ns : encode_ns;
  const uint64_t guess = (uint64_t)((double)hidden_ns * share);
  return guess < least ? least : guess > most ? most : guess;
}

/* Calls of one function, element type and size class: 2^size_class <= raw bytes < 2^(size_class + 1); -1: no bytes. */
struct tagc_sum_line {
  uint16_t function;
  uint8_t type, op;
  int8_t size_class;
  struct tagc_sum_calls calls;
  uint64_t least_count, most_count; /* as passed to the function */
  double per_step;                  /* calls of a rank in a whole step; NaN: no steps */
  struct tagc_sum_calls whole;      /* only those in whole steps */
};

struct tagc_group_times {
  uint64_t groups, bytes, ns, least_ns; /* sums, and the shortest one; ns: the program's thread was in the group's end
                                         */
};

/* Groups (ncclGroupStart to ncclGroupEnd) of messages between two ranks, on one communicator and of nothing else. Where
 * calls return when they are done, so does the end of the group: that of all its messages. A call in it has no such
 * time. */
struct tagc_sum_group {
  uint32_t sends, receives;
  int8_t size_class; /* of the bytes of a group, sent and received */
  struct tagc_group_times all, whole;
};

/* A sample of the loss of a slot's codec: means over the ranks. NaN: unknown. */
struct tagc_sum_point {
  uint64_t cycle;
  double error;    /* relative L2 */
  double residual; /* |residual| */
  double gradient; /* |gradient| */
};

/* A vote's choice for a slot. */
struct tagc_sum_choice {
  uint64_t cycle; /* of the lock: valid from this one */
  char *codec;    /* "": none */
  uint16_t reason;
  struct tagc_sum_calls calls; /* until the next choice */
};

/* A reduce-scatter or a large all-reduce of a cycle, or an all-gather of the parameters of one. */
struct tagc_sum_slot {
  uint32_t lock, slot, unit, pass; /* slot: from 0; all-gathers: a number of their own, from 1; unit, pass: of the slot
                                    */
  bool all_reduce;                 /* `count` is that of the whole buffer */
  uint32_t of;                     /* all-gathers: the slot of the same unit */
  bool again;                      /* all-gathers: of unchanged data gathered before in the cycle */
  char *name, *codec;              /* "block.3", "q4"; codec: the latest, "" for none */
  struct tagc_sum_choice *choices; /* of all votes that changed its codec, by cycle */
  size_t choice_count;
  enum tagc_trace_part kind; /* of most of its elements; TAGC_TRACE_OTHER: unknown */
  bool parts_known;
  uint64_t part[TAGC_TRACE_PARTS]; /* elements of all shards */
  uint64_t count;                  /* elements of a shard */
  uint16_t type, reason;           /* reason: of the vote */
  bool voted;
  uint64_t selected; /* compressed elements of all shards */
  struct tagc_sum_calls calls;
  struct tagc_sum_calls gathered; /* slots: the all-gathers of its unit */
  struct tagc_sum_point *points;  /* by cycle; thinned evenly to at most TAGC_SUM_POINTS */
  size_t point_count;
};

enum {
  TAGC_SUM_POINTS = 256,
  TAGC_SUM_AMBIGUOUS = 50 /* per cent: layers of less confidence may be wrong */
};

/* One cycle of a process's main communicator. */
enum tagc_sum_side { TAGC_SUM_NEITHER, TAGC_SUM_PLAIN, TAGC_SUM_COMPRESSED, TAGC_SUM_SIDES };

/* What NCCL's proxies have sent to other hosts. */
struct tagc_sum_network {
  uint64_t bytes;
  uint64_t sending_ns;                  /* the network had something of an operation: sum over operations */
  uint64_t gpu_ns, peer_ns, network_ns; /* sums over pieces: waits for the kernel, for the receiver, and on the way */
};

struct tagc_sum_step {
  uint64_t cycle, began_ns, ns; /* on the clock of the process */
  uint32_t lock;
  uint8_t side; /* enum tagc_sum_side */
  bool whole;   /* undisturbed and complete in the trace: a measurement */
  uint32_t calls;
  struct tagc_sum_sent sent, plain; /* by all communicators */
  uint64_t raw_bytes;
  uint64_t untimed_bytes; /* of raw_bytes, those of calls whose time under way is unknown */
  uint64_t host_ns;       /* the program's threads were in calls */
  uint64_t wire_ns;       /* calls were under way, as far as known; simultaneous ones on several streams count once */
  uint32_t kernels_due, kernels; /* calls that run a kernel of NCCL, and those whose kernel its profiler saw */
  bool profiled;                 /* the profiler saw something, so `network` is known */
  struct tagc_sum_network network;
};

/* Are the times of all kernels of NCCL in the step known? Then wire_ns is exact. */
static inline bool tagc_sum_step_exact(const struct tagc_sum_step *step) {
  return step->kernels_due && step->kernels == step->kernels_due;
}

/* Are the times of nearly all bytes known? Else wire_ns is the least that it can be. */
static inline bool tagc_sum_step_timed(const struct tagc_sum_step *step) {
  return step->untimed_bytes <= step->raw_bytes / 20;
}

/* One process. */
struct tagc_sum_rank {
  char *path, *host, *program, *version, *options;
  int32_t pid;
  int number; /* of the job's ranks */
  uint32_t nccl_version;
  int64_t clock_ns;           /* add this to a time of this process: nanoseconds since 1970, by its host's clock */
  uint64_t first_ns, last_ns; /* of its calls */
  struct tagc_trace_health health;
  struct tagc_sum_calls calls;
  struct tagc_sum_step *steps;
  size_t step_count;
  size_t host_index;                     /* ranks with equal ones share a host */
  bool blocking;                         /* calls return when done: host_ns is exposed communication */
  uint8_t code[TAGC_TRACE_OPS + 1][256]; /* of its trace -> of the summary: versions of files may differ */
};

/* A communicator in one process. */
struct tagc_sum_member {
  size_t rank;                /* index into ranks */
  uint32_t id;                /* in its trace */
  int32_t as;                 /* its rank in the communicator; -1: unknown */
  uint64_t born_ns, ended_ns; /* ended: 0: not */
  uint16_t born_by, ended_by; /* functions */
};

/* A vote that chose or changed codecs. */
struct tagc_sum_vote {
  uint32_t lock, vote; /* vote: of the lock, from 1 */
  uint64_t cycle;      /* the first that they apply to */
  uint64_t at_ns;      /* by the clock of the first rank */
  char *why;           /* "": the first vote, or unknown */
};

enum tagc_sum_role {
  TAGC_ROLE_UNKNOWN,
  TAGC_ROLE_SHARDED /* FSDP, ZeRO-3 */,
  TAGC_ROLE_OPTIMIZER /* ZeRO-1, ZeRO-2, Megatron's distributed optimizer */,
  TAGC_ROLE_DATA /* all-reduced gradients */,
  TAGC_ROLE_TENSOR,
  TAGC_ROLE_SEQUENCE /* tensor with sequence parallel */,
  TAGC_ROLE_PIPELINE,
  TAGC_ROLE_EXPERT,
  TAGC_ROLE_CONTROL /* small calls alone: norms, barriers, losses */,
  TAGC_ROLE_IDLE,
  TAGC_ROLE_CONTEXT /* keys and values go round in a ring */,
  TAGC_ROLES
};

/* Destinations of ncclSend, counted in calls: the next rank, the previous one, around the ends (last to first, or back;
 * with more than two ranks), and others. */
enum tagc_sum_way { TAGC_WAY_ON, TAGC_WAY_BACK, TAGC_WAY_ROUND_ON, TAGC_WAY_ROUND_BACK, TAGC_WAY_ACROSS, TAGC_WAYS };

/* A communicator of the job. */
struct tagc_sum_comm {
  uint64_t identity;
  uint32_t number;                 /* in the log of its first rank; UINT32_MAX: none */
  int nranks;                      /* -1: unknown */
  uint32_t hosts;                  /* 0: unknown */
  struct tagc_sum_member *members; /* in the order of their ranks */
  size_t member_count;
  struct tagc_sum_calls calls;
  struct tagc_sum_line *lines; /* by function, type, op, size class */
  size_t line_count;
  struct tagc_sum_group *groups; /* by sends, receives, size class */
  size_t group_count;
  struct tagc_sum_slot *slots; /* of all its locks with calls, in order, as on the first rank; calls of all ranks */
  size_t slot_count;
  struct tagc_sum_slot *allgathers; /* all-gathers of parameters, likewise */
  size_t allgather_count;
  struct tagc_sum_vote *votes; /* of its locks, in order, as on the first rank */
  size_t vote_count;
  uint32_t last_lock;
  bool unknown;   /* its NCCL has functions whose calls the library did not see */
  bool gradients; /* of the last lock */
  unsigned confidence;
  char *layers, *or_layers; /* of the last lock; "": unknown */
  uint64_t whole_steps;     /* of all members together */
  uint64_t reasons[256];    /* outcomes of reduce-scatters, and of all-reduces that are slots (codes of NAME records) */
  uint64_t allgather_reasons[256]; /* all-gathers of parameters, likewise */
  uint64_t broadcast_reasons[256]; /* broadcasts with TAGC_BROADCAST, likewise */
  bool all_reduces;                /* some slots are all-reduces */
  enum tagc_sum_role role;         /* set by tagc_sum_roles() */
  const char *role_grounds;        /* the reasons, in words */
  uint64_t sends[TAGC_WAYS];       /* of members with a known rank in it */
  char role_text[240];             /* may hold role_grounds */
};

/* Codes and their names, of all files together: code -> text; NULL: unnamed. */
struct tagc_sum_names {
  char *text[6][256]; /* by enum tagc_trace_table */
};

struct tagc_summary {
  struct tagc_sum_rank *ranks; /* by number */
  size_t rank_count;
  struct tagc_sum_comm *comms; /* the main one first, then by bytes sent */
  size_t comm_count;
  bool has_main; /* comms[0] is the main one, and ranks have steps */
  struct tagc_sum_names names;
  char **problems; /* sentences about unreadable files, damaged chunks, dropped records, ranks without a trace */
  size_t problem_count;
};

/* Reads the traces. Unreadable files become problems. NULL: no memory. */
struct tagc_summary *tagc_sum_read(char *const *paths, size_t count);
void tagc_sum_free(struct tagc_summary *summary);

/* Converts a code of that rank's trace to the summary's. */
uint8_t tagc_sum_code(const struct tagc_sum_rank *rank, enum tagc_trace_table table, uint16_t code);

/* Number of hosts of the job: NCCL's settings may separate hosts that share a system name. */
size_t tagc_sum_hosts(const struct tagc_summary *summary);

/* True if the contents of its slots are known. */
static inline bool tagc_sum_layers_known(const struct tagc_sum_comm *comm) {
  return comm->layers && *comm->layers && comm->confidence > 0;
}

/* The choice for the slot's calls of a cycle; NULL: none yet. */
const struct tagc_sum_choice *tagc_sum_choice_of(const struct tagc_sum_slot *slot, uint64_t cycle);
/* Why calls of the communicator may be missing, in words; NULL: they are all seen. */
const char *tagc_sum_unseen(const struct tagc_summary *summary, const struct tagc_sum_comm *comm);
/* "embed", "attn", ... */
const char *tagc_sum_kind(enum tagc_trace_part kind);
/* The name of a code; NULL, or "?", if unnamed. */
const char *tagc_sum_find_name(const struct tagc_summary *summary, enum tagc_trace_table table, uint16_t code);
const char *tagc_sum_name(const struct tagc_summary *summary, enum tagc_trace_table table, uint16_t code);
/* Bytes of an element of a type with this name ("float32"); 0: unknown. */
unsigned tagc_sum_element(const char *type);
/* The name of a function without "nccl": "ReduceScatter". */
const char *tagc_sum_function(const struct tagc_summary *summary, uint16_t function);
/* Is the text this name? A function is the same with a configuration for the call (ncclAllReduceConfig). */
bool tagc_sum_same(enum tagc_trace_table table, const char *text, const char *name);
/* The same for the name of a code. */
bool tagc_sum_is(const struct tagc_summary *summary, enum tagc_trace_table table, uint16_t code, const char *name);

#endif
