/* SPDX-License-Identifier: BSD-3-Clause
 * Profiler plugins, called as NCCL calls them (src/plugin/profiler.cc of 2.23.4 to 2.30.7): found by
 * NCCL_PROFILER_PLUGIN, or as libnccl-profiler.so, in the highest version of the interface that both know.
 *
 * The thread that launches a group shows its operations. A proxy thread shows the rest, as the work begins and ends:
 * kernels on two channels, and between hosts the transfers of each, in two pieces a direction. The GPU's clock differs
 * from the host's, and drifts. Descriptors are bytes at the offsets that the headers give; plugins have structs.
 *
 * NCCL_STANDIN_PROFILER=lossy shows what should not happen: events that never end or end twice, the last first,
 * children without parents, handles that nobody gave out, and communicators that end with open events.
 */
#include "tests/standin/standin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { VERSIONS = 6, CHANNELS = 2, PIECES = 2 };
enum event {
  EVENT_GROUP = 1 << 0,
  EVENT_COLL = 1 << 1,
  EVENT_P2P = 1 << 2,
  EVENT_PROXY_OP = 1 << 3,
  EVENT_PROXY_STEP = 1 << 4,
  EVENT_KERNEL_CH = 1 << 6,
  EVENT_GROUP_API = 1 << 8,
  EVENT_COLL_API = 1 << 9,
  EVENT_P2P_API = 1 << 10
};
enum state {
  SEND_DONE = 3,
  RECV_DONE = 7,
  SEND_GPU_WAIT = 8,
  SEND_WAIT = 9,
  RECV_WAIT = 10,
  RECV_FLUSH_WAIT = 11,
  RECV_GPU_WAIT = 12,
  SEND_PEER_WAIT = 20,
  KERNEL_STOP = 22
};

/* The first NCCL that looks for each version of the interface. */
static const int first[VERSIONS + 1] = {0, 22304, 22403, 22602, 22703, 22803, 22902};

struct plugin {
  const char *name;
  void (*init)(void);
  ncclResult_t (*start)(void *context, void **handle, void *descriptor);
  ncclResult_t (*stop)(void *handle);
  ncclResult_t (*record)(void *handle, int state, void *arguments);
  ncclResult_t (*finalize)(void *context);
};
typedef ncclResult_t init_1(void **context, int *mask);
typedef ncclResult_t init_4(void **context, int *mask, const char *name, uint64_t hash, int nodes, int nranks, int rank,
                            void *log);
typedef ncclResult_t init_5(void **context, uint64_t id, int *mask, const char *name, int nodes, int nranks, int rank,
                            void *log);

static pthread_mutex_t plugin_lock = PTHREAD_MUTEX_INITIALIZER;
static struct plugin *plugin;
static int interface; /* its version */
static int mask;
static bool lossy;

/* -- the plugin -------------------------------------------------------------------------------------------------- */
static void *open_named(const char *name) {
  char longer[256];
  void *handle = dlopen(strncasecmp(name, "STATIC_PLUGIN", strlen(name)) == 0 ? NULL : name, RTLD_NOW | RTLD_LOCAL);
  if (handle || strchr(name, '/'))
    return handle;
  snprintf(longer, sizeof longer, "libnccl-profiler-%s.so", name);
  return dlopen(longer, RTLD_NOW | RTLD_LOCAL);
}

static void find_plugin(void) {
  static bool looked;
  const char *name = getenv("NCCL_PROFILER_PLUGIN"), *how = getenv("NCCL_STANDIN_PROFILER");
  char symbol[32];
  if (looked || standin_version < first[1])
    return;
  looked = true;
  if (name && strcasecmp(name, "none") == 0)
    return;
  void *handle = open_named(name && *name ? name : "libnccl-profiler.so");
  for (interface = VERSIONS; handle && interface && !plugin; interface -= !plugin) {
    snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", interface);
    plugin = standin_version >= first[interface] ? dlsym(handle, symbol) : NULL;
  }
  lossy = how && strcmp(how, "lossy") == 0;
}

static void open_context(struct ncclComm *comm) {
  const int nodes = 1;
  if (interface <= 3)
    ((init_1 *)plugin->init)(&comm->profiler, &mask);
  else if (interface == 4)
    ((init_4 *)plugin->init)(&comm->profiler, &mask, "", comm->secret, nodes, comm->nranks, comm->rank, NULL);
  else
    ((init_5 *)plugin->init)(&comm->profiler, comm->secret, &mask, "", nodes, comm->nranks, comm->rank, NULL);
}

/* -- events ------------------------------------------------------------------------------------------------------ */
/* A descriptor of every version: of type, parent, rank, and what follows. */
struct descriptor {
  unsigned char bytes[128];
};

static void put(struct descriptor *d, size_t offset, const void *value, size_t size) {
  memcpy(d->bytes + offset, value, size);
}

static struct descriptor describe(enum event event, void *parent, int rank) {
  struct descriptor d = {{0}};
  const uint64_t type = event;
  put(&d, 0, &type, interface <= 4 ? 1 : sizeof type); /* this machine's lowest byte comes first */
  put(&d, 8, &parent, sizeof parent);
  put(&d, 16, &rank, sizeof rank);
  return d;
}

static void *start(const struct ncclComm *comm, struct descriptor *d) {
  void *handle = NULL;
  plugin->start(comm->profiler, &handle, d);
  return handle;
}

static void *start_plain(const struct ncclComm *comm, enum event event, void *parent) {
  struct descriptor d = describe(event, parent, comm->rank);
  return start(comm, &d);
}

static void *_Atomic unended; /* the last handle that was not stopped */

/* A stop, and in a lossy run stops that nobody should make. */
static void stop(void *handle) {
  static atomic_uint stops;
  const unsigned n = lossy ? atomic_fetch_add(&stops, 1) : 1;
  if (n % 5 == 0) {
    atomic_store(&unended, handle);
    return;
  }
  plugin->stop(handle);
  if (n % 7 == 0) {
    plugin->stop(handle);
    plugin->stop(NULL);
    plugin->stop((void *)UINTPTR_MAX);
    plugin->stop(&plugin);
    plugin->record((void *)UINTPTR_MAX, SEND_WAIT, NULL);
  }
}

/* The arguments of a state: bytes, of a step or of a transfer so far, or a time of the GPU. */
static void record(void *handle, enum state state, uint64_t argument) {
  uint64_t arguments[2] = {argument, 0};
  if (handle) /* NCCL checks that */
    plugin->record(handle, state, arguments);
}

/* -- operations -------------------------------------------------------------------------------------------------- */
static const char *text_of(enum function function) {
  static const char *const names[] = {[FN_REDUCE_SCATTER] = "ReduceScatter",
                                      [FN_ALL_GATHER] = "AllGather",
                                      [FN_ALL_REDUCE] = "AllReduce",
                                      [FN_BROADCAST] = "Broadcast",
                                      [FN_REDUCE] = "Reduce",
                                      [FN_SEND] = "Send",
                                      [FN_RECV] = "Recv"};
  return names[function];
}

static uint8_t number_of(enum function function) {
  static const uint8_t numbers[] = {
    [FN_REDUCE_SCATTER] = 3, [FN_ALL_GATHER] = 2, [FN_ALL_REDUCE] = 4, [FN_BROADCAST] = 0,
    [FN_REDUCE] = 1,         [FN_SEND] = 6,       [FN_RECV] = 7};
  return numbers[function];
}

static void put_function(struct descriptor *d, size_t offset, enum function function) {
  const char *text = text_of(function);
  const uint8_t number = number_of(function);
  if (interface == 1)
    put(d, offset, &number, sizeof number);
  else
    put(d, offset, &text, sizeof text);
}

static void *start_coll(const struct ncclComm *comm, const struct call *call, void *group, void *api) {
  struct descriptor d = describe(EVENT_COLL, interface <= 4 ? group : api, comm->rank);
  const bool old = interface <= 3;
  const uint8_t channels = CHANNELS;
  put_function(&d, old ? 48 : 32, call->function);
  put(&d, old ? 56 : 40, &call->send, sizeof call->send);
  put(&d, old ? 64 : 48, &call->recv, sizeof call->recv);
  put(&d, interface <= 2 ? 104 : old ? 96 : 80, &channels, sizeof channels);
  if (interface == 5 || interface == 6)
    put(&d, 104, &group, sizeof group);
  return start(comm, &d);
}

static void *start_p2p(const struct ncclComm *comm, const struct call *call, void *group, void *api) {
  struct descriptor d = describe(EVENT_P2P, interface <= 4 ? group : api, comm->rank);
  const void *buffer = call->function == FN_SEND ? call->send : call->recv;
  const uint8_t channels = CHANNELS;
  put_function(&d, interface <= 3 ? 40 : 24, call->function);
  put(&d, interface <= 3 ? 48 : 32, &buffer, sizeof buffer);
  if (interface >= 4)
    put(&d, 60, &channels, sizeof channels);
  return start(comm, &d);
}

static bool is_one_operation(const struct call *call) { return call->function < FN_ALL_TO_ALL; }

/* From 2.28 on NCCL makes messages of AlltoAll, Gather and Scatter. The first one stands for all of their work. */
static void *start_messages(const struct ncclComm *comm, const struct call *call, void *group, void *api) {
  const size_t size = call->count * standin_type_size(call->type);
  void *made = NULL;
  for (int i = 0; i < 2 * comm->nranks; i++) {
    struct call message = *call;
    const bool sends = i % 2 == 0;
    const size_t blocks = sends ? standin_blocks_sent(comm, call) : standin_blocks_received(comm, call);
    if ((size_t)(i / 2) >= blocks)
      continue;
    message.function = sends ? FN_SEND : FN_RECV;
    /* A rank that is no root may have one of them alone, and NULL has no offset. */
    if (sends)
      message.send = (const char *)call->send + (size_t)(i / 2) * size;
    else
      message.recv = (char *)call->recv + (size_t)(i / 2) * size;
    void *handle = start_p2p(comm, &message, group, api);
    if (made)
      stop(handle);
    else
      made = handle;
  }
  return made;
}

void standin_profiler_launch(const struct job *job) {
  struct ncclComm *comm = job->comm;
  void *group_api = NULL, *group = NULL;
  if (!plugin || !comm->profiled || !mask || comm->nranks == 1)
    return;
  if (interface >= 5)
    group_api = start_plain(comm, EVENT_GROUP_API, NULL);
  if (mask & (EVENT_COLL | EVENT_P2P | EVENT_PROXY_OP | EVENT_PROXY_STEP | EVENT_KERNEL_CH))
    group = start_plain(comm, EVENT_GROUP, NULL);
  for (size_t i = 0; i < job->ncalls; i++) {
    struct call *call = job->calls[i];
    const bool collective = i < job->ncollectives;
    if ((!is_one_operation(call) && standin_version < 22803) || (interface <= 4 && !group))
      continue;
    void *api = interface < 5 ? NULL : start_plain(comm, collective ? EVENT_COLL_API : EVENT_P2P_API, group_api);
    call->profiled = collective               ? start_coll(comm, call, group, api)
                     : is_one_operation(call) ? start_p2p(comm, call, group, api)
                                              : start_messages(comm, call, group, api);
    if (api)
      stop(api);
  }
  for (size_t i = 0; i < job->ncalls; i++)
    stop(job->calls[i]->profiled);
  stop(group);
  if (group_api)
    stop(group_api);
}

/* -- the proxy thread -------------------------------------------------------------------------------------------- */
/* An operation's work on one channel. */
struct work {
  void *kernel, *transfers[2], *pieces[2]; /* [1]: of sends */
};

struct news {
  struct news *next;
  struct ncclComm *comm;
  void *operation;
  int64_t at;
  bool ends, network;
  size_t bytes[2];
  struct work work[CHANNELS];
};

static pthread_mutex_t news_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news_came = PTHREAD_COND_INITIALIZER, news_are_over = PTHREAD_COND_INITIALIZER;
static struct news *news, **news_tail = &news;
static struct news *begun; /* operations whose work goes on */
static unsigned unread;

/* The GPU's clock: it counts from another moment, and gains 20 microseconds a second. */
static uint64_t gpu_clock(int64_t ns) { return UINT64_C(1700000000000000000) + (uint64_t)ns + (uint64_t)ns / 50000; }

static void *start_kernel(const struct news *n, uint8_t channel, void *parent) {
  struct descriptor d = describe(EVENT_KERNEL_CH, parent, n->comm->rank);
  const uint64_t time = gpu_clock(n->at);
  put(&d, 24, &channel, sizeof channel);
  if (interface >= 4)
    put(&d, 32, &time, sizeof time);
  return start(n->comm, &d);
}

static void *start_transfer(const struct news *n, uint8_t channel, void *parent, int is_send) {
  struct descriptor d = describe(EVENT_PROXY_OP, parent, n->comm->rank);
  const pid_t pid = getpid();
  put(&d, 24, &pid, sizeof pid);
  put(&d, 28, &channel, sizeof channel);
  put(&d, 44, &is_send, sizeof is_send);
  return start(n->comm, &d);
}

/* The bytes of a piece: the last one of the last channel has the rest. */
static size_t bytes_of(const struct news *n, int sends, int channel, int piece) {
  const size_t all = n->bytes[sends], each = all / (CHANNELS * PIECES);
  return channel == CHANNELS - 1 && piece == PIECES - 1 ? all - (CHANNELS * PIECES - 1) * each : each;
}

static void begin_piece(const struct news *n, struct work *work, int sends) {
  struct descriptor d = describe(EVENT_PROXY_STEP, work->transfers[sends], n->comm->rank);
  if (!work->transfers[sends])
    return;
  work->pieces[sends] = start(n->comm, &d);
  record(work->pieces[sends], sends ? SEND_GPU_WAIT : RECV_WAIT, 1); /* NCCL passes the bytes of another one here */
}

static void end_piece(const struct news *n, struct work *work, int sends, int channel, int piece) {
  const size_t bytes = bytes_of(n, sends, channel, piece);
  const uint64_t told = interface >= 4 ? bytes : 0;
  if (sends && interface >= 4)
    record(work->pieces[sends], SEND_PEER_WAIT, 0);
  record(work->pieces[sends], sends ? SEND_WAIT : RECV_FLUSH_WAIT, told);
  if (!sends)
    record(work->pieces[sends], RECV_GPU_WAIT, told);
  if (work->pieces[sends])
    stop(work->pieces[sends]);
  if (interface <= 3) { /* bytes so far */
    const size_t before = piece ? bytes_of(n, sends, channel, 0) : 0;
    record(work->transfers[sends], sends ? SEND_DONE : RECV_DONE, before + bytes);
  }
}

static void begin_work(struct news *n) {
  for (uint8_t c = 0; c < CHANNELS; c++) {
    void *parent = lossy && n->at % 11 == 0 ? NULL : n->operation;
    if (mask & EVENT_KERNEL_CH)
      n->work[c].kernel = start_kernel(n, c, parent);
    for (int sends = 0; n->network && sends < 2; sends++) {
      n->work[c].transfers[sends] = start_transfer(n, c, parent, sends);
      begin_piece(n, &n->work[c], sends);
    }
  }
}

static void end_transfers(const struct news *n, struct work *work, int channel) {
  for (int sends = 0; sends < 2; sends++) {
    if (lossy && work->transfers[sends])
      stop(work->transfers[sends]); /* before its pieces */
    end_piece(n, work, sends, channel, 0);
    begin_piece(n, work, sends);
    end_piece(n, work, sends, channel, 1);
    if (work->transfers[sends])
      stop(work->transfers[sends]);
  }
}

static void end_work(const struct news *n, struct work *work, int channel) {
  if (n->network)
    end_transfers(n, work, channel);
  if (!work->kernel)
    return;
  if (interface >= 4)
    record(work->kernel, KERNEL_STOP, gpu_clock(n->at));
  stop(work->kernel);
}

/* The work of an operation whose end is told. */
static struct news *take_begun(const struct news *ended) {
  struct news **at = &begun;
  while (*at && ((*at)->comm != ended->comm || (*at)->operation != ended->operation))
    at = &(*at)->next;
  struct news *found = *at;
  if (found)
    *at = found->next;
  return found;
}

static void read_news(struct news *n) {
  if (!n->ends) {
    begin_work(n);
    n->next = begun;
    begun = n;
    return;
  }
  struct news *before = take_begun(n);
  for (int c = 0; before && c < CHANNELS; c++) {
    n->network = before->network;
    end_work(n, &before->work[c], c);
  }
  free(before);
  free(n);
}

static void *proxy_main(void *unused) {
  (void)unused;
  pthread_mutex_lock(&news_lock);
  for (;;) {
    while (!news)
      pthread_cond_wait(&news_came, &news_lock);
    struct news *n = news;
    news = n->next;
    news_tail = news ? news_tail : &news;
    pthread_mutex_unlock(&news_lock);
    read_news(n);
    pthread_mutex_lock(&news_lock);
    if (--unread == 0)
      pthread_cond_broadcast(&news_are_over);
  }
  return NULL;
}

static void tell_proxy(const struct news *told) {
  struct news *n = malloc(sizeof *n);
  if (!n)
    return;
  *n = *told;
  n->next = NULL;
  pthread_mutex_lock(&news_lock);
  *news_tail = n;
  news_tail = &n->next;
  unread++;
  pthread_cond_signal(&news_came);
  pthread_mutex_unlock(&news_lock);
}

void standin_profiler_begins(struct ncclComm *comm, const struct call *call, bool network) {
  if (plugin && call->profiled)
    tell_proxy(&(struct news){.comm = comm, .operation = call->profiled, .at = standin_now(), .network = network});
}

void standin_profiler_ends(struct ncclComm *comm, const struct call *call, size_t sent, size_t received) {
  if (plugin && call->profiled)
    tell_proxy(&(struct news){
      .comm = comm, .operation = call->profiled, .at = standin_now(), .ends = true, .bytes = {received, sent}});
}

/* -- communicators ----------------------------------------------------------------------------------------------- */
void standin_profiler_open(struct ncclComm *comm) {
  static bool runs;
  pthread_t thread;
  pthread_mutex_lock(&plugin_lock);
  find_plugin();
  if (plugin) {
    open_context(comm);
    comm->profiled = true;
    if (!runs && pthread_create(&thread, NULL, proxy_main, NULL) == 0) {
      pthread_detach(thread);
      runs = true;
    }
    comm->profiled = runs;
  }
  pthread_mutex_unlock(&plugin_lock);
}

void standin_profiler_close(struct ncclComm *comm) {
  if (!plugin || !comm->profiled)
    return;
  pthread_mutex_lock(&news_lock);
  while (unread)
    pthread_cond_wait(&news_are_over, &news_lock);
  pthread_mutex_unlock(&news_lock);
  plugin->finalize(comm->profiler);
  if (!lossy)
    return;
  plugin->finalize(comm->profiler);
  plugin->stop(atomic_load(&unended));
  start_plain(comm, EVENT_PROXY_STEP, atomic_load(&unended));
}
