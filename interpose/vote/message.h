/* SPDX-License-Identifier: BSD-3-Clause
 * What ranks tell one another in a vote: messages of int64 for a min all-reduce, after which all ranks have the same.
 *
 * A message is one struct, or several behind one another. Each rank packs its own and unpacks the outcome; as in XDR
 * (RFC 4506) one function for a struct does both, so that they cannot differ. In the outcome the values of all ranks
 * have become one:
 *   bool, host       the least: true only where all ranks say so
 *   largest          the largest: packed negated. Bits of doubles that are not negative have the order of the numbers
 *   range            the least and the most: packed twice, once negated. Where all ranks have the same, these are equal
 *
 * Threads    Pure functions on memory.
 */
#ifndef INTERPOSE_VOTE_MESSAGE_H
#define INTERPOSE_VOTE_MESSAGE_H

#include "interpose/policy/choose.h"

struct tagc_message {
  int64_t *at; /* moves on */
  bool unpacks;
};

/* How many int64 each takes; that of the hosts beside one a rank. */
enum {
  TAGC_MESSAGE_FLAG = 1,
  TAGC_MESSAGE_HOSTS = 1,
  TAGC_MESSAGE_SAMPLE = 7 + 4 * TAGC_CANDIDATES,
  TAGC_MESSAGE_RATIOS = 2,
  TAGC_MESSAGE_PROBE = 2 * TAGC_ROUTES,
  TAGC_MESSAGE_SLOT = 9,
  TAGC_MESSAGE_ALLGATHER = 7
};

void tagc_message_flag(struct tagc_message *message, bool *flag);

/* Where the ranks are. */
struct tagc_vote_hosts {
  bool can_split; /* the rank can make sub-communicators */
  int nranks, rank;
  uint32_t host;     /* of the rank that packs */
  uint32_t *host_of; /* of each rank, unpacked; NULL: not wanted */
};
void tagc_message_hosts(struct tagc_message *message, struct tagc_vote_hosts *hosts);

/* TAGC_CODEC=auto: what is known of a slot's gradient. */
struct tagc_vote_sample {
  bool sampled;                     /* by the rank, ... */
  bool usual;                       /* ... without exceptions */
  enum tagc_reason reject_reason;   /* where ranks differ, one of theirs. TAGC_REASON_NONE: none */
  struct tagc_gradient_stats stats; /* largest; its exceptions are not packed */
};
void tagc_message_sample(struct tagc_message *message, struct tagc_vote_sample *sample);

/* TAGC_BUDGET: what plain calls take by what was estimated, and compressed ones: the least. 0: a rank has measured
 * nothing. */
void tagc_message_ratios(struct tagc_message *message, double ratios[2]);

/* The times that the probe has measured: the largest. */
void tagc_message_probe(struct tagc_message *message, struct tagc_probe *probe);

struct tagc_vote_range {
  int64_t least, most;
};
/* That of one rank. */
static inline struct tagc_vote_range tagc_vote_own(int64_t value) { return (struct tagc_vote_range){value, value}; }
static inline bool tagc_vote_is_same(struct tagc_vote_range range) { return range.least == range.most; }

/* What a rank would do with a slot, or with an all-gather of parameters. */
struct tagc_vote_proposal {
  bool can;                      /* it has the memory */
  struct tagc_vote_range reason; /* TAGC_REASON_compressed, or why not */
  struct tagc_vote_range codec;  /* the codec, how much it keeps, and the way of its messages, in one number */
  struct tagc_vote_range parts;  /* the part of the slot that is selected; not of an all-gather */
  struct tagc_vote_range chunks; /* in which its calls go; 0: it is not compressed */
};
void tagc_message_slot(struct tagc_message *message, struct tagc_vote_proposal *slot);
void tagc_message_allgather(struct tagc_message *message, struct tagc_vote_proposal *allgather);

#endif
