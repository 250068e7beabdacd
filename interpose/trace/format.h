/* SPDX-License-Identifier: BSD-3-Clause
 * Traces: TAGC_TRACE=PREFIX writes a file a process, and tagc-report reads it. See man/tagc-trace.5, too.
 *
 * A file is a head, followed by chunks. A chunk is a header and records, and is whole or damaged: its sum shows which.
 * So a file that was cut, or damaged in the middle, loses only what was there. All numbers are in the byte order of the
 * machine that wrote them (`order` shows it). All structs below lie in the file as here, at multiples of 8 bytes.
 *
 * Versions   A reader refuses another major version. If the minor version is higher than its own, it skips kinds of
 *            records that it does not know, and the bytes of known records behind their last field here. Fields that a
 *            record of a lower version lacks at its end are 0. NAME records define codes (of functions, reasons, ...)
 *            before their first use.
 *            1.1: kinds ALLGATHER and VOTE; TIMES has hidden_ns and hidden_unknown, CALL and STATE have allgather, SLOT
 *            has a third text. 1.2: kind PROFILE.
 * Times      Nanoseconds of CLOCK_MONOTONIC of the process; the PROCESS record has its and the realtime clock's value
 *            at one moment.
 * Bytes      raw: of the program's send buffer. inside, between: what this rank sends for the call to ranks of its own
 *            host, and to others, by NCCL's algorithms (kernels/codec/cost.h; calls/traced.h for other collectives).
 */
#ifndef INTERPOSE_TRACE_FORMAT_H
#define INTERPOSE_TRACE_FORMAT_H

#include <stdint.h>

#define TAGC_TRACE_MAGIC "TAGC\r\n\032\n" /* text modes of copying damage it */
#define TAGC_TRACE_CHUNK_MAGIC UINT32_C(0x4b4e4843)

enum {
  TAGC_TRACE_MAJOR = 1,
  TAGC_TRACE_MINOR = 2,
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
  uint64_t dropped; /* records without room since the trace began */
  uint64_t sum;     /* FNV-1a (env/hash.h) of this header with sum = 0, and of the records */
};

enum tagc_trace_kind {
  TAGC_TRACE_PROCESS = 1, /* the first record */
  TAGC_TRACE_NAME,
  TAGC_TRACE_OPTIONS,
  TAGC_TRACE_COMM, /* facts known about a communicator so far; a later record has more */
  TAGC_TRACE_COMM_END,
  TAGC_TRACE_LOCK, /* the cycle of a communicator has been found; its slots follow */
  TAGC_TRACE_SLOT, /* and again after a vote, with its outcome */
  TAGC_TRACE_CALL,
  TAGC_TRACE_TIMES,     /* of an earlier call, as soon as they are known */
  TAGC_TRACE_CYCLE,     /* a cycle has ended */
  TAGC_TRACE_STATE,     /* of a slot: the loss of its codec */
  TAGC_TRACE_END,       /* the last record of a process that ended in order, or of a file of the maximal size */
  TAGC_TRACE_ALLGATHER, /* an all-gather of parameters in the cycle, recorded like slots */
  TAGC_TRACE_VOTE,      /* codecs of slots were chosen or changed; SLOT and ALLGATHER records follow */
  TAGC_TRACE_PROFILE,   /* what NCCL's profiler has seen of an operation */
  TAGC_TRACE_KINDS
};

/* Every record begins with this, and has a multiple of 8 bytes. Texts are UTF-8 with a NUL, and zeros behind them. */
struct tagc_trace_record {
  uint16_t kind;  /* enum tagc_trace_kind */
  uint16_t bytes; /* including these */
  uint32_t comm;  /* the process's number of the communicator, from 1 in the order of first sight; 0: none */
};

struct tagc_trace_process {
  struct tagc_trace_record record;
  int32_t pid;
  uint32_t nccl_version; /* as of ncclGetVersion; 0: not known yet */
  int64_t realtime_ns;   /* since 1970 */
  uint64_t monotonic_ns; /* at the same moment */
  char text[]; /* host, program, version of the library, and a number that ranks of one host share: texts in a row */
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
  char text[]; /* a line NAME=value for every option, even defaults */
};

struct tagc_trace_comm {
  struct tagc_trace_record record;
  uint64_t identity; /* equal on all ranks of the communicator, unlike all others; 0: unknown */
  uint64_t born_ns;
  uint32_t parent;      /* as record.comm; 0: none */
  uint32_t number;      /* in the log and in the table at exit; UINT32_MAX: not in them (yet) */
  int32_t rank, nranks; /* -1: not known */
  uint16_t function;    /* that made it; UINT16_MAX: not known */
  uint16_t agreed;      /* 1: all ranks have the library with equal options; 0: they do not, or this is unknown */
  uint32_t hosts;       /* 0: not known */
  uint32_t on_host;     /* 1: its buffers are in host memory, and a call returns when it is done; 0: on a GPU */
  uint32_t unknown;     /* 1: its NCCL has functions that the library does not know, and whose calls it does not see */
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
  uint32_t lock; /* locks of the communicator are counted from 1; a lock without slots: the cycle was given up */
  uint32_t calls, slots; /* in a cycle */
  uint16_t gradients;    /* 1: its slots are gradients, or of all-reduces most of them */
  uint16_t confidence;   /* per cent, of the guess below; 0: nothing is known */
  char text[];           /* "llama, hidden 4096, ...", and its alternative: two texts */
};

/* Sorts of parameters in a slot; the largest one gives its kind. */
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

/* Flags of a call. */
enum {
  TAGC_TRACE_GROUPED = 1,          /* made inside a group, whose end launches it */
  TAGC_TRACE_CAPTURED = 2,         /* into a CUDA graph: it may run many times, or never */
  TAGC_TRACE_IN_SYNC = 4,          /* its place in the cycle is known */
  TAGC_TRACE_PLAIN_SIDE = 8,       /* TAGC_MODE=ab: in a plain window of a lock with a vote ... */
  TAGC_TRACE_COMPRESSED_SIDE = 16, /* ... or in a compressed one */
  TAGC_TRACE_FAILED = 32           /* the call returned an error to the program */
};

struct tagc_trace_call {
  struct tagc_trace_record record;
  uint64_t number; /* of all calls of the process, from 1 in the order of calls */
  uint64_t began_ns;
  uint64_t host_ns; /* until the call returned to the program; in a group, the record of its end has the rest */
  uint64_t count;   /* as the function takes it; 0 if it takes none */
  uint64_t raw_bytes;
  uint64_t inside, between;             /* sent */
  uint64_t plain_inside, plain_between; /* sent by the plain call */
  uint64_t stream;                      /* identifies a stream; 0: the default one, or none */
  uint64_t cycle;                       /* of the lock, from 1; 0: unknown */
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
  uint64_t call;   /* the call's number; at most one record a call, none if its times were lost */
  uint64_t sum_ns; /* two levels: the sums inside the host */
  uint64_t encode_ns, exchange_ns, decode_ns; /* for a plain call all 0 but exchange_ns; on a GPU it runs from the end
                                                 of all earlier work on the stream, including waits for other ranks. The
                                                 exchange of lhc's exponents counts in encode_ns by a device, in
                                                 exchange_ns by the thread */
  uint32_t by_device;                         /* 1: by events on its stream, 0: by the clock of the working thread */
  uint32_t hidden_unknown; /* 1: in chunks; encode_ns and decode_ns are only what the stream shows of them */
  uint64_t hidden_ns;      /* part of encode_ns + decode_ns during which another part of the call was under way */
};

struct tagc_trace_cycle {
  struct tagc_trace_record record;
  uint64_t began_ns, ended_ns;
  uint64_t cycle;
  uint32_t lock;
  uint16_t side;      /* by the plan; 0: neither, 1: plain, 2: compressed */
  uint16_t disturbed; /* 1: some call was unexpected: no measurement of a step, and its calls may be plain */
};

/* Floating-point numbers are IEEE 754 doubles; NaN: unknown. */
struct tagc_trace_state {
  struct tagc_trace_record record;
  uint64_t cycle; /* of the vote: its first record has the error that all ranks have found, without a gradient's norm */
  uint32_t lock, slot;
  double residual_norm; /* L2 of this rank's unsent values; of a GPU as of the last call that it has reported */
  double gradient_norm; /* L2 of the sampled part of its send buffer */
  double error; /* relative L2 error of one encoding of that part, without a residual; but for the vote NaN on GPUs, and
                   of all-reduces in place */
  uint64_t unrecovered, nonfinite; /* of all calls of the slot so far that are known */
  uint32_t allgather;              /* of this all-gather, not of a slot; 0: of the slot */
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
  uint32_t slot;            /* the slot of the same unit, with its layer */
  uint32_t again;           /* 1: its unit was gathered before in this cycle, and is unchanged since */
  uint64_t count;           /* elements of a shard */
  uint64_t reference_bytes; /* memory for its codec's reference */
  uint16_t type, reason;    /* reason: of the vote */
  uint16_t voted;           /* 0: not yet */
  uint16_t reserved;
  char text[]; /* its codec; "": none */
};

/* From `cycle` on the calls of the lock have the codecs of the SLOT and ALLGATHER records behind this one. */
struct tagc_trace_vote {
  struct tagc_trace_record record;
  uint64_t at_ns;
  uint64_t cycle;
  uint32_t lock;
  uint32_t vote; /* of the lock, from 1 */
  char text[];   /* why codecs have changed; "": the first vote, or unknown */
};

/* An operation that NCCL has launched: a collective, or one side of a point-to-point call. One may have several
 * records: bytes, pieces and waits add up; the rest is that of the last record. */
struct tagc_trace_profile {
  struct tagc_trace_record record;       /* comm: 0 also if no call of the program has shown whose it is */
  uint64_t call;                         /* the call's number; 0: unknown, again from a graph, or the library's own */
  uint64_t posted_ns;                    /* NCCL has launched it */
  uint64_t kernel_began_ns, kernel_ns;   /* from its first channel's begin to the last one's end; 0: unknown */
  uint64_t network_began_ns, network_ns; /* from the proxy's first transfer to the end of its last one; 0: none */
  uint64_t sent_bytes, received_bytes;   /* by the network: nothing inside a host */
  uint64_t sending_ns;                   /* the network sent something: simultaneous sends count once */
  /* Sums over the pieces. They wait for the kernel, for room at the receiver, and for the network, where a receive
   * also waits for its sender. */
  uint64_t send_gpu_ns, send_peer_ns, send_network_ns, receive_network_ns, receive_gpu_ns;
  uint32_t sends, receives; /* pieces */
  uint16_t function;        /* 65535: none of those that have names */
  uint16_t channels;        /* whose kernels were seen */
  uint32_t by_device;       /* 1: the kernel's times are those of the GPU's clock; 0: the proxy thread saw them */
};

_Static_assert(sizeof(struct tagc_trace_head) == 24 && sizeof(struct tagc_trace_chunk) == 32 &&
                 sizeof(struct tagc_trace_record) == 8 && sizeof(struct tagc_trace_process) == 32 &&
                 sizeof(struct tagc_trace_comm) == 56 && sizeof(struct tagc_trace_comm_end) == 24 &&
                 sizeof(struct tagc_trace_lock) == 32 && sizeof(struct tagc_trace_slot) == 104 &&
                 sizeof(struct tagc_trace_call) == 136 && sizeof(struct tagc_trace_times) == 64 &&
                 sizeof(struct tagc_trace_cycle) == 40 && sizeof(struct tagc_trace_state) == 72 &&
                 sizeof(struct tagc_trace_end) == 40 && sizeof(struct tagc_trace_allgather) == 48 &&
                 sizeof(struct tagc_trace_vote) == 32 && sizeof(struct tagc_trace_profile) == 136,
               "the layout of files");

#endif
