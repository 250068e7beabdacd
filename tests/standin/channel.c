/* SPDX-License-Identifier: BSD-3-Clause
 * A pair of byte streams through memory that two ranks share: what connects ranks of one host, as NCCL does it. TCP on
 * the loopback costs five times a memcpy of the same bytes, this about one.
 *
 * One rank makes the memory (a memfd) and tells the other its process and descriptor. Each direction is a ring with one
 * writer and one reader. Who finds it full or empty notes that he sleeps and polls the ranks' TCP connection; the other
 * side then rings: one byte on that connection, which has no other use and also shows when the other rank has died.
 * Each end belongs to the thread that runs its communicator.
 */
#include "standin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define CAPACITY ((uint64_t)1 << 20) /* both directions of a pair stay in the cache */

struct lane_memory {
  _Alignas(64) atomic_uint_fast64_t written; /* bytes since the beginning */
  atomic_bool reader_sleeps;
  _Alignas(64) atomic_uint_fast64_t read;
  atomic_bool writer_sleeps;
  _Alignas(64) char data[CAPACITY];
};

struct channel_memory {
  uint64_t secret; /* of the communicator: is this the memory that was meant? */
  struct lane_memory lanes[2];
};

struct channel {
  struct channel_memory *memory;
  struct lane_memory *out, *in;
  int bell;     /* the TCP connection */
  bool slept;   /* a ring may have come since */
  bool hung_up;
};

static struct channel *channel_new(int fd, int bell, int side)
{
  struct channel *channel = calloc(1, sizeof *channel);
  void *memory = mmap(NULL, sizeof *channel->memory, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (!channel || memory == MAP_FAILED) {
    free(channel);
    return NULL;
  }
  channel->memory = memory;
  channel->out = &channel->memory->lanes[side];
  channel->in = &channel->memory->lanes[!side];
  channel->bell = bell;
  return channel;
}

struct channel *standin_channel_create(uint64_t secret, int bell, int *fd)
{
  *fd = memfd_create("nccl-standin", MFD_CLOEXEC);
  if (*fd < 0 || ftruncate(*fd, sizeof(struct channel_memory)) != 0)
    return NULL;
  struct channel *channel = channel_new(*fd, bell, 0);
  if (channel)
    channel->memory->secret = secret;
  return channel;
}

struct channel *standin_channel_open(uint64_t secret, int bell, int process, int descriptor)
{
  char path[64];
  struct stat status;
  snprintf(path, sizeof path, "/proc/%d/fd/%d", process, descriptor);
  int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return NULL;
  struct channel *channel = NULL;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size == (off_t)sizeof(struct channel_memory))
    channel = channel_new(fd, bell, 1);
  close(fd);
  if (channel && channel->memory->secret != secret) {
    standin_channel_close(channel);
    return NULL;
  }
  return channel;
}

void standin_channel_close(struct channel *channel)
{
  if (!channel)
    return;
  munmap(channel->memory, sizeof *channel->memory);
  free(channel);
}

/* The connection is full only of rings that the other side has not taken: one more would say nothing new. */
static void ring_bell(struct channel *channel, atomic_bool *sleeps)
{
  if (atomic_load(sleeps) && atomic_exchange(sleeps, false))
    (void)!send(channel->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Takes the rings that have come. */
static void answer_bell(struct channel *channel)
{
  char rings[64];
  if (!channel->slept)
    return;
  channel->slept = false;
  ssize_t got;
  while ((got = recv(channel->bell, rings, sizeof rings, MSG_DONTWAIT)) == (ssize_t)sizeof rings)
    ;
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
    channel->hung_up = true;
}

/* Copies between the program and the ring, which may wrap. */
static void copy_in(struct lane_memory *lane, uint64_t at, const void *data, size_t size)
{
  size_t offset = at % CAPACITY, first = size < CAPACITY - offset ? size : CAPACITY - offset;
  memcpy(lane->data + offset, data, first);
  memcpy(lane->data, (const char *)data + first, size - first);
}

static void copy_out(const struct lane_memory *lane, uint64_t at, void *data, size_t size)
{
  size_t offset = at % CAPACITY, first = size < CAPACITY - offset ? size : CAPACITY - offset;
  memcpy(data, lane->data + offset, first);
  memcpy((char *)data + first, lane->data, size - first);
}

bool standin_channel_hung_up(const struct channel *channel)
{
  return channel->hung_up;
}

size_t standin_channel_write(struct channel *channel, const void *data, size_t size)
{
  struct lane_memory *lane = channel->out;
  answer_bell(channel);
  uint64_t written = atomic_load_explicit(&lane->written, memory_order_relaxed);
  uint64_t room = CAPACITY - (written - atomic_load(&lane->read));
  size = size < room ? size : room;
  if (!size)
    return 0;
  copy_in(lane, written, data, size);
  atomic_store(&lane->written, written + size);
  ring_bell(channel, &lane->reader_sleeps);
  return size;
}

size_t standin_channel_read(struct channel *channel, void *data, size_t size)
{
  struct lane_memory *lane = channel->in;
  answer_bell(channel);
  uint64_t read = atomic_load_explicit(&lane->read, memory_order_relaxed);
  uint64_t filled = atomic_load(&lane->written) - read;
  size = size < filled ? size : filled;
  if (!size)
    return 0;
  copy_out(lane, read, data, size);
  atomic_store(&lane->read, read + size);
  ring_bell(channel, &lane->writer_sleeps);
  return size;
}

/* Notes the sleep first and looks then; the other side does the reverse. */
bool standin_channel_may_sleep(struct channel *channel, bool to_read, bool to_write)
{
  channel->slept = true;
  if (to_read)
    atomic_store(&channel->in->reader_sleeps, true);
  if (to_write)
    atomic_store(&channel->out->writer_sleeps, true);
  bool readable = atomic_load(&channel->in->written) != atomic_load(&channel->in->read);
  bool writable = atomic_load(&channel->out->written) - atomic_load(&channel->out->read) < CAPACITY;
  return !(to_read && readable) && !(to_write && writable);
}
