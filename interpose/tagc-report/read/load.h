/* SPDX-License-Identifier: BSD-3-Clause
 * A trace while it is read into sums: shared by the load*.c files.
 *
 * A program repeats its calls: calls that differ only in their times are one *sort*; there are hundreds of sorts and
 * millions of calls. Where the counts of messages change from call to call (tokens of experts) there could be as many
 * sorts as calls: past TAGC_LOAD_SORTS the messages of a size class are one. A single call takes 64 bytes, kept until
 * the file ends. Only then are the communicator that defines steps, and the whole ones among these, known.
 */
#ifndef INTERPOSE_TAGC_REPORT_READ_LOAD_H
#define INTERPOSE_TAGC_REPORT_READ_LOAD_H

#include "interpose/tagc-report/read/merge.h"
#include "interpose/tagc-report/read/table.h"

/* Larger values are absurd, as are times over TAGC_NS_MOST: 4 TiB. */
#define TAGC_BYTES_MOST (UINT64_C(1) << 42)
#define TAGC_ELEMENTS_MOST (UINT64_C(1) << 50)
enum {
  TAGC_LOAD_RECENT = 1 << 16, /* calls still without times */
  TAGC_LOAD_EARLY = 1 << 10,  /* times still without calls */
  TAGC_LOAD_SORTS = 1 << 12,
  TAGC_LOAD_CODES = 256,
  TAGC_LOAD_STREAMS = 64,
  TAGC_LOAD_OPEN_GROUPS = 1 << 8 /* of several threads at once */
};
#define TAGC_LOAD_ALLGATHER (UINT32_C(1) << 31)

struct tagc_sort_key {
  uint64_t count, raw_bytes;
  struct tagc_sum_sent sent, plain;
  uint32_t comm, lock; /* comm: index into the part's; UINT32_MAX: none */
  int32_t slot, peer;
  uint32_t allgather, choice; /* choice: of its slot's or all-gather's, from 1; 0: none yet */
  uint8_t function, reason, type, op, compressed, failed;
  uint8_t folded; /* calls of different counts: `count` is 1, and bytes tell their size class, or 0 where none are sent
                   */
  uint8_t unused;
};

struct tagc_sort {
  struct tagc_sort_key key;
  uint64_t least_count, most_count;
  struct tagc_sum_calls calls, whole;
};

struct tagc_light {
  uint64_t began_ns, host_ns, wire_ns, raw_bytes;
  uint32_t sort, number, cycle; /* low bits of number and cycle */
  uint32_t encode_ns, decode_ns, hidden_ns;
  bool timed, queued; /* queued: it runs later on its stream, not in the call itself */
  bool hidden_unknown;
  uint8_t stream;   /* index into the streams; the last one also stands for all others */
  uint32_t profile; /* index into the profiles, from 1: NCCL's profiler saw its kernel; 0: none */
};
_Static_assert(sizeof(struct tagc_light) == 64, "there may be millions of them");

/* A PROFILE record. */
struct tagc_load_profile {
  uint64_t call, posted_ns;
  uint64_t kernel_began_ns, kernel_ns; /* kernel_ns 0: unknown */
  struct tagc_sum_network network;
};

struct tagc_load_cycle {
  uint32_t comm, lock;
  struct tagc_sum_step step;
  uint64_t first, last; /* numbers of its calls */
  uint32_t own;         /* those on the communicator itself */
};

/* A group of messages between two ranks. */
struct tagc_load_group {
  uint64_t began_ns, ns, bytes; /* of its end; ns 0: its time is not that of its messages */
  uint32_t comm, sends, receives;
};

struct tagc_load_lock {
  uint32_t comm, lock, calls;
};

/* A file while it is read. */
struct tagc_load {
  struct tagc_part *part;
  struct tagc_sum_names *names;
  struct tagc_table comm_table, sort_table, slot_table;
  struct tagc_sort *sorts;
  struct tagc_light *lights;
  struct tagc_load_profile *profiles;
  struct tagc_load_cycle *cycles;
  struct tagc_load_lock *locks;
  struct tagc_load_group *groups;
  struct tagc_slot_place {
    uint32_t comm, lock, slot, place; /* slot: of all-gathers TAGC_LOAD_ALLGATHER + number; place: among the slots */
  } * places;
  const struct tagc_placement *placement;
  struct tagc_comm_hosts *comm_hosts; /* of the part's communicators */
  size_t group_count, sort_count, light_count, profile_count, cycle_count, lock_count, place_count;
  struct tagc_open_group {
    uint32_t number; /* of the process; 0: none */
    bool other;      /* it has other calls, too */
    size_t place; /* among the groups, from 1, once its end was seen; a group may have several ends, one in another */
    struct tagc_load_group group;
  } open_groups[TAGC_LOAD_OPEN_GROUPS];
  uint64_t streams[TAGC_LOAD_STREAMS];
  unsigned stream_count;
  uint32_t recent[TAGC_LOAD_RECENT];              /* by number: index into lights, from 1 */
  struct tagc_trace_times early[TAGC_LOAD_EARLY]; /* by number: of calls still to come */
  uint32_t early_profiles[TAGC_LOAD_EARLY];       /* likewise: index into the profiles, from 1 */
  struct {
    uint32_t comm, lock;
    uint64_t cycle;
  } vote; /* the latest: the slots' records behind it belong to it */
  bool no_memory;
};

/* Converts a code of this file to the summary's. */
uint8_t tagc_load_code(const struct tagc_load *g, enum tagc_trace_table table, uint16_t code);
/* True if the summary's code has this name. */
bool tagc_load_named(const struct tagc_load *g, enum tagc_trace_table table, uint16_t code, const char *name);
/* The index of a communicator of the process; UINT32_MAX: none. */
uint32_t tagc_load_comm(struct tagc_load *g, uint32_t id);
/* The slot, or with TAGC_LOAD_ALLGATHER + number the all-gather. NULL: no memory. */
struct tagc_sum_slot *tagc_load_slot(struct tagc_load *g, uint32_t comm, uint32_t lock, uint32_t slot);

/* The slot or all-gather of a call; NULL: none, or no memory. */
struct tagc_sum_slot *tagc_load_slot_of(struct tagc_load *g, const struct tagc_sort_key *key);

/* The bytes of a call. */
struct tagc_call_bytes {
  uint64_t raw;
  struct tagc_sum_sent sent, plain;
};
struct tagc_call_bytes tagc_load_bytes_of(const struct tagc_load *g, const struct tagc_sort_key *key, uint64_t raw);
/* Adds them to sums of a folded sort; those of other sorts follow from the number of calls. */
void tagc_load_add_bytes(const struct tagc_load *g, struct tagc_sum_calls *sum, const struct tagc_sort_key *key,
                         uint64_t raw);

/* Adds the times of a timed call, unless its hidden part is unknown. */
static inline void tagc_load_add_times(struct tagc_sum_calls *sum, const struct tagc_light *light, bool compressed) {
  if (light->hidden_unknown)
    return;
  sum->wire_calls++;
  tagc_sum_add(&sum->wire_ns, light->wire_ns);
  tagc_sum_add(&sum->encode_ns, light->encode_ns);
  tagc_sum_add(&sum->decode_ns, light->decode_ns);
  tagc_sum_add(&sum->hidden_ns, light->hidden_ns);
  sum->packed_wire_calls += compressed;
  tagc_sum_add(&sum->packed_wire_ns, compressed ? light->wire_ns : 0);
}

void tagc_load_call(struct tagc_load *g, const struct tagc_trace_call *record);
void tagc_load_times(struct tagc_load *g, const struct tagc_trace_times *record);
void tagc_load_profile(struct tagc_load *g, const struct tagc_trace_profile *record);
/* Is that a time in a whole step? Only after tagc_load_steps(). `near`: 0, and for later times as it was left. */
bool tagc_load_in_whole_step(struct tagc_load *g, uint64_t ns, size_t *near);
/* The kernel of a plain call is known: its time replaces others. `profile`: index into the profiles, from 1. */
void tagc_load_call_profile(struct tagc_load *g, struct tagc_light *light, uint32_t profile);
/* The profile that came before its call; 0: none. */
uint32_t tagc_load_early_profile(const struct tagc_load *g, uint64_t call);
/* A call of a group, or its end. */
void tagc_load_group_call(struct tagc_load *g, const struct tagc_trace_call *record, const struct tagc_sort_key *key);
/* Called at the end of the file, in this order: each communicator's bytes, the steps, the groups, the rest. */
void tagc_load_bytes(struct tagc_load *g);
void tagc_load_steps(struct tagc_load *g);
void tagc_load_groups(struct tagc_load *g);
void tagc_load_details(struct tagc_load *g);

#endif
