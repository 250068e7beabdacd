/* SPDX-License-Identifier: BSD-3-Clause
 * What ranks tell one another in a vote: messages of int64 for a min all-reduce, after which all ranks have the same.
 *
 * A message is a struct. Each rank packs its own; all unpack what comes out, in which the values of all ranks have become one:
 *   bool, host       the least: true only where all ranks say so
 *   largest          the largest, for it is packed negated. The bits of doubles that are not negative have the order of the numbers
 *   range            the least and the largest, for it is packed twice, once negated: equal where all ranks have the same
 * Packing and unpacking move a cursor on, so that one message follows another.
 *
 * Threads    Pure functions on memory.
 */
#ifndef INTERPOSE_VOTE_MESSAGE_H
#define INTERPOSE_VOTE_MESSAGE_H

#include "interpose/policy/choose.h"

/* How many int64 each takes; of that of the hosts, beside one a rank. */
enum { TAGC_VOTE_FLAG_WORDS = 1, TAGC_VOTE_HOSTS_WORDS = 1, TAGC_VOTE_SAMPLE_WORDS = 7 + 4 * TAGC_CANDIDATES, TAGC_VOTE_RATIOS_WORDS = 2,
       TAGC_VOTE_PROBE_WORDS = 2 * TAGC_ROUTES, TAGC_VOTE_SLOT_WORDS = 9, TAGC_VOTE_ALLGATHER_WORDS = 7 };

/* Do all ranks say so? */
void tagc_vote_flag_pack(int64_t **to, bool flag);
bool tagc_vote_flag_unpack(const int64_t **from);

/* Where the ranks are. */
struct tagc_vote_hosts {
  bool can_split;                   /* the rank can make sub-communicators */
  int nranks, rank;
  uint32_t host;                    /* of the rank that packs */
  uint32_t *host_of;                /* unpacked: of each rank; NULL: nobody wants to know */
};
void tagc_vote_hosts_pack(int64_t **to, const struct tagc_vote_hosts *hosts);
void tagc_vote_hosts_unpack(const int64_t **from, struct tagc_vote_hosts *hosts);

/* TAGC_CODEC=auto: what is known of a slot's gradient. */
struct tagc_vote_sample {
  bool sampled;                     /* by the rank, ... */
  bool usual;                       /* ... without exceptions */
  enum tagc_reason reject_reason;   /* where ranks differ, one of theirs. TAGC_REASON_NONE: none */
  struct tagc_gradient_stats stats;         /* largest; its exceptions are not packed */
};
void tagc_vote_sample_pack(int64_t **to, const struct tagc_vote_sample *sample);
void tagc_vote_sample_unpack(const int64_t **from, struct tagc_vote_sample *sample);

/* TAGC_BUDGET: what plain calls take by what was estimated, and compressed ones: the least. */
void tagc_vote_ratios_pack(int64_t **to, const double ratios[2]);
void tagc_vote_ratios_unpack(const int64_t **from, double ratios[2]);

/* The times that the probe has measured: the largest. */
void tagc_vote_probe_pack(int64_t **to, const struct tagc_probe *probe);
void tagc_vote_probe_unpack(const int64_t **from, struct tagc_probe *probe);

struct tagc_vote_range {
  int64_t least, most;
};
/* That of one rank. */
static inline struct tagc_vote_range tagc_vote_own(int64_t value) { return (struct tagc_vote_range){value, value}; }
static inline bool tagc_vote_is_same(struct tagc_vote_range range) { return range.least == range.most; }

/* What a rank would do with a slot. */
struct tagc_vote_slot {
  bool can;                         /* it has the memory */
  struct tagc_vote_range reason;    /* TAGC_REASON_compressed, or why not */
  struct tagc_vote_range codec;     /* the codec, how much it keeps, and the way of its messages, in one number */
  struct tagc_vote_range parts;     /* the part of the slot that is selected */
  struct tagc_vote_range chunks;    /* in which its calls go; 0: it is not compressed */
};
void tagc_vote_slot_pack(int64_t **to, const struct tagc_vote_slot *slot);
void tagc_vote_slot_unpack(const int64_t **from, struct tagc_vote_slot *slot);

/* And with an all-gather of parameters. */
struct tagc_vote_allgather {
  bool can;
  struct tagc_vote_range reason, codec, chunks;
};
void tagc_vote_allgather_pack(int64_t **to, const struct tagc_vote_allgather *allgather);
void tagc_vote_allgather_unpack(const int64_t **from, struct tagc_vote_allgather *allgather);

#endif
