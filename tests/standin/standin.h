/* SPDX-License-Identifier: BSD-3-Clause
 * A stand-in for libnccl.so.2: NCCL's calls over shared memory and TCP. This header is for the stand-in's own files.
 *
 * The way of a call: call_api.c checks the arguments and hands a `struct call` to group.c. That file keeps it until the
 * outermost group end (a call alone is a group of one), then makes one `struct job` per communicator. engine.c runs all
 * jobs of a group at once. Each job runs its collectives in order (ring.c), then its point-to-point calls together
 * (p2p.c), over wire.c. comm_api.c and bootstrap.c make communicators, comm.c owns them.
 *
 * On host memory everything is synchronous: a call outside a group is done when it returns. Streams are ignored unless
 * they are captured into a CUDA graph. On device memory (a separate library, on_device.c) the same jobs run late, on
 * the streams of the stand-in for the CUDA driver (device.c). A group with a non-blocking communicator runs on a thread
 * a little later, and its end returns ncclInProgress.
 * Sizes are bytes unless named count (elements); times are nanoseconds of CLOCK_MONOTONIC.
 * Errors are ncclResult_t, with a text in ncclGetLastError (standin_fail).
 */
#ifndef TESTS_STANDIN_STANDIN_H
#define TESTS_STANDIN_STANDIN_H

#include "interpose/nccl/nccl_newer.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The library is built with hidden visibility; this marks what programs see. */
#define STANDIN_API __attribute__((visibility("default")))

/* -- where buffers are (on_host.c, on_device.c) -------------------------------------------------------------------- */
/* 0: buffers are in device memory, and work runs on streams. Only the library for host memory exports the symbol. */
extern const int ncclStandinHostMemory STANDIN_API;

/* -- what a call wants ------------------------------------------------------------------------------------------- */
enum function {
  FN_REDUCE_SCATTER,
  FN_ALL_GATHER,
  FN_ALL_REDUCE,
  FN_BROADCAST,
  FN_REDUCE,
  FN_SEND,
  FN_RECV,
  FN_ALL_TO_ALL,
  FN_GATHER,
  FN_SCATTER
};

enum reduction_kind { REDUCE_SUM, REDUCE_PROD, REDUCE_MAX, REDUCE_MIN };

/* One value of any data type. */
union scalar {
  int8_t i8;
  uint8_t u8;
  int32_t i32;
  uint32_t u32;
  int64_t i64;
  uint64_t u64;
  uint16_t half;
  float f32;
  double f64;
  unsigned char bytes[8];
};

/* The arithmetic of one reduction, copied at the call: a program may destroy the operator before the group ends. */
struct reduction {
  enum reduction_kind kind;
  ncclDataType_t type;
  bool scaled; /* every rank first multiplies its input by `scalar`, rounded to the data type */
  union scalar scalar;
  const void *device_scalar; /* not NULL: the scalar is read from here when the call runs */
  int divisor;               /* not 0: the complete sum is divided by this (integer average) */
};

struct call {
  enum function function;
  const void *send;
  void *recv;
  size_t count;
  ncclDataType_t type;
  struct reduction reduction;
  int root; /* root of a rooted collective, peer of a Send or Recv */
  cudaStream_t stream;
  size_t line;    /* in the statistics */
  void *profiled; /* the plugin's handle of the operation; NULL: none */
};

/* The number of blocks of `count` elements that the call reads and writes on this rank. */
size_t standin_blocks_sent(const struct ncclComm *comm, const struct call *call);
size_t standin_blocks_received(const struct ncclComm *comm, const struct call *call);

static inline bool standin_is_collective(enum function function) { return function <= FN_REDUCE; }

size_t standin_type_size(ncclDataType_t type); /* 0 for an unknown type */

/* -- the NCCL that is emulated (version.c, config.c) ------------------------------------------------------------- */
/* Its version code. */
extern const int standin_version;
/* Checks a configuration as that version does. NULL is valid. */
ncclResult_t standin_config_check(const ncclConfig_t *config);

/* The same for the configuration of one call (coll_config.c). */
ncclResult_t standin_coll_config_check(const ncclCollConfig_t *config, const char *name);
/* The text that stands for its fields in the statistics; "-": NULL. */
#define STANDIN_CONFIG_TEXT 160
void standin_coll_config_text(const ncclCollConfig_t *config, char text[STANDIN_CONFIG_TEXT]);

/* -- communicators (comm.c) -------------------------------------------------------------------------------------- */
struct channel;
struct job;

/* The link that carries a rank's bytes. */
enum way { WAY_BETWEEN /* hosts */, WAY_INSIDE /* a host */ };

struct peer {
  int fd; /* TCP; -1 for oneself */
  enum way way;
  struct channel *channel; /* shared memory instead of it, or NULL */
  bool wants_read;         /* the last attempt would have blocked */
  bool wants_write;
  int64_t paced_until; /* not 0: the rate limit allows no byte before */
  atomic_bool met;     /* may be sent to; on device memory only after the first contact (contact.c) */
};

struct user_op {
  bool used;
  struct reduction reduction;
};

/* Laid out as in NCCL's ids. */
struct address {
  union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
  } is;
};

/* A member's description of itself for the others. */
struct member {
  struct address address; /* of its listener */
  int32_t color, key;     /* of a child */
  uint64_t host;          /* equal for members that share one */
};

struct ncclComm {
  struct ncclComm *next; /* in the list of live communicators; that list's lock guards next and busy */
  int busy;              /* calls that are using it */
  uint64_t id;           /* ordinal in this process, never used twice */
  int rank, nranks, device;
  atomic_bool connected; /* initialized: the peers no longer change */
  atomic_bool finalized, suspended;
  atomic_bool aborted, revoked; /* set by any thread; `wake` becomes readable as well */
  atomic_int async_error;       /* first error of a call, kept; ncclInProgress while a launch is under way */
  atomic_int launching;         /* threads that are about to enqueue on a device */
  atomic_int running;           /* jobs that the engine works on */
  bool nonblocking;             /* calls return ncclInProgress, and a thread does their work */
  int wake;                     /* eventfd */
  struct peer *peers;           /* nranks */
  uint64_t sequence;            /* collectives run so far, equal on all ranks */

  /* On device memory, device.c: */
  struct CUctx_st *context;
  struct CUevent_st *over;  /* its last kernel, once something was launched */
  struct CUevent_st *joint; /* joins streams during a launch */
  bool launched;
  pthread_mutex_t turn; /* held by the kernel that runs */

  int listener;           /* stays open: the lowest rank serves the bootstrap of children */
  struct member *members; /* nranks */
  int *ring, *place;      /* nranks: the rank at each place of the ring, and the place of each rank */
  uint64_t secret;        /* known to the members only */
  uint32_t splits;        /* made so far */

  pthread_mutex_t ops_lock;
  struct user_op *ops;
  size_t ops_capacity;

  char *stage_in, *stage_out, *work; /* the ring's buffers, made at first use */
  size_t work_size;

  void *profiler; /* the context of the profiler plugin, which knows of it if `profiled` */
  bool profiled;
};

/* A new communicator, listed and in use by the caller. NULL: no memory or no descriptors. */
struct ncclComm *standin_comm_new(int device);
/* True if `comm` is live: it then stays so until standin_comm_release. Only compares the handle, which may be stale. */
bool standin_comm_acquire(struct ncclComm *comm);
/* Adds a use for a caller that holds one, even while another thread waits to destroy the communicator. */
void standin_comm_acquire_again(struct ncclComm *comm);
/* As standin_comm_acquire(), for a handle that must still be the communicator that had `id`. */
bool standin_comm_acquire_id(struct ncclComm *comm, uint64_t id);
void standin_comm_release(struct ncclComm *comm);
/* Unlists it, waits until no call uses it, frees it. False: it was not listed. The caller holds no use of it. */
bool standin_comm_destroy(struct ncclComm *comm);
/* Remembers that an operation failed, and shuts down. */
void standin_comm_break(struct ncclComm *comm, ncclResult_t result);
/* Closes the connections in both directions, so that no rank waits for this one. Any thread. */
void standin_comm_shutdown(struct ncclComm *comm);
/* Makes blocked calls of other threads return. */
void standin_comm_wake(struct ncclComm *comm);
/* Ends what runs on it, as an abort does; it is not aborted afterwards. */
void standin_comm_interrupt(struct ncclComm *comm);
/* The reason why nothing may start on this communicator; ncclSuccess: none. */
ncclResult_t standin_comm_ready(struct ncclComm *comm);

/* -- calls (call_api.c) ------------------------------------------------------------------------------------------ */
/* Checks a call and has it run, in a group at its end. */
ncclResult_t standin_submit(struct ncclComm *comm, struct call *call, ncclRedOp_t op, const ncclCollConfig_t *config,
                            const char *name);

/* -- groups (group.c) -------------------------------------------------------------------------------------------- */
/* Work that makes or ends a communicator; in a group each has its own thread. */
struct async_work {
  ncclResult_t (*run)(struct async_work *);
  ncclResult_t result;
  struct ncclComm *told; /* if non-blocking, its async error shows the state of the work */
};

void standin_group_start(void);
/* Keeps the call until the group ends. The communicator is in use by the caller. */
ncclResult_t standin_group_add_call(struct ncclComm *comm, const struct call *call);
/* Keeps the work until the group ends; frees it then. */
ncclResult_t standin_group_add_work(struct async_work *work);
/* Notes an error of a call inside the group: the group's end then returns it and starts nothing. Returns `result`. */
ncclResult_t standin_group_note(ncclResult_t result);
ncclResult_t standin_group_end(void);

/* -- captured calls (capture.c) ---------------------------------------------------------------------------------- */
bool standin_is_captured(cudaStream_t stream);
/* Makes run(group) a node of the graph that the stream is captured into. */
ncclResult_t standin_capture(cudaStream_t stream, void (*run)(void *), void *group);

/* -- device memory (device.c, contact.c) ------------------------------------------------------------------------- */
/* Checks that the device exists. -1 becomes the calling thread's device. On host memory every number is valid. */
ncclResult_t standin_device_find(int *device);
/* Creates what a communicator needs on its device. False: the device lacks the resources. */
bool standin_device_open(struct ncclComm *comm);
void standin_device_close(struct ncclComm *comm);
ncclResult_t standin_device_alloc(void **pointer, size_t size);
ncclResult_t standin_device_free(void *pointer);
/* Checks that the communicator's device can reach buffer `which` of call `name`. */
ncclResult_t standin_device_check(const struct ncclComm *comm, const void *pointer, const char *name,
                                  const char *which);
/* Enqueues the jobs on the streams of their calls. The caller uses their communicators. */
ncclResult_t standin_device_launch(const struct job *jobs, size_t njobs);
/* Waits until everything that was launched is over. */
void standin_device_drain(struct ncclComm *comm);
/* Meets the peers with whom the jobs communicate first. The caller uses their communicators. */
ncclResult_t standin_contact(const struct job *jobs, size_t njobs);

/* -- shared memory between two ranks (channel.c) ----------------------------------------------------------------- */
/* `bell` is the ranks' connection. NULL: impossible. The caller closes *fd once the other rank has opened it. */
struct channel *standin_channel_create(uint64_t secret, int bell, int *fd);
struct channel *standin_channel_open(uint64_t secret, int bell, int process, int descriptor);
void standin_channel_close(struct channel *channel);
/* The number of bytes moved. 0: full or empty, or the peer has hung up. */
size_t standin_channel_write(struct channel *channel, const void *data, size_t size);
size_t standin_channel_read(struct channel *channel, void *data, size_t size);
bool standin_channel_hung_up(const struct channel *channel);
/* Prepares for polling the bell for input. False: a wanted direction has become ready in the meantime. */
bool standin_channel_may_sleep(struct channel *channel, bool to_read, bool to_write);

/* -- running (engine.c, wire.c, ring.c, p2p.c) ------------------------------------------------------------------- */
/* Precedes the payload of every collective on a link and of every message: both ends must mean the same call. NCCL
 * fuses the collectives of a communicator in a group, so their number must be the same on all ranks, too. */
struct header {
  uint32_t magic;
  uint8_t function, type, kind, unused;
  uint64_t sequence;
  uint64_t size;
  uint32_t root;
  uint16_t place, grouped; /* a collective: its place among those of its communicator in its group, and their number */
};

struct envelope {
  struct header header;  /* sent, or expected */
  struct header arrived; /* receiving only */
  size_t done;           /* bytes of the header that have passed */
};

/* A place in a ring's schedule: `offset` bytes of chunk `step` of slice `slice` are done. */
struct cursor {
  size_t slice;
  int step;
  size_t offset;
};

struct ring {
  struct call *call;
  struct reduction reduction; /* with its scalar read */
  size_t element, total;      /* bytes of an element, and of a shard (AllReduce, Broadcast, Reduce: of the buffer) */
  size_t slice_size, slices;
  const int *ranks;  /* at each place of the ring */
  int place, nranks; /* this rank's */
  int next, prev;    /* ranks */
  int steps;         /* chunks of a slice */
  int dependency;    /* step s sends what step s + dependency received; below 0: the own input */
  bool sends, receives;
  struct envelope out, in;
  struct cursor sent, received;
  char *stage_in, *stage_out, *work;
  size_t staged;                   /* in stage_in: received, not reduced (less than one element between steps) */
  size_t scaled_begin, scaled_end; /* in stage_out: scaled, not sent */
  char *own_copy;                  /* destination of the next own_left bytes of the own input */
  size_t own_left;
  size_t payload_sent;
};

struct transfer {
  struct transfer *next; /* same peer, same direction */
  char *data;
  size_t size, done;
  struct call *call;
};

struct lane {
  struct transfer *out, *in; /* the first is under way */
  struct transfer **out_tail, **in_tail;
  struct envelope out_envelope, in_envelope;
};

struct p2p {
  struct transfer *transfers;
  size_t count;
  struct lane *lanes; /* one per peer */
};

struct job {
  struct ncclComm *comm;
  struct call **calls; /* collectives first */
  size_t ncalls, ncollectives, current;
  bool contact;       /* first contact with its peers; may run beside another job of its communicator */
  bool started, done; /* started: the call `current` (or the point-to-point part) has begun */
  int64_t started_at;
  struct ring ring;
  struct p2p p2p;
  ncclResult_t result;
};

/* Runs all jobs at once and sets their results. Releases each job's use of its communicator when it ends. */
void standin_run(struct job *jobs, size_t njobs);
int64_t standin_now(void);

/* Moves the rest of the envelope, then up to `size` bytes, without blocking. Sets *moved to the payload bytes moved;
 * errors are NCCL's. standin_wire_recv checks the header against `envelope->header`. */
ncclResult_t standin_wire_send(struct ncclComm *comm, int peer, struct envelope *envelope, const void *data,
                               size_t size, size_t *moved);
ncclResult_t standin_wire_recv(struct ncclComm *comm, int peer, struct envelope *envelope, void *data, size_t size,
                               size_t *moved);
#define STANDIN_HEADER_MAGIC 0x7a6e6363u

/* A step does what it can without blocking. It sets *progress if anything moved, and *done at the end. */
ncclResult_t standin_ring_start(struct job *job);
ncclResult_t standin_ring_step(struct ring *ring, struct ncclComm *comm, bool *progress, bool *done);
ncclResult_t standin_p2p_start(struct p2p *p2p, struct ncclComm *comm, struct call **calls, size_t ncalls);
ncclResult_t standin_p2p_step(struct p2p *p2p, struct ncclComm *comm, bool *progress, bool *done);
void standin_p2p_free(struct p2p *p2p);
/* Runs a collective of one rank. */
void standin_run_alone(struct call *call);

/* -- arithmetic (reduce.c, redop.c) ------------------------------------------------------------------------------ */
/* dst = own (scaled if requested) combined with other; dst may be own. `complete`: the last operand, so divide now. */
void standin_reduce(void *dst, const void *own, const void *other, size_t count, const struct reduction *reduction,
                    bool complete);
void standin_scale(void *dst, const void *src, size_t count, const struct reduction *reduction);
uint16_t standin_half_from_float(float value);
uint16_t standin_bf16_from_float(float value);
/* The operator's meaning on this communicator and type, or ncclInvalidArgument. */
ncclResult_t standin_op_resolve(struct ncclComm *comm, ncclRedOp_t op, ncclDataType_t type,
                                struct reduction *reduction);

/* -- addresses (address.c) --------------------------------------------------------------------------------------- */
/* Both return a socket, or -1 with errno. standin_listen uses the interface and the family from the environment. */
int standin_listen(struct address *address);
int standin_connect_to(const struct address *address);
bool standin_is_address(const struct address *address);

/* -- hosts (host.c) ---------------------------------------------------------------------------------------------- */
/* The host of a new member with this listener: equal for members that share one. */
uint64_t standin_host(const struct address *listener);
/* Makes the ring of a communicator with its members. False: no memory. */
bool standin_order_ring(struct ncclComm *comm);
/* FNV-1a. */
uint64_t standin_hash(uint64_t state, const void *data, size_t size);

/* -- bootstrap (bootstrap.c) ------------------------------------------------------------------------------------- */
/* Serves this process's ids in the background, from ncclGetUniqueId on. `nranks`: of the communicator that grows by
 * this id, otherwise 0. */
ncclResult_t standin_unique_id(ncclUniqueId *id, int nranks);
/* The rendezvous of all ranks by the ids. Fills `comm` (with rank and nranks): members, secret and connections. */
ncclResult_t standin_join(struct ncclComm *comm, const ncclUniqueId *ids, int nids);
/* The rendezvous of the members of `parent` (ranks in `ranks`, ascending). Fills `table` and the secret. */
ncclResult_t standin_meet(struct ncclComm *parent, int wake, const int *ranks, int nranks, uint64_t tag,
                          struct member *mine, struct member *table, uint64_t *secret);
/* Connects all pairs. comm->members, secret, rank, nranks and listener are set. */
ncclResult_t standin_connect(struct ncclComm *comm, int wake);

/* -- rate limit and statistics ----------------------------------------------------------------------------------- */
/* The emulated time of this process, after advancing it by `ns`. */
STANDIN_API long long ncclStandinPlayTime(long long ns);
bool standin_rate_is_limited(enum way way);
/* The number of the `size` (> 0) bytes that may be sent now; 0: none before *until. The caller returns unsent bytes. */
size_t standin_rate_take(enum way way, size_t size, int64_t *until);
void standin_rate_return(enum way way, size_t size);
/* Nothing is to be sent that way now: until the next standin_rate_take, the link saves up at most one burst. */
void standin_rate_idle(enum way way);

#define STANDIN_NO_LINE ((size_t)-1)
/* Begins the line of a call; `comm_id` and `type` are -1 for none. */
size_t standin_stats_begin(const char *function, int64_t comm_id, size_t count, int type);
void standin_stats_configured(size_t line, const ncclCollConfig_t *config);
void standin_stats_sent(size_t line, enum way way, size_t payload);
void standin_stats_took(size_t line, int64_t nanoseconds);

/* -- profiler plugins (profiler.c) ------------------------------------------------------------------------------- */
/* A communicator is connected, or about to be freed. */
void standin_profiler_open(struct ncclComm *comm);
void standin_profiler_close(struct ncclComm *comm);
/* A job's calls are launched. */
void standin_profiler_launch(const struct job *job);
/* The work of a call begins, by the network or not, and ends, with the bytes that the network has moved. */
void standin_profiler_begins(struct ncclComm *comm, const struct call *call, bool network);
void standin_profiler_ends(struct ncclComm *comm, const struct call *call, size_t sent, size_t received);

/* -- faults on request (fault.c) --------------------------------------------------------------------------------- */
/* The number of the `size` (> 0) bytes that may be sent on `fd` now; 0: it was reset (errno). May not return. */
size_t standin_fault_send(int fd, size_t size);
/* The number of bytes, at most `size`, that may be received now. */
size_t standin_fault_receive(size_t size);
/* Counts bytes sent to another rank. */
void standin_fault_sent(size_t size);
/* True if the next system call is to be interrupted; errno is then EINTR. */
bool standin_fault_interrupts(void);
/* A message to another rank begins. */
void standin_fault_begin(const char *what, int type, uint64_t size);

/* -- errors ------------------------------------------------------------------------------------------------------ */
__attribute__((format(printf, 2, 3))) ncclResult_t standin_fail(ncclResult_t result, const char *what, ...);

#endif
