/* SPDX-License-Identifier: BSD-3-Clause
 * A trace while it is read into sums: what the parts of trace_gather*.c share.
 *
 * A program makes the same calls over and over: what two calls have in common but their times is a *sort*, of which
 * there are hundreds where there are millions of calls. Of a call itself 56 bytes are kept until the file has ended,
 * as only then it is known which communicator tells the steps, and which of these are whole.
 */
#ifndef INTERPOSE_TAGC_REPORT_READ_LOAD_H
#define INTERPOSE_TAGC_REPORT_READ_LOAD_H

#include "interpose/tagc-report/read/merge.h"
#include "interpose/tagc-report/read/table.h"

/* More than this is no number of a call: 4 TiB, a year. */
#define TAGC_BYTES_MOST (UINT64_C(1) << 42)
#define TAGC_NS_MOST (UINT64_C(366) * 86400 * 1000000000)
#define TAGC_ELEMENTS_MOST (UINT64_C(1) << 50)
enum {
  TAGC_LOAD_RECENT = 1 << 16, /* calls whose times may still come */
  TAGC_LOAD_EARLY = 1 << 10,  /* times whose calls may */
  TAGC_LOAD_CODES = 256,
  TAGC_LOAD_STREAMS = 64
};
#define TAGC_LOAD_ALLGATHER (UINT32_C(1) << 31)

struct tagc_sort_key {
  uint64_t count, raw_bytes;
  struct tagc_sum_sent sent, plain;
  uint32_t comm, lock; /* comm: index into the part's; UINT32_MAX: none */
  int32_t slot, peer;
  uint32_t allgather, choice; /* choice: of its slot's or all-gather's, from 1; 0: none by then */
  uint16_t function, reason;
  uint8_t type, op, compressed, failed;
};

struct tagc_sort {
  struct tagc_sort_key key;
  struct tagc_sum_calls calls, whole;
};

/* A call. */
struct tagc_light {
  uint64_t began_ns, host_ns, wire_ns;
  uint32_t sort, number, cycle; /* number: its low bits; cycle: likewise */
  uint32_t encode_ns, decode_ns, hidden_ns;
  bool timed, queued; /* queued: not done in the call itself, but later on its stream */
  bool hidden_unknown;
  uint8_t stream; /* index into the streams; the last one stands for all others, too */
};
_Static_assert(sizeof(struct tagc_light) == 56, "there may be millions of them");

struct tagc_load_cycle {
  uint32_t comm, lock;
  struct tagc_sum_step step;
  uint64_t first, last; /* numbers of its calls */
  uint32_t own;         /* its calls on the communicator itself */
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
  struct tagc_load_cycle *cycles;
  struct tagc_load_lock *locks;
  struct tagc_slot_place {
    uint32_t comm, lock, slot, place; /* slot: TAGC_LOAD_ALLGATHER + its number of an all-gather; place: in the
                                         communicator's slots */
  } * places;
  const struct tagc_placement *placement;
  struct tagc_comm_hosts *comm_hosts; /* of the part's communicators */
  size_t sort_count, light_count, cycle_count, lock_count, place_count;
  uint64_t streams[TAGC_LOAD_STREAMS];
  unsigned stream_count;
  uint32_t recent[TAGC_LOAD_RECENT];              /* by number: index into lights, from 1 */
  struct tagc_trace_times early[TAGC_LOAD_EARLY]; /* by number: of calls that have not come yet */
  struct {
    uint32_t comm, lock;
    uint64_t cycle;
  } vote; /* the last one: the records of slots behind it are its */
  bool no_memory;
};

/* A code of this file as the summary has it. */
uint8_t tagc_load_code(const struct tagc_load *g, enum tagc_trace_table table, uint16_t code);
/* Is that the name of the summary's code? */
bool tagc_load_named(const struct tagc_load *g, enum tagc_trace_table table, uint16_t code, const char *name);
/* The index of a communicator of the process; UINT32_MAX: it is none. */
uint32_t tagc_load_comm(struct tagc_load *g, uint32_t id);
/* The slot, or with TAGC_LOAD_ALLGATHER + number the all-gather. NULL without memory. */
struct tagc_sum_slot *tagc_load_slot(struct tagc_load *g, uint32_t comm, uint32_t lock, uint32_t slot);

/* The slot or all-gather of a call; NULL: it has none, or without memory. */
struct tagc_sum_slot *tagc_load_slot_of(struct tagc_load *g, const struct tagc_sort_key *key);

/* Times of a call that has some; none of one that does not know what of them was hidden. */
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
/* When the file has ended, in this order: what each communicator sent, the steps, and the rest. */
void tagc_load_bytes(struct tagc_load *g);
void tagc_load_steps(struct tagc_load *g);
void tagc_load_details(struct tagc_load *g);

#endif
