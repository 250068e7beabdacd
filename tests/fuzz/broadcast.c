/* SPDX-License-Identifier: BSD-3-Clause
 * libFuzzer target: the ranks of a broadcast may receive any statuses and any payload. All ranks with the same ones
 * must come to the same verdict, which must be one that they can follow. Decoding must stay inside its buffers, and
 * gives the root's content, or fails. The content of an honest root, any bits, comes out at every rank, in every
 * variant of the kernels.
 *
 * Input  kind; ranks; number of references, and words and type of each; call: a reference's shape or another one; the
 *        content of the root and of references; then by kind:
 *          HONEST   nothing
 *          HOSTILE  statuses (behind digests that are right, if the kind says so), and the payload
 */
#include "interpose/broadcast/verdict.h"

#include "kernels/allgather/exact.h"
#include "kernels/codec/variant.h"
#include "tests/fuzz/input.h"

enum { HOSTILE = 1, RIGHT_DIGESTS = 2, LIKE = 4, MOST_WORDS = 2500, MOST_RANKS = 4, MOST_REFERENCES = 4 };

static const char *const variants[] = {"plain", "avx2", "avx512"};
static const uint64_t limit = 20000;

/* Bytes from the rest of the input, repeated. */
static void take(const struct input *in, size_t turn, void *to, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    ((uint8_t *)to)[i] = input_left(in) ? in->at[(i + turn) % input_left(in)] : 0;
}

static struct tagc_broadcast_shape shape_from(struct input *in, int nranks) {
  const struct tagc_broadcast_shape shape = {
    .words = 100 + input_below(in, MOST_WORDS - 100),
    .dtype = (enum tagc_dtype)input_below(in, 3),
    .root = (int)input_below(in, 256) % nranks,
  };
  return shape;
}

static struct tagc_allgather_job job_for(const struct tagc_references *refs, const struct tagc_broadcast_shape *shape,
                                         int rank, const void *send, void *recv) {
  struct tagc_allgather_job job = {
    .shape = tagc_broadcast_codec_shape(shape), .rank = rank, .send = send, .recv = recv, .payloads = refs->packed};
  MUST(tagc_allgather_exact.layout(&job.shape, &job.layout));
  return job;
}

/* All ranks hold these. */
static void make_references(struct input *in, struct tagc_references *refs, int nranks) {
  const unsigned count = input_byte(in) % (MOST_REFERENCES + 1);
  for (unsigned i = 0; i < count; i++) {
    const struct tagc_broadcast_shape shape = shape_from(in, nranks);
    if (!tagc_references_have_room(refs, &shape, refs->count, limit))
      continue;
    refs->calls++;
    const struct tagc_allgather_layout layout = {.reference_bytes = tagc_broadcast_bytes(&shape)};
    const struct tagc_reference_limits limits = {limit, 0};
    MUST(tagc_references_keep(refs, &tagc_device_host, &shape, &layout, refs->count, &limits, NULL));
    struct tagc_reference *r = &refs->all[refs->count - 1];
    take(in, i, r->memory, tagc_broadcast_bytes(&shape));
    MUST(tagc_references_sample(refs, &tagc_device_host, &shape, r->memory, NULL));
    r->samples = refs->sampled;
    r->digest = i + 1;
  }
}

static void check_verdict(const struct tagc_references *refs, const struct tagc_broadcast_shape *shape,
                          const struct tagc_broadcast_verdict *v, uint64_t payload_most) {
  MUST(v->forgets == (v->cause > TAGC_BROADCAST_REJECTED));
  switch (v->action) {
  case TAGC_BROADCAST_CHANGES:
    MUST(!v->forgets && v->reference < refs->count && v->bytes > 0 && v->bytes <= payload_most);
    MUST(tagc_broadcast_is_same(&refs->all[v->reference].shape, shape));
    return;
  case TAGC_BROADCAST_KEEP:
    MUST(v->forgets ? v->reference == 0 && tagc_broadcast_bytes(shape) <= limit
                    : tagc_references_have_room(refs, shape, v->reference, limit));
    return;
  default: MUST(v->action == TAGC_BROADCAST_PLAIN);
  }
}

/* Decodes the payload at a receiver in every variant, on a copy of the reference. True if it did not fail. */
static bool decode(const struct tagc_references *refs, const struct tagc_broadcast_shape *shape, uint32_t reference,
                   uint8_t *recv) {
  const size_t bytes = tagc_broadcast_bytes(shape);
  bool good = true;
  for (size_t v = 0; v < 3; v++) {
    if (!tagc_variant_force(variants[v]))
      continue;
    uint8_t *mine = input_memory(bytes), *old = input_memory(bytes);
    uint64_t digest = refs->all[reference].digest;
    memcpy(old, refs->all[reference].memory, bytes);
    memset(mine, 0x55, bytes);
    struct tagc_allgather_job job = job_for(refs, shape, -1, NULL, mine);
    job.reference = old;
    job.digest = &digest;
    tagc_allgather_exact.decode(&job);
    MUST(v == 0 || memcmp(mine, recv, bytes) == 0);
    MUST(v == 0 || good == !(job.failed || job.refused));
    memcpy(recv, mine, bytes);
    good = !(job.failed || job.refused);
    free(mine);
    free(old);
  }
  return good;
}

static void be_honest(struct tagc_references *refs, const struct tagc_broadcast_shape *shape, const uint8_t *content,
                      int nranks) {
  const size_t bytes = tagc_broadcast_bytes(shape);
  MUST(tagc_references_sample(refs, &tagc_device_host, shape, content, NULL));
  const struct tagc_broadcast_choice choice = tagc_references_choose(refs, shape, limit);
  struct tagc_broadcast_status statuses[MOST_RANKS];
  struct tagc_exact_header header = {.needed = 0};
  uint8_t *recv = input_memory(bytes);
  struct tagc_allgather_job job = job_for(refs, shape, 0, content, recv);
  for (int rank = 0; rank < nranks; rank++)
    statuses[rank] = tagc_broadcast_status_of(refs, shape);
  statuses[shape->root].action = choice.action;
  statuses[shape->root].reference = choice.reference;
  if (choice.action == TAGC_BROADCAST_CHANGES) {
    job.reference = refs->all[choice.reference].memory;
    job.digest = &refs->all[choice.reference].digest;
    tagc_allgather_exact.encode(&job);
    memcpy(&header, refs->packed, sizeof header);
    statuses[shape->root].bytes = header.needed;
    if (header.common.flags & TAGC_ALLGATHER_REFUSED)
      statuses[shape->root].action = TAGC_BROADCAST_KEEP;
  }
  const struct tagc_broadcast_verdict v =
    tagc_broadcast_judge(refs, shape, statuses, nranks, job.layout.payload_bytes, limit);
  check_verdict(refs, shape, &v, job.layout.payload_bytes);
  MUST(v.cause == TAGC_BROADCAST_CHOSEN && (uint32_t)v.action == statuses[shape->root].action);
  if (v.action == TAGC_BROADCAST_CHANGES) {
    /* Behind the bytes that are sent lies what was there before. */
    memset(refs->packed + v.bytes, 0xa5, refs->packed_bytes - v.bytes);
    MUST(decode(refs, shape, v.reference, recv) && memcmp(recv, content, bytes) == 0);
    memset(recv, 0, bytes);
    tagc_allgather_exact.decode(&job); /* at the root */
    MUST(!job.failed && !job.refused && memcmp(recv, content, bytes) == 0);
    MUST(memcmp(refs->all[v.reference].memory, content, bytes) == 0);
  }
  free(recv);
}

static void be_hostile(struct input *in, struct tagc_references *refs, const struct tagc_broadcast_shape *shape,
                       int nranks, bool right_digests) {
  const size_t bytes = tagc_broadcast_bytes(shape);
  struct tagc_broadcast_status statuses[MOST_RANKS];
  uint8_t *recv = input_memory(bytes);
  const struct tagc_allgather_job job = job_for(refs, shape, -1, NULL, recv);
  for (int rank = 0; rank < nranks; rank++) {
    const struct tagc_broadcast_status right = tagc_broadcast_status_of(refs, shape);
    take(in, (size_t)rank, &statuses[rank], sizeof statuses[rank]);
    if (!right_digests)
      continue;
    statuses[rank].call = right.call;
    statuses[rank].references = right.references;
    statuses[rank].flags = right.flags;
    statuses[rank].action %= 3;
    statuses[rank].reference %= refs->count + 1;
    statuses[rank].bytes %= 2 * job.layout.payload_bytes;
  }
  const struct tagc_broadcast_verdict v =
    tagc_broadcast_judge(refs, shape, statuses, nranks, job.layout.payload_bytes, limit);
  check_verdict(refs, shape, &v, job.layout.payload_bytes);
  take(in, 7, refs->packed, refs->packed_bytes);
  if (v.action == TAGC_BROADCAST_CHANGES)
    (void)decode(refs, shape, v.reference, recv);
  free(recv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct input in = {data, data + size};
  struct tagc_references refs = {.last = TAGC_NO_REFERENCE};
  const uint8_t kind = input_byte(&in);
  const int nranks = 2 + input_byte(&in) % (MOST_RANKS - 1);
  MUST(tagc_references_reserve_payload(&refs, &tagc_device_host, 0, NULL)); /* for samples */
  make_references(&in, &refs, nranks);
  struct tagc_broadcast_shape shape = shape_from(&in, nranks);
  if (refs.count && kind & LIKE)
    shape = refs.all[shape.words % refs.count].shape;
  const size_t bytes = tagc_broadcast_bytes(&shape);
  const struct tagc_allgather_shape of = tagc_broadcast_codec_shape(&shape);
  struct tagc_allgather_layout layout;
  MUST(tagc_allgather_exact.layout(&of, &layout));
  MUST(tagc_references_reserve_payload(&refs, &tagc_device_host, layout.payload_bytes, NULL));
  refs.calls++;
  uint8_t *content = input_memory(bytes);
  take(&in, kind >> 4, content, bytes);
  if (kind & HOSTILE)
    be_hostile(&in, &refs, &shape, nranks, kind & RIGHT_DIGESTS);
  else
    be_honest(&refs, &shape, content, nranks);
  free(content);
  tagc_references_free(&refs, &tagc_device_host, NULL, false);
  return 0;
}
