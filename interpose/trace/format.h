/* SPDX-License-Identifier: BSD-3-Clause
 * Traces: what TAGC_TRACE=PREFIX writes, a file a process, and tagc-report reads. man/tagc-trace.5 tells it to others.
 *
 * A file is a head, and chunks behind it. A chunk is a header and records, and is whole or damaged: its sum tells. So a
 * file that was cut, or damaged in the middle, loses what was there, and nothing else. All numbers are in the byte
 * order of the machine that wrote them (`order` tells), all structs below lie in the file as they stand here, and all
 * of them begin at multiples of 8 bytes.
 *
 * Versions   A reader refuses another major version. Of a minor one that is higher than its own it skips the kinds of
 *            records that it does not know, and what records that it does know have behind their last field here; what
 *            a record of a lower one lacks at its end is 0. Codes (of functions, reasons, ...) are told by NAME records
 *            before their first use.
 *            1.1: kinds ALLGATHER and VOTE; TIMES has hidden_ns and hidden_unknown, CALL and STATE have allgather, SLOT
 *            has a third text.
 * Times      Nanoseconds of CLOCK_MONOTONIC of the process; the PROCESS record has that clock and the realtime clock of
 *            one moment.
 * Bytes      raw: of the program's send buffer. inside, between: what this rank sends for the call to ranks of its own
 *            host, and to others, by the algorithms that NCCL uses (kernels/codec/cost.h, and trace.h for collectives
 *            other than reduce-scatters).
 */
#ifndef INTERPOSE_TRACE_FORMAT_H
#define INTERPOSE_TRACE_FORMAT_H

#include <stdint.h>

#define TAGC_TRACE_MAGIC "TAGC\r\n\032\n" /* which text modes of copying damage */
#define TAGC_TRACE_CHUNK_MAGIC UINT32_C(0x4b4e4843)

enum {
  TAGC_TRACE_MAJOR = 1,
  TAGC_TRACE_MINOR = 1,
  TAGC_TRACE_ORDER = 0x01020304,
  TAGC_TRACE_CHUNK_MOST = 1 << 20, /* bytes of records in a chunk */
  TAGC_TRACE_RECORD_MOST = 1 << 15 /* bytes of a record */
};

struct tagc_trace_head {
  char magic[8];
  uint32_t order;
  uint16_t major, minor;
  uint32_t head_bytes; /* the first chunk begins there */
  uint32_t reserved;
};

struct tagc_trace_chunk {
  uint32_t magic;
  uint32_t bytes;   /* of the records behind this header */
  uint64_t number;  /* from 0, without gaps */
  uint64_t dropped; /* records that there was no room for, since the trace began */
  uint64_t sum;     /* FNV-1a (env/hash.h) of this header with sum = 0, and of the records */
};

enum tagc_trace_kind {
  TAGC_TRACE_PROCESS = 1, /* the first record */
  TAGC_TRACE_NAME,
  TAGC_TRACE_OPTIONS,
  TAGC_TRACE_COMM, /* what is known of a communicator by now; a later one has more */
  TAGC_TRACE_COMM_END,
  TAGC_TRACE_LOCK, /* the cycle of a communicator has been found; its slots follow */
  TAGC_TRACE_SLOT, /* and again after a vote, with what came of it */
  TAGC_TRACE_CALL,
  TAGC_TRACE_TIMES, /* of an earlier call, whenever they are known */
  TAGC_TRACE_CYCLE, /* one has ended */
  TAGC_TRACE_STATE, /* of a slot: what its codec loses */
  TAGC_TRACE_END,   /* the last record of a process that ended in order, or of a file that is as long as it may be */
  TAGC_TRACE_ALLGATHER, /* an all-gather of parameters in the cycle, told as slots are */
  TAGC_TRACE_VOTE,      /* codecs of slots have been chosen, or changed; SLOT and ALLGATHER records follow */
  TAGC_TRACE_KINDS
};

/* Every record begins so, and is a multiple of 8 bytes long, with zeros behind its texts. Texts are UTF-8 with a
 * NUL. */
struct tagc_trace_record {
  uint16_t kind;  /* enum tagc_trace_kind */
  uint16_t bytes; /* with these */
  uint32_t comm;  /* the process's number of the communicator, from 1 in the order in which they were seen; 0: none */
};

struct tagc_trace_process {
  struct tagc_trace_record record;
  int32_t pid;
  uint32_t nccl_version; /* as ncclGetVersion tells it; 0: not known yet */
  int64_t realtime_ns;   /* since 1970 */
  uint64_t monotonic_ns; /* at the same moment */
  char text[]; /* host, program, version of the library, and a number that ranks of one host share: texts, one behind
                  the other */
};

enum tagc_trace_table {
  TAGC_TRACE_FUNCTIONS = 1,
  TAGC_TRACE_REASONS,
  TAGC_TRACE_ACTIONS,
  TAGC_TRACE_TYPES,
  TAGC_TRACE_OPS
};

struct tagc_trace_name {
  struct tagc_trace_record record;
  uint16_t table, code;
  char text[]; /* "ncclReduceScatter", "warming up (TAGC_WARMUP)", "compress", "float32", "avg" */
};

struct tagc_trace_options {
  struct tagc_trace_record record;
  char text[]; /* a line NAME=value for every option, defaults too */
};

struct tagc_trace_comm {
  struct tagc_trace_record record;
  uint64_t identity; /* equal on all ranks of the communicator, and on no other one's; 0: not known */
  uint64_t born_ns;
  uint32_t parent;      /* as record.comm; 0: none */
  uint32_t number;      /* in the log and in the table at exit; UINT32_MAX: it is not in them (yet) */
  int32_t rank, nranks; /* -1: not known */
  uint16_t function;    /* that made it */
  uint16_t agreed;      /* 1: all ranks have the library with equal options; 0: they have not, or nobody knows yet */
  uint32_t hosts;       /* 0: not known */
  uint32_t on_host;     /* 1: its buffers are in memory of the host, and a call returns when it is done; 0: on a GPU */
  uint32_t reserved;
};

struct tagc_trace_comm_end {
  struct tagc_trace_record record;
  uint64_t at_ns;
  uint16_t function; /* that ended it */
  uint16_t reserved[3];
};

struct tagc_trace_lock {
  struct tagc_trace_record record;
  uint64_t at_ns;
  uint32_t lock;         /* locks of the communicator are counted from 1; one without slots: the cycle was given up */
  uint32_t calls, slots; /* in a cycle */
  uint16_t gradients;    /* 1: its slots are gradients, of all-reduces most of them */
  uint16_t confidence;   /* per cent, of what follows; 0: nothing is known */
  char text[];           /* "llama, hidden 4096, ...", and what it may be instead: two texts */
};

/* Sorts of parameters in a slot, and the largest one names its kind. */
enum tagc_trace_part {
  TAGC_TRACE_EMBED,
  TAGC_TRACE_ATTN,
  TAGC_TRACE_MLP,
  TAGC_TRACE_NORM,
  TAGC_TRACE_HEAD,
  TAGC_TRACE_OTHER,
  TAGC_TRACE_PARTS
};

struct tagc_trace_slot {
  struct tagc_trace_record record;
  uint32_t lock, slot;             /* slots in the order of their calls in a cycle, from 0 */
  uint32_t unit, pass;             /* unit: in forward order */
  uint64_t count;                  /* elements of a shard; of an all-reduce, all of them */
  uint64_t part[TAGC_TRACE_PARTS]; /* elements of all shards; all 0: not known */
  uint64_t selected;               /* elements of all shards that are compressed */
  uint64_t residual_bytes;
  uint16_t type, op, reason; /* reason: of the vote */
  uint16_t voted;            /* 0: not yet */
  char text[]; /* its layer ("block.3"), its codec ("": none), its function ("": ncclReduceScatter): three texts */
};

/* enum tagc_trace_flag: of a call. */
enum {
  TAGC_TRACE_GROUPED = 1,          /* made inside a group, whose end launches it */
  TAGC_TRACE_CAPTURED = 2,         /* into a CUDA graph: it may run many times, or never */
  TAGC_TRACE_IN_SYNC = 4,          /* its place in the cycle was known */
  TAGC_TRACE_PLAIN_SIDE = 8,       /* TAGC_MODE=ab: in a plain window of a lock that has been voted on ... */
  TAGC_TRACE_COMPRESSED_SIDE = 16, /* ... or in a compressed one */
  TAGC_TRACE_FAILED = 32           /* the program got an error for it */
};

struct tagc_trace_call {
  struct tagc_trace_record record;
  uint64_t number; /* of all calls of the process, from 1 in the order in which they were made */
  uint64_t began_ns;
  uint64_t host_ns; /* until the program had its thread back; of a group, its end has the rest in a record of its own */
  uint64_t count;   /* as the function takes it; 0 where it takes none */
  uint64_t raw_bytes;
  uint64_t inside, between;             /* sent */
  uint64_t plain_inside, plain_between; /* what the plain call sends */
  uint64_t stream;                      /* tells streams apart; 0: the default one, or none */
  uint64_t cycle;                       /* of the lock, from 1; 0: not known */
  uint32_t lock;
  int32_t slot;    /* -1: none */
  int32_t peer;    /* root, or peer of a point-to-point call; -1: none */
  uint32_t group;  /* groups of the process are counted from 1; 0: none */
  uint32_t thread; /* threads of the process are counted from 1 */
  uint16_t function, reason;
  uint8_t action, type, op, flags;
  int32_t result;     /* ncclResult_t */
  uint32_t allgather; /* as in its ALLGATHER record; 0: none */
  uint32_t reserved;
};

struct tagc_trace_times {
  struct tagc_trace_record record;
  uint64_t call;   /* its number; one record a call at most, and none where its times were lost */
  uint64_t sum_ns; /* two levels: the sums inside the host */
  uint64_t encode_ns, exchange_ns, decode_ns; /* all 0 but for exchange_ns: a plain call, which on a GPU is timed from
                                               * when all in front of it on its stream is done, waiting for other ranks
                                               * included. By a device encode_ns has lhc's exchange of exponents in it,
                                               * by the thread exchange_ns */
  uint32_t by_device;      /* 1: by events on its stream, 0: by the clock of the thread that worked */
  uint32_t hidden_unknown; /* 1: in pieces; encode_ns and decode_ns are what the stream has seen of them */
  uint64_t hidden_ns;      /* of encode_ns + decode_ns: while something of the call was under way */
};

struct tagc_trace_cycle {
  struct tagc_trace_record record;
  uint64_t began_ns, ended_ns;
  uint64_t cycle;
  uint32_t lock;
  uint16_t side;      /* 0: neither, 1: plain, 2: compressed */
  uint16_t disturbed; /* 1: not every call was the expected one: no measurement of a step */
};

/* Floating-point numbers are IEEE 754 doubles; NaN: not known. */
struct tagc_trace_state {
  struct tagc_trace_record record;
  uint64_t cycle; /* of the vote: its first one has the error that all ranks have found, and no gradient's norm */
  uint32_t lock, slot;
  double residual_norm; /* L2, of what this rank has not sent yet; of a GPU as of the last call that it has told of */
  double gradient_norm; /* L2, of the part of its send buffer that was looked at */
  double error; /* relative L2 error of one encoding of that, without a residual; NaN on GPUs but for the vote */
  uint64_t unrecovered, nonfinite; /* of all calls of the slot so far that are known */
  uint32_t allgather;              /* of this one, and of no slot; 0: of the slot */
  uint32_t reserved;
};

struct tagc_trace_end {
  struct tagc_trace_record record;
  uint64_t at_ns;
  uint64_t calls;
  uint64_t dropped;
  uint32_t bounded; /* 1: the file has reached TAGC_TRACE_MAX, and the process went on */
  uint32_t reserved;
};

struct tagc_trace_allgather {
  struct tagc_trace_record record;
  uint32_t lock, allgather; /* in the order of their calls in a cycle, from 1 */
  uint32_t slot;            /* the one of the same unit, whose layer it has */
  uint32_t again;           /* 1: its unit was gathered before in this cycle, and nothing has changed it since */
  uint64_t count;           /* elements of a shard */
  uint64_t reference_bytes; /* memory for what its codec remembers */
  uint16_t type, reason;    /* reason: of the vote */
  uint16_t voted;           /* 0: not yet */
  uint16_t reserved;
  char text[]; /* its codec; "": none */
};

/* From `cycle` on the calls of the lock have the codecs that the SLOT and ALLGATHER records behind this one tell. */
struct tagc_trace_vote {
  struct tagc_trace_record record;
  uint64_t at_ns;
  uint64_t cycle;
  uint32_t lock;
  uint32_t vote; /* of the lock, from 1 */
  char text[];   /* why codecs have changed; "": the first vote, or nobody knows */
};

_Static_assert(sizeof(struct tagc_trace_head) == 24 && sizeof(struct tagc_trace_chunk) == 32 &&
                 sizeof(struct tagc_trace_record) == 8 && sizeof(struct tagc_trace_process) == 32 &&
                 sizeof(struct tagc_trace_comm) == 56 && sizeof(struct tagc_trace_comm_end) == 24 &&
                 sizeof(struct tagc_trace_lock) == 32 && sizeof(struct tagc_trace_slot) == 104 &&
                 sizeof(struct tagc_trace_call) == 136 && sizeof(struct tagc_trace_times) == 64 &&
                 sizeof(struct tagc_trace_cycle) == 40 && sizeof(struct tagc_trace_state) == 72 &&
                 sizeof(struct tagc_trace_end) == 40 && sizeof(struct tagc_trace_allgather) == 48 &&
                 sizeof(struct tagc_trace_vote) == 32,
               "the layout of files");

#endif
