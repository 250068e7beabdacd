/* SPDX-License-Identifier: BSD-3-Clause
 * The messages of a vote: int64 for a min all-reduce, after which all ranks have the same values.
 *
 * A message is one struct, or several in a row. Each rank packs its own and unpacks the outcome. As in XDR (RFC 4506)
 * one function per struct does both, so that they cannot differ. The outcome merges the values of all ranks:
 *   bool, host       the least: true only if all ranks say so
 *   largest          the largest: packed negated. Bits of doubles that are not negative have the order of the numbers
 *   range            the least and the most: packed twice, once negated. They are equal if all ranks have the same
 *
 * Threads    Pure functions on memory.
 */
#ifndef INTERPOSE_VOTE_MESSAGE_H
#define INTERPOSE_VOTE_MESSAGE_H

#include "interpose/policy/choose.h"
#include "interpose/policy/changes.h"
#include "kernels/device/parameter_stats.h"

struct tagc_message {
  int64_t *at; /* moves on */
  bool unpacks;
};

/* The number of int64 of each; the hosts take one more for each rank. */
enum {
  TAGC_MESSAGE_FLAG = 1,
  TAGC_MESSAGE_MAP = 4,
  TAGC_MESSAGE_CHANGE = 2,
  TAGC_MESSAGE_VALUE = 2,
  TAGC_MESSAGE_HOSTS = 1,
  TAGC_MESSAGE_SAMPLE = 8 + 4 * TAGC_CANDIDATES,
  TAGC_MESSAGE_PARAMETERS = 4,
  TAGC_MESSAGE_RATIOS = 2,
  TAGC_MESSAGE_PROBE = 2 * TAGC_ROUTES,
  TAGC_MESSAGE_SLOT = 10,
  TAGC_MESSAGE_ALLGATHER = 7
};

void tagc_message_flag(struct tagc_message *message, bool *flag);

/* How the content of a call has changed. The rank that packs has one change, both members. */
void tagc_message_change(struct tagc_message *message, struct tagc_change_range *changes);

/* A value of what each rank sends: then the least and the largest. The rank that packs has one, both members. NaN: it
 * knows none, and the range is infinite. */
struct tagc_vote_value {
  float least, largest;
};
void tagc_message_value(struct tagc_message *message, struct tagc_vote_value *value);

/* Where the ranks are. */
struct tagc_vote_hosts {
  bool can_split; /* the rank can make sub-communicators */
  int nranks, rank;
  uint32_t host;     /* of the rank that packs */
  uint32_t *host_of; /* of each rank, when unpacking; NULL: not wanted */
};
void tagc_message_hosts(struct tagc_message *message, struct tagc_vote_hosts *hosts);

/* TAGC_CODEC=auto: a sample of a slot's gradient. */
struct tagc_vote_sample {
  bool sampled;                     /* by the rank, ... */
  bool usual;                       /* ... without exceptions */
  bool ordinary;                    /* its buffers lie in no symmetric windows */
  enum tagc_reason reject_reason;   /* if ranks differ, one of theirs. TAGC_REASON_NONE: none */
  struct tagc_gradient_stats stats; /* largest; its exceptions are not packed */
};
void tagc_message_sample(struct tagc_message *message, struct tagc_vote_sample *sample);

/* TAGC_ALLGATHER=auto: what exact makes of an all-gather's parameters: the largest. */
void tagc_message_parameters(struct tagc_message *message, struct tagc_parameter_stats *stats);

/* TAGC_BUDGET: measured by estimated times of plain and of compressed calls: the least. 0: unmeasured on some rank. */
void tagc_message_ratios(struct tagc_message *message, double ratios[2]);

/* The times of the probe: the largest. */
void tagc_message_probe(struct tagc_message *message, struct tagc_probe *probe);

struct tagc_vote_range {
  int64_t least, most;
};
/* The range of one rank. */
static inline struct tagc_vote_range tagc_vote_own(int64_t value) { return (struct tagc_vote_range){value, value}; }
static inline bool tagc_vote_is_same(struct tagc_vote_range range) { return range.least == range.most; }

/* TAGC_LAYERMAP=torch: what PyTorch says on a rank. */
struct tagc_vote_map {
  bool answered; /* else the rank will have an answer in a later cycle */
  bool found;
  struct tagc_vote_range digest;
};
void tagc_message_map(struct tagc_message *message, struct tagc_vote_map *map);

/* A rank's proposal for a slot or an all-gather of parameters. */
struct tagc_vote_proposal {
  bool can;                      /* the rank has the memory */
  bool support;                  /* nonzero sums of the slot may be gathered; not of an all-gather */
  struct tagc_vote_range reason; /* TAGC_REASON_compressed, or why not */
  struct tagc_vote_range codec;  /* the codec, its keep_ppm, stages and the way of its messages, in one number */
  struct tagc_vote_range parts;  /* the selected part of the slot; not of an all-gather */
  struct tagc_vote_range chunks; /* number of chunks of its calls; 0: not compressed */
};
void tagc_message_slot(struct tagc_message *message, struct tagc_vote_proposal *slot);
void tagc_message_allgather(struct tagc_message *message, struct tagc_vote_proposal *allgather);

#endif
