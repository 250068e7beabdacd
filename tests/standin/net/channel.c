/* SPDX-License-Identifier: BSD-3-Clause
 * Two byte streams, one per direction, through memory that two ranks of a host share, as in NCCL. TCP on the loopback
 * takes five times as long as a memcpy of the same bytes, this about as long.
 *
 * One rank makes the memory (a memfd) and tells the other its process and descriptor. Each direction is a ring with one
 * writer and one reader. A side that finds it full or empty notes that it sleeps and polls the ranks' TCP connection.
 * The other side then rings: it sends one byte on that connection, which otherwise only shows that the other rank has
 * died. Each end belongs to the thread that runs its communicator.
 */
#include "tests/standin/standin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Small enough that both directions of a pair stay in the cache. */
#define CAPACITY ((size_t)1 << 20)

struct direction {
  _Alignas(64) atomic_uint_fast64_t written; /* bytes since the beginning */
  atomic_bool reader_sleeps;
  _Alignas(64) atomic_uint_fast64_t read;
  atomic_bool writer_sleeps;
};

/* Followed by the bytes of both directions, `capacity` each. */
struct channel_memory {
  uint64_t secret; /* of the communicator, to recognize its memory */
  struct direction directions[2];
};

struct channel {
  struct channel_memory *memory;
  size_t size, capacity;
  struct direction *out, *in;
  char *out_data, *in_data;
  int bell;   /* the TCP connection */
  bool slept; /* a ring may have come since */
  bool hung_up;
};

/* Maps the memory of `fd`. */
static struct channel *channel_new(int fd, int bell, int side) {
  struct stat status;
  struct channel *channel = calloc(1, sizeof *channel);
  if (!channel || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size <= (off_t)sizeof *channel->memory) {
    free(channel);
    return NULL;
  }
  channel->size = (size_t)status.st_size;
  channel->capacity = (channel->size - sizeof *channel->memory) / 2;
  void *memory = mmap(NULL, channel->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    free(channel);
    return NULL;
  }
  char *data = (char *)memory + sizeof *channel->memory;
  channel->memory = memory;
  channel->out = &channel->memory->directions[side];
  channel->in = &channel->memory->directions[!side];
  channel->out_data = data + (side ? channel->capacity : 0);
  channel->in_data = data + (side ? 0 : channel->capacity);
  channel->bell = bell;
  return channel;
}

struct channel *standin_channel_create(uint64_t secret, int bell, int *fd) {
  *fd = memfd_create("nccl-standin", MFD_CLOEXEC);
  if (*fd < 0 || ftruncate(*fd, (off_t)(sizeof(struct channel_memory) + 2 * CAPACITY)) != 0)
    return NULL;
  struct channel *channel = channel_new(*fd, bell, 0);
  if (channel)
    channel->memory->secret = secret;
  return channel;
}

struct channel *standin_channel_open(uint64_t secret, int bell, int process, int descriptor) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", process, descriptor);
  int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return NULL;
  struct channel *channel = channel_new(fd, bell, 1);
  close(fd);
  if (channel && channel->memory->secret != secret) {
    standin_channel_close(channel);
    return NULL;
  }
  return channel;
}

void standin_channel_close(struct channel *channel) {
  if (!channel)
    return;
  munmap(channel->memory, channel->size);
  free(channel);
}

/* A full connection holds only rings that the other side has not taken; one more adds nothing. */
static void ring_bell(struct channel *channel, atomic_bool *sleeps) {
  if (atomic_load(sleeps) && atomic_exchange(sleeps, false))
    (void)!send(channel->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Drains the rings that have come. */
static void answer_bell(struct channel *channel) {
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

/* Copy between the program and the ring, which may wrap. */
static void copy_in(const struct channel *channel, uint64_t at, const void *data, size_t size) {
  size_t offset = at % channel->capacity, left = channel->capacity - offset, first = size < left ? size : left;
  memcpy(channel->out_data + offset, data, first);
  memcpy(channel->out_data, (const char *)data + first, size - first);
}

static void copy_out(const struct channel *channel, uint64_t at, void *data, size_t size) {
  size_t offset = at % channel->capacity, left = channel->capacity - offset, first = size < left ? size : left;
  memcpy(data, channel->in_data + offset, first);
  memcpy((char *)data + first, channel->in_data, size - first);
}

bool standin_channel_hung_up(const struct channel *channel) { return channel->hung_up; }

size_t standin_channel_write(struct channel *channel, const void *data, size_t size) {
  struct direction *direction = channel->out;
  answer_bell(channel);
  uint64_t written = atomic_load_explicit(&direction->written, memory_order_relaxed);
  uint64_t room = channel->capacity - (written - atomic_load(&direction->read));
  size = size < room ? size : room;
  if (!size)
    return 0;
  copy_in(channel, written, data, size);
  atomic_store(&direction->written, written + size);
  ring_bell(channel, &direction->reader_sleeps);
  return size;
}

size_t standin_channel_read(struct channel *channel, void *data, size_t size) {
  struct direction *direction = channel->in;
  answer_bell(channel);
  uint64_t read = atomic_load_explicit(&direction->read, memory_order_relaxed);
  uint64_t filled = atomic_load(&direction->written) - read;
  size = size < filled ? size : filled;
  if (!size)
    return 0;
  copy_out(channel, read, data, size);
  atomic_store(&direction->read, read + size);
  ring_bell(channel, &direction->writer_sleeps);
  return size;
}

/* Notes the sleep first and then looks; the other side does the reverse. */
bool standin_channel_may_sleep(struct channel *channel, bool to_read, bool to_write) {
  channel->slept = true;
  if (to_read)
    atomic_store(&channel->in->reader_sleeps, true);
  if (to_write)
    atomic_store(&channel->out->writer_sleeps, true);
  bool readable = atomic_load(&channel->in->written) != atomic_load(&channel->in->read);
  bool writable = atomic_load(&channel->out->written) - atomic_load(&channel->out->read) < channel->capacity;
  return !(to_read && readable) && !(to_write && writable);
}
