/* SPDX-License-Identifier: BSD-3-Clause
 * NCCL's kernels, played by threads of the host: send and receive, and the rings of all-gather, broadcast,
 * reduce-scatter and all-reduce, with the protocol SIMPLE. Compiled with NCCL's headers, and linked into its library by
 * device.mk: its proxies, shared memory and sockets then move the bytes. The stand-in for the driver calls play() in
 * stream order.
 *
 * A connection is a ring of NCCL_STEPS slots. A sender waits until fewer than all are full (head), fills some, tells a
 * proxy their bytes (connFifo) and counts them (tail). A receiver waits for that count, and counts what it has emptied.
 * Each primitive of a collective moves one chunk in slices; each channel of a kernel is a thread.
 */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "device.h"
#include "collectives.h"

extern "C" void *standin_cuda_view(unsigned long long pointer, size_t bytes);
extern int const ncclDevFuncIdCount;

namespace {

[[noreturn]] void refuse(const char *what) {
  fprintf(stderr, "NCCL's kernels, played: %s is not played\n", what);
  abort();
}

/* Device memory has an address of its own for the host. */
template <typename T> T *view(T *pointer, size_t count = 1) {
  void *seen =
    pointer && count ? standin_cuda_view((unsigned long long)(uintptr_t)pointer, count * sizeof(T)) : nullptr;
  if (pointer && count && !seen)
    refuse("memory that is not there");
  return (T *)seen;
}

template <> void *view(void *pointer, size_t bytes) { return view((char *)pointer, bytes); }

/* -- elements ------------------------------------------------------------------------------------------------------ */
struct function {
  int coll, op, type;
};

bool is_float(int type) {
  return type == ncclFloat16 || type == ncclFloat32 || type == ncclFloat64 || type == ncclBfloat16;
}

double load_float(const void *at, int type) {
  switch (type) {
  case ncclFloat16: return __half2float(*(const __half *)at);
  case ncclBfloat16: return __bfloat162float(*(const __nv_bfloat16 *)at);
  case ncclFloat32: return *(const float *)at;
  default: return *(const double *)at;
  }
}

void store_float(void *at, double value, int type) {
  switch (type) {
  case ncclFloat16: *(__half *)at = __float2half((float)value); break;
  case ncclBfloat16: *(__nv_bfloat16 *)at = __float2bfloat16((float)value); break;
  case ncclFloat32: *(float *)at = (float)value; break;
  default: *(double *)at = value;
  }
}

uint64_t load_word(const void *at, size_t size) {
  uint64_t word = 0;
  memcpy(&word, at, size);
  return word;
}

/* Sums and products of floats are rounded to their type, as on a GPU; words wrap. */
struct reduction {
  function f;
  uint64_t argument;
  size_t size;

  double argument_as_float() const { return load_float(&argument, f.type); }

  void before(void *at) const { /* a rank's own element */
    if (f.op == ncclDevPreMulSum && is_float(f.type))
      store_float(at, load_float(at, f.type) * argument_as_float(), f.type);
    else if (f.op == ncclDevPreMulSum) {
      const uint64_t product = load_word(at, size) * argument;
      memcpy(at, &product, size);
    }
  }

  void combine(void *to, const void *from) const {
    if (f.op == ncclDevMinMax && is_float(f.type)) {
      const double a = load_float(to, f.type), b = load_float(from, f.type);
      store_float(to, (argument & 1) == 0 ? (b < a ? b : a) : (b > a ? b : a), f.type);
    } else if (is_float(f.type)) {
      const double a = load_float(to, f.type), b = load_float(from, f.type);
      store_float(to, f.op == ncclDevProd ? a * b : a + b, f.type);
    } else {
      const uint64_t all = size == 8 ? ~(uint64_t)0 : ((uint64_t)1 << 8 * size) - 1;
      const uint64_t a = load_word(to, size), b = load_word(from, size);
      const uint64_t least = ((a ^ argument) & all) < ((b ^ argument) & all) ? a : b;
      const uint64_t word = f.op == ncclDevMinMax ? least : f.op == ncclDevProd ? a * b : a + b;
      memcpy(to, &word, size);
    }
  }

  void after(void *at) const { /* a sum that is complete */
    if (f.op == ncclDevSumPostDiv && is_float(f.type))
      store_float(at, load_float(at, f.type) * argument_as_float(), f.type);
    else if (f.op == ncclDevSumPostDiv)
      refuse("a mean of integers");
  }
};

/* -- connections --------------------------------------------------------------------------------------------------- */
struct channel {
  ncclKernelComm *comm;
  ncclDevChannel *device;
  int number;

  ncclDevChannelPeer *peer(int rank) const { return view(view(device->peers, comm->nRanks)[rank]); }
  bool aborted() const { return *view((uint32_t *)comm->abortFlag) != 0; }
};

/* One side of a connection. */
class side {
  const channel &on;
  ncclConnInfo *conn;
  ncclConnFifo *fifo;
  volatile uint64_t *mine, *theirs;
  char *buffer;
  uint64_t step;
  const bool sends;

public:
  side(const channel &on, ncclConnInfo *conn, bool sends, int chunk_steps)
      : on(on), conn(conn), fifo(view(conn->connFifo, NCCL_STEPS)), mine(view(sends ? conn->tail : conn->head)),
        theirs(view(sends ? conn->head : conn->tail)), buffer(conn->buffs[NCCL_PROTO_SIMPLE]),
        step((conn->step + chunk_steps - 1) / chunk_steps * chunk_steps), sends(sends) {
    if (conn->flags & (NCCL_P2P_READ | NCCL_P2P_WRITE))
      refuse("direct access to another GPU");
    if (!sends)
      *mine = step;
  }
  ~side() { conn->step = step; }

  /* The slot of that many steps, once it is free or full; NULL after an abort. */
  char *wait(int steps, size_t bytes) {
    while (*theirs + (sends ? NCCL_STEPS : 0) < step + steps) {
      if (on.aborted())
        return nullptr;
      std::this_thread::yield();
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);
    ncclConnFifo *entry = fifo ? &fifo[step % NCCL_STEPS] : nullptr;
    if (sends && entry)
      entry->size = (ssize_t)bytes;
    char *slot = buffer + (entry && entry->mode == NCCL_MODE_OFFSET ? (size_t) * (volatile int *)&entry->offset
                                                                    : step % NCCL_STEPS * (size_t)conn->stepSize);
    return bytes ? (char *)view((void *)slot, bytes) : slot;
  }

  void post(int steps) {
    step += steps;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    *mine = step;
  }
};

/* -- primitives ---------------------------------------------------------------------------------------------------- */
struct primitives {
  side *in, *out;
  const reduction &sum;
  size_t step_elements; /* of a slot */
  int steps, slices;
  bool gone = false; /* aborted */

  /* From `own` and what comes in, to what goes out and `result`; each may be missing. `final`: all ranks are in it. */
  void move(const void *own, bool with_in, bool with_out, void *result, size_t elements, bool final = false) {
    size_t slice = step_elements * steps, offset = 0;
    const size_t fair = (elements + 16 * slices - 1) / (16 * slices) * 16;
    slice = fair > slice / 32 ? fair : slice / 32;
    for (int i = 0; i < slices && !gone; i++) {
      const size_t n = slice < elements - offset ? slice : elements - offset, bytes = n * sum.size;
      char *from = with_in ? in->wait(steps, bytes) : nullptr, *to = with_out ? out->wait(steps, bytes) : nullptr;
      gone = (with_in && !from) || (with_out && !to);
      if (!gone && n)
        compute(own ? (const char *)own + offset * sum.size : nullptr, from, to,
                result ? (char *)result + offset * sum.size : nullptr, n, final);
      if (!gone && with_in)
        in->post(steps);
      if (!gone && with_out)
        out->post(steps);
      offset += n;
    }
  }

  void compute(const char *own, const char *from, char *to, char *result, size_t n, bool final) const {
    std::vector<char> value(n * sum.size);
    memcpy(value.data(), own ? view((void *)own, n * sum.size) : from, n * sum.size);
    for (size_t i = 0; own && i < n; i++)
      sum.before(&value[i * sum.size]);
    for (size_t i = 0; own && from && i < n; i++)
      sum.combine(&value[i * sum.size], from + i * sum.size);
    for (size_t i = 0; final && i < n; i++)
      sum.after(&value[i * sum.size]);
    if (to)
      memcpy(to, value.data(), value.size());
    if (result)
      memcpy(view((void *)result, value.size()), value.data(), value.size());
  }
};

/* -- collectives: as NCCL's rings send them, for its proxies and other ranks count the slots ------------------------
 */
struct ring {
  primitives &p;
  const ncclDevWorkColl &work;
  const int *ranks; /* from this one on */
  int n, index;
  size_t size, count, begin, part, chunk;

  const char *input(size_t element) const { return (const char *)work.sendbuff + element * size; }
  char *output(size_t element) const { return (char *)work.recvbuff + element * size; }

  void all_gather() const {
    for (size_t at = 0; at < part; at += chunk) {
      const size_t elements = chunk < part - at ? chunk : part - at, first = begin + at;
      char *mine = output(first + ranks[0] * count);
      p.move(input(first), false, true, mine == input(first) ? nullptr : mine, elements);
      for (int j = 1; j < n - 1; j++)
        p.move(nullptr, true, true, output(first + ranks[n - j] * count), elements);
      p.move(nullptr, true, false, output(first + ranks[1] * count), elements);
    }
  }

  void broadcast() const {
    for (size_t at = 0; at < part; at += chunk) {
      const size_t elements = chunk < part - at ? chunk : part - at, first = begin + at;
      const bool root = ranks[0] == (int)work.root, last = ranks[1] == (int)work.root;
      p.move(root ? input(first) : nullptr, !root, !last,
             root && input(first) == output(first) ? nullptr : output(first), elements);
    }
  }

  void reduce_scatter() const {
    for (size_t at = 0; at < part; at += chunk) {
      const size_t elements = chunk < part - at ? chunk : part - at, first = begin + at;
      p.move(input(first + ranks[n - 1] * count), false, true, nullptr, elements);
      for (int j = 2; j < n; j++)
        p.move(input(first + ranks[n - j] * count), true, true, nullptr, elements);
      p.move(input(first + ranks[0] * count), true, false, output(first), elements, true);
    }
  }

  void all_reduce() const {
    size_t each = chunk;
    for (size_t at = 0; at < part; at += n * each) {
      const size_t left = part - at, grain = 16 / size;
      if (left < n * each)
        each = ((left + n - 1) / n + grain - 1) / grain * grain;
      const auto first = [&](int i) { return begin + at + (size_t)(i % n) * each; };
      const auto elements = [&](int i) {
        const size_t before = (size_t)(i % n) * each;
        return before >= left ? 0 : each < left - before ? each : left - before;
      };
      p.move(input(first(index + n - 1)), false, true, nullptr, elements(index + n - 1));
      for (int j = 2; j < n; j++)
        p.move(input(first(index + n - j)), true, true, nullptr, elements(index + n - j));
      p.move(input(first(index)), true, true, output(first(index)), elements(index), true);
      for (int j = 1; j < n - 1; j++)
        p.move(nullptr, true, true, output(first(index + n - j)), elements(index + n - j));
      p.move(nullptr, true, false, output(first(index + 1)), elements(index + 1));
    }
  }
};

size_t size_of_type(int type) {
  static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  if (type >= (int)(sizeof sizes / sizeof *sizes))
    refuse("a type of 8 bits of floating point");
  return sizes[type];
}

void run_collective(const channel &on, function f, ncclDevWorkColl &work) {
  const bool sums = f.coll == ncclFuncReduceScatter || f.coll == ncclFuncAllReduce;
  if (!sums) /* NCCL counts their bytes */
    f = {f.coll, ncclDevSum, ncclInt8};
  const int slices = f.coll == ncclFuncBroadcast ? 1 : ALLREDUCE_CHUNKSTEPS / ALLREDUCE_SLICESTEPS;
  const int steps = f.coll == ncclFuncBroadcast ? BROADCAST_SLICESTEPS : ALLREDUCE_SLICESTEPS;
  const reduction sum = {f,
                         work.redOpArgIsPtr
                           ? load_word(view((char *)work.redOpArg, size_of_type(f.type)), size_of_type(f.type))
                           : work.redOpArg,
                         size_of_type(f.type)};
  ncclRing &r = on.device->ring;
  side in(on, &on.peer(r.prev)->recv[0], false, slices * steps),
    out(on, &on.peer(r.next)->send[0], true, slices * steps);
  primitives p = {&in, &out, sum, on.comm->buffSizes[NCCL_PROTO_SIMPLE] / NCCL_STEPS / sum.size, steps, slices};
  size_t count, begin, part, chunk;
  ncclCollCbdPart(&work, on.number, NCCL_PROTO_SIMPLE, (int)sum.size, &count, &begin, &part, &chunk);
  const ring it = {p,    work, view(r.userRanks, on.comm->nRanks), on.comm->nRanks, r.index, sum.size, count, begin,
                   part, chunk};
  if (f.coll == ncclFuncAllGather)
    it.all_gather();
  else if (f.coll == ncclFuncBroadcast)
    it.broadcast();
  else if (f.coll == ncclFuncReduceScatter)
    it.reduce_scatter();
  else
    it.all_reduce();
}

/* -- send and receive ---------------------------------------------------------------------------------------------- */
void run_one_way(const channel &on, const ncclDevWorkP2p &work, bool sends) {
  const int parts = sends ? work.nSendChannels : work.nRecvChannels;
  const int part = (on.number - work.channelBase) & (work.nP2pChannels - 1);
  if (part >= parts)
    return;
  size_t begin, end;
  ncclP2pPartBounds(parts, part, sends ? work.sendBytes : work.recvBytes, &begin, &end);
  char *memory = (char *)(sends ? work.sendAddr : work.recvAddr) + begin;
  if (work.sendRank == on.comm->rank) { /* to itself: the send copies */
    if (sends && memory != (char *)work.recvAddr + begin && end > begin)
      memmove(view((void *)((char *)work.recvAddr + begin), end - begin), view((void *)memory, end - begin),
              end - begin);
    return;
  }
  if (sends ? work.sendProtoLL || work.sendNetReg || work.sendIpcReg
            : work.recvProtoLL || work.recvNetReg || work.recvIpcReg)
    refuse("a send with the protocol LL (NCCL_P2P_LL_THRESHOLD), or of registered memory");
  const reduction bytes = {{ncclFuncSendRecv, ncclDevSum, ncclInt8}, 0, 1};
  ncclConnInfo *conn = sends ? &on.peer(work.sendRank)->send[1] : &on.peer(work.recvRank)->recv[1];
  side one(on, conn, sends, 1);
  primitives p = {&one, &one, bytes, (size_t)on.comm->p2pChunkSize, 1, 1};
  const size_t chunk = u32fp8Decode(sends ? work.sendChunkSize_u32fp8 : work.recvChunkSize_u32fp8);
  size_t at = 0;
  do {
    const size_t n = chunk < end - begin - at ? chunk : end - begin - at;
    p.move(sends ? memory + at : nullptr, !sends, sends, sends ? nullptr : memory + at, n);
    at += n;
  } while (at < end - begin && !p.gone);
}

void run_sends(const channel &on, const std::vector<ncclDevWorkP2p> &works) {
  std::vector<std::thread> threads;
  for (const ncclDevWorkP2p &work : works) {
    threads.emplace_back(run_one_way, std::cref(on), std::cref(work), false);
    threads.emplace_back(run_one_way, std::cref(on), std::cref(work), true);
  }
  for (std::thread &t : threads)
    t.join();
}

/* -- kernels ------------------------------------------------------------------------------------------------------- */
/* The function of that number; several that compute alike may have the same. */
function find(int id) {
  if (id == ncclDevFuncId_P2p())
    return {ncclFuncSendRecv, ncclDevSum, ncclInt8};
  for (int coll : {ncclFuncAllGather, ncclFuncBroadcast, ncclFuncReduceScatter, ncclFuncAllReduce})
    for (int op = 0; op < ncclNumDevRedOps; op++)
      for (int type = 0; type < ncclNumTypes; type++)
        if (ncclDevFuncId(coll, op, type, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE) == id)
          return {coll, op, type};
  refuse("a kernel other than those of rings with the protocol SIMPLE (NCCL_ALGO=Ring, NCCL_PROTO=Simple)");
}

template <typename Work>
void collect(const ncclDevKernelArgs *arguments, const ncclDevWorkBatch &batch, std::vector<Work> &works) {
  for (int i = 0; i < 64; i++)
    if (batch.offsetBitset >> i & 1) {
      const size_t at = batch.offsetBase + i * sizeof(Work);
      const char *from = arguments->workStorageType == ncclDevWorkStorageTypeArgs
                           ? (const char *)arguments + at
                           : (const char *)arguments->workBuf + (at & arguments->workMask);
      Work work;
      memcpy((void *)&work,
             arguments->workStorageType == ncclDevWorkStorageTypeArgs ? from : view((void *)from, sizeof work),
             sizeof work);
      works.push_back(work);
    }
}

/* The batches of a channel are a list that begins at its block. */
void run_channel(const ncclDevKernelArgs *arguments, channel on, int block) {
  const ncclDevWorkBatch *batches = (const ncclDevWorkBatch *)(arguments + 1);
  std::vector<ncclDevWorkP2p> sends;
  std::vector<ncclDevWorkColl> collectives;
  for (int at = block;; at += batches[at].nextJump) {
    const ncclDevWorkBatch &batch = batches[at];
    if (batch.workType == ncclDevWorkTypeP2p)
      collect(arguments, batch, sends);
    else if (batch.workType == ncclDevWorkTypeColl)
      collect(arguments, batch, collectives);
    else
      refuse("a collective of registered memory");
    if (!batch.nextExtends) {
      run_sends(on, sends);
      for (ncclDevWorkColl &work : collectives)
        run_collective(on, find(batch.funcId), work);
      on.device->workCounter += sends.size() + collectives.size();
      sends.clear();
      collectives.clear();
    }
    if (!batch.nextJump)
      return;
  }
}

} // namespace

/* A kernel: each of its blocks is a channel. */
extern "C" void ncclStandinPlay(const void *parameters) {
  const ncclDevKernelArgs *arguments = (const ncclDevKernelArgs *)parameters;
  ncclKernelCommAndChannels *all = view((ncclKernelCommAndChannels *)arguments->comm);
  std::vector<std::thread> threads;
  for (int number = 0, block = 0; number < MAXCHANNELS; number++)
    if (arguments->channelMask >> number & 1)
      threads.emplace_back(run_channel, arguments, channel{&all->comm, &all->channels[number], number}, block++);
  for (std::thread &t : threads)
    t.join();
}
