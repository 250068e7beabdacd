/* SPDX-License-Identifier: BSD-3-Clause
 * The codec for all-gathers that sends, bit for bit, what has changed since the last one: bf16, fp16 and fp32.
 *
 * Reference  The last result, all shards, in the type of the call, the same on all ranks. Every header has a digest of
 *            all of it. If these differ, some rank has missed a call: all refuse.
 * Payload    struct tagc_exact_header, then
 *              edges    uint8 x blocks of 512 elements
 *              lengths  uint16 x blocks: the bytes of the stream, and its level above them
 *              streams  of the blocks, right behind one another; sixteen bytes, which a decoder may read
 *            exact.h explains a stream. Bytes behind that are undefined.
 * Example    bf16, n = 3, reference (1, 1, -1), shard (1, 1.0078125, -1): the differences are 0, 1 and 0, so z = 2 of
 *            the second, and L = 2. With the edge 0 v = 2. The map in level 4 has 8 bits, and fours: 1, 1, 1 and 2. The
 *            planes are 1 and 0, and the lower bit is 0: 23 bits.
 *              (64 bytes of header)  00 (15 zeros)  03 40 (14 zeros)  01 11 12
 * Sizes      All ranks need one size before the call. The headers say how many bytes each shard needs, so that after a
 *            call all ranks know the same sizes, and add a margin. It grows with every refusal and falls again. If no
 *            shard has changed, the next call has headers alone.
 * Refused    A shard that does not fit into the payload. The caller then gathers plainly and calls refer(), as it does
 *            at first. A shard that needs more than the largest payload changes no size: the next one may be small.
 * Checked    The digest of each decoded shard must be the one in its header. Otherwise the job has failed.
 */
#include <string.h>

#include "kernels/allgather/exact_steps.h"
#include "kernels/allgather/kernels.h"
#include "kernels/codec/variant.h"

enum {
  HEADER = sizeof(struct tagc_exact_header),
  MARGIN_LEAST = 4,
  MARGIN_FIRST = 8,
  MARGIN_MOST = 32,
  AT_ONCE = 32, /* blocks that stay in a cache from one pass over them to the next */
};

static const struct tagc_exact_kernels *exact_kernels(void) { return TAGC_OF_VARIANT(tagc_exact); }

/* The largest payload: beyond seven eighths of the shard the plain call is as good. */
static bool exact_layout(const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *out) {
  if (!tagc_allgather_shape_fits(shape))
    return false;
  const size_t shard = shape->n * tagc_dtype_size(shape->dtype),
               most = shard / 8 * 7 / TAGC_EXACT_GRAIN * TAGC_EXACT_GRAIN;
  *out = (struct tagc_allgather_layout){
    .payload_bytes = most,
    .reference_bytes = (size_t)shape->nranks * shard,
  };
  return most >= tagc_exact_grains(tagc_exact_parts_of(shape->n).streams + TAGC_EXACT_SPARE);
}

static uint32_t count_at(uint64_t block, uint64_t n) {
  const uint64_t left = n - block * TAGC_EXACT_BLOCK;
  return left < TAGC_EXACT_BLOCK ? (uint32_t)left : (uint32_t)TAGC_EXACT_BLOCK;
}

/* Elements of AT_ONCE blocks from that one on, or those that are left. */
static uint64_t count_from(uint64_t block, uint64_t n) {
  const uint64_t left = n - block * TAGC_EXACT_BLOCK, most = (uint64_t)AT_ONCE * TAGC_EXACT_BLOCK;
  return left < most ? left : most;
}

static size_t offset_of(uint64_t block, enum tagc_dtype dtype) {
  return (size_t)block * TAGC_EXACT_BLOCK * tagc_dtype_size(dtype);
}

/* Their part in the digest of a shard. */
static uint64_t digest_from(const void *shard, uint64_t block, uint64_t n, enum tagc_dtype dtype) {
  return exact_kernels()->digest((const uint8_t *)shard + offset_of(block, dtype), block * TAGC_EXACT_BLOCK,
                                 count_from(block, n), dtype);
}

static uint64_t digest_of(const void *shard, uint64_t n, enum tagc_dtype dtype) {
  return n + exact_kernels()->digest(shard, 0, n, dtype);
}

/* -- encode -------------------------------------------------------------------------------------------------------- */

/* Writes the blocks as far as they fit, and adds up the digest of the shard. Returns the bytes that all of them need.
 * 0: no element has changed. */
static uint64_t encode_blocks(const struct tagc_allgather_job *job, uint8_t *payload, uint64_t room,
                              uint64_t *content) {
  const uint64_t n = job->shape.n;
  const enum tagc_dtype dtype = job->shape.dtype;
  const struct tagc_exact_parts at = tagc_exact_parts_of(n);
  const uint8_t *old = tagc_allgather_part(job, job->reference, job->rank);
  const bool heads = room >= at.streams + TAGC_EXACT_SPARE;
  uint64_t used = at.streams;
  uint32_t changed = 0;
  for (uint64_t block = 0; block < tagc_exact_blocks(n); block++) {
    uint8_t stream[TAGC_EXACT_ROOM];
    uint32_t head;
    if (block % AT_ONCE == 0)
      *content += digest_from(job->send, block, n, dtype);
    const size_t bytes =
      exact_kernels()->encode((const uint8_t *)job->send + offset_of(block, dtype), old + offset_of(block, dtype),
                              count_at(block, n), dtype, stream, &head);
    if (heads && used + bytes + TAGC_EXACT_SPARE <= room) {
      const uint16_t length = (uint16_t)(head >> 12 | (head >> 8 & 15) << 12);
      payload[at.edges + block] = (uint8_t)head;
      memcpy(payload + at.lengths + 2 * block, &length, sizeof length);
      memcpy(payload + used, stream, bytes);
    }
    used += bytes;
    changed |= head;
  }
  return changed ? used + TAGC_EXACT_SPARE : 0;
}

static void allgather_exact_encode(struct tagc_allgather_job *job) {
  const uint64_t room = job->layout.payload_bytes;
  uint8_t *payload = tagc_allgather_payload(job, job->rank);
  struct tagc_exact_header header = {.needed = HEADER, .reference = job->digest ? *job->digest : 0};
  const size_t shard = job->shape.n * tagc_dtype_size(job->shape.dtype);
  uint64_t needed = 0, content = job->shape.n;
  /* A payload of a header alone is for what has not changed, and has no digest. */
  if (room > HEADER || memcmp(job->send, tagc_allgather_part(job, job->reference, job->rank), shard) != 0)
    needed = encode_blocks(job, payload, room, &content);
  if (needed)
    header.needed = tagc_exact_grains(needed);
  else
    header.common.flags = TAGC_EXACT_UNCHANGED;
  if (header.needed > room)
    header.common.flags = TAGC_ALLGATHER_REFUSED;
  if (room > HEADER)
    header.content = content;
  memcpy(payload, &header, sizeof header);
  tagc_allgather_set_norms(job, (struct tagc_allgather_norms){0});
}

/* -- sizes --------------------------------------------------------------------------------------------------------- */

static struct tagc_exact_header header_of(const struct tagc_allgather_job *job, int rank) {
  struct tagc_exact_header header;
  memcpy(&header, tagc_allgather_payload(job, rank), sizeof header);
  return header;
}

/* What the largest shard of this call needed. */
static uint64_t most_needed(const struct tagc_allgather_job *job) {
  uint64_t needed = HEADER;
  for (int rank = 0; rank < job->shape.nranks; rank++) {
    const uint64_t its = header_of(job, rank).needed;
    needed = its > needed ? its : needed;
  }
  return needed;
}

static void choose_exact_size(struct tagc_allgather_job *job, uint64_t needed) {
  struct tagc_allgather_sizes *sizes = job->sizes;
  struct tagc_allgather_layout most;
  uint64_t margin = sizes->margin ? sizes->margin : MARGIN_FIRST;
  const uint64_t now = job->layout.payload_bytes;
  const bool first = !sizes->payload_bytes;
  if (job->refused)
    margin = 2 * margin < MARGIN_MOST ? 2 * margin : MARGIN_MOST;
  else if (margin > MARGIN_LEAST)
    margin--;
  const bool sane = exact_layout(&job->shape, &most) && needed <= most.payload_bytes;
  const uint64_t wanted = !sane ? now : needed == HEADER ? HEADER : tagc_exact_grains(needed + needed / 64 * margin);
  const uint64_t least = first || job->refused ? 0 : needed == HEADER ? now / 2 : now - now / 8;
  uint64_t next = wanted > least ? wanted : tagc_exact_grains(least);
  next = next < most.payload_bytes ? next : most.payload_bytes;
  /* A payload with room for less than the blocks' heads carries nothing. */
  const uint64_t heads = tagc_exact_parts_of(job->shape.n).streams + TAGC_EXACT_SPARE;
  sizes->payload_bytes = next < tagc_exact_grains(heads) ? (uint64_t)HEADER : next;
  sizes->margin = margin;
  sizes->calls++;
}

/* -- decode -------------------------------------------------------------------------------------------------------- */

/* The ranks refer to the same parameters, and no shard was refused. All ranks see the same headers. */
static bool has_all_shards(const struct tagc_allgather_job *job) {
  const uint64_t reference = header_of(job, 0).reference;
  for (int rank = 0; rank < job->shape.nranks; rank++)
    if (header_of(job, rank).reference != reference)
      return false;
  return !tagc_allgather_any_refused(job);
}

/* Decodes AT_ONCE blocks into their reference. `from`: where their streams begin. Returns where those behind begin. */
static uint64_t decode_exact_blocks(const struct tagc_allgather_job *job, int rank, uint64_t first, uint64_t from) {
  const uint64_t n = job->shape.n, blocks = tagc_exact_blocks(n), end = first + AT_ONCE;
  const enum tagc_dtype dtype = job->shape.dtype;
  const struct tagc_exact_parts at = tagc_exact_parts_of(n);
  const uint8_t *payload = tagc_allgather_payload(job, rank);
  uint8_t *old = tagc_allgather_part(job, job->reference, rank);
  const uint64_t room = job->layout.payload_bytes;
  for (uint64_t block = first; block < end && block < blocks; block++) {
    uint16_t length;
    memcpy(&length, payload + at.lengths + 2 * block, sizeof length);
    const uint64_t said = length & 0xfff, left = room - TAGC_EXACT_SPARE - from, bytes = said < left ? said : left;
    const uint32_t head = payload[at.edges + block] | (uint32_t)(length >> 12) << 8;
    uint8_t *to = old + offset_of(block, dtype);
    exact_kernels()->decode(payload + from, bytes, head, to, count_at(block, n), dtype, to);
    from += bytes;
  }
  return from;
}

/* Brings the reference of a shard up to date, and copies it to `recv`, unless that is NULL. The own one is the
 * program's, even if its payload says something else: digests tell. */
static void follow_shard(struct tagc_allgather_job *job, int rank, uint8_t *recv) {
  const uint64_t n = job->shape.n, blocks = tagc_exact_blocks(n);
  const enum tagc_dtype dtype = job->shape.dtype;
  const struct tagc_exact_header header = header_of(job, rank);
  uint8_t *old = tagc_allgather_part(job, job->reference, rank);
  const bool same = header.common.flags & TAGC_EXACT_UNCHANGED, own = rank == job->rank,
             has_digest = job->layout.payload_bytes > HEADER,
             has_room = job->layout.payload_bytes >= tagc_exact_parts_of(n).streams + TAGC_EXACT_SPARE;
  uint64_t content = n, from = tagc_exact_parts_of(n).streams;
  for (uint64_t block = 0; block < blocks; block += AT_ONCE) {
    const size_t offset = offset_of(block, dtype), bytes = count_from(block, n) * tagc_dtype_size(dtype);
    if (!same && own)
      memcpy(old + offset, (const uint8_t *)job->send + offset, bytes);
    else if (!same && has_room)
      from = decode_exact_blocks(job, rank, block, from);
    if (has_digest)
      content += digest_from(old, block, n, dtype);
    if (recv)
      memcpy(recv + offset, old + offset, bytes);
  }
  job->failed |= has_digest ? content != header.content : !same;
}

static void allgather_exact_decode(struct tagc_allgather_job *job) {
  uint64_t digest = 0;
  job->failed = false;
  job->refused = !has_all_shards(job);
  if (job->sizes)
    choose_exact_size(job, most_needed(job));
  if (job->refused && job->stats)
    job->stats->refused++;
  for (int rank = 0; rank < job->shape.nranks && !job->refused; rank++) {
    const bool kept = rank == job->rank && job->keep_own;
    follow_shard(job, rank, kept ? NULL : tagc_allgather_shard(job, rank));
    digest = tagc_exact_add_digest(digest, header_of(job, rank).content);
  }
  if (!job->refused && job->digest && job->layout.payload_bytes > HEADER)
    *job->digest = digest;
}

static void exact_refer(struct tagc_allgather_job *job) {
  uint64_t digest = 0;
  memcpy(job->reference, job->recv, job->layout.reference_bytes);
  for (int rank = 0; rank < job->shape.nranks; rank++)
    digest = tagc_exact_add_digest(
      digest, digest_of(tagc_allgather_part(job, job->reference, rank), job->shape.n, job->shape.dtype));
  if (job->digest)
    *job->digest = digest;
}

const struct tagc_allgather_codec tagc_allgather_exact = {
  .name = "exact",
  .least_bytes = HEADER,
  .exact = true,
  .may_refuse = true,
  .layout = exact_layout,
  .encode = allgather_exact_encode,
  .decode = allgather_exact_decode,
  .refer = exact_refer,
  .choose_size = choose_exact_size,
};
