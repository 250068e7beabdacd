/* SPDX-License-Identifier: BSD-3-Clause
 * libFuzzer target: a rank may receive any bytes of an all-gather. Decoding must stay inside its buffers. The numbers
 * may be any, but every variant of the kernels gives the same. Payloads of an honest sender, made of any bits, come out
 * as in the reference of tests/unit/allgather/reference.h, bit for bit if the codec promises that; or all is refused,
 * and nothing is touched.
 *
 * Input  kind and codec; type and ranks; n; then by kind:
 *          HOSTILE  the payloads, over and over (exact: behind headers that are right)
 *          HONEST   the ranks' shards, as bits, and (delta, exact) their reference
 *        Bit 64 of the first byte means exact, and with a second byte of 192 and more support.
 */
#include "kernels/codec/variant.h"
#include "tests/fuzz/input.h"
#include "tests/unit/allgather/reference.h"

enum { MOST_ELEMENTS = 3000, RANKS = 4 };

static const char *const variants[] = {"plain", "avx2", "avx512"};

/* Bytes from the rest of the input, repeated. */
static void *taken(const struct input *in, size_t turn, size_t bytes) {
  uint8_t *out = input_memory(bytes);
  for (size_t i = 0; i < bytes; i++)
    out[i] = input_left(in) ? in->at[(i + turn) % input_left(in)] : 0;
  return out;
}

static void *copy(const void *from, size_t bytes) { return memcpy(input_memory(bytes), from, bytes); }

/* Decodes in every variant, which must give equal results for any payloads. */
static void decode(const struct tagc_allgather_codec *codec, const struct tagc_allgather_job *job, bool honest,
                   size_t shard, uint8_t *result, void *reference) {
  const size_t all = (size_t)job->shape.nranks * shard;
  for (size_t v = 0; v < 3; v++) {
    if (!tagc_variant_force(variants[v]))
      continue;
    struct tagc_allgather_job again = *job;
    again.recv = input_memory(all);
    memset(again.recv, 0x55, all);
    again.reference = copy(job->reference, job->layout.reference_bytes);
    codec->decode(&again);
    if (v == 0) {
      memcpy(result, again.recv, all);
      memcpy(reference, again.reference, job->layout.reference_bytes);
    }
    MUST(memcmp(result, again.recv, all) == 0);
    MUST(memcmp(reference, again.reference, job->layout.reference_bytes) == 0);
    MUST(again.refused == (codec->may_refuse && tagc_allgather_any_refused(job)));
    MUST(!honest || !again.failed);
    for (size_t i = 0; again.refused && i < all; i++)
      MUST(result[i] == 0x55);
    free(again.recv);
    free(again.reference);
  }
}

static void encode(const struct tagc_allgather_codec *codec, struct tagc_allgather_job *job, const uint8_t *send,
                   size_t shard) {
  uint8_t *expected = input_memory(job->layout.payload_bytes);
  for (int rank = 0; rank < job->shape.nranks; rank++) {
    job->rank = rank;
    job->send = send + (size_t)rank * shard;
    if (!codec->least_bytes)
      gather_encode(codec, job, expected);
    for (size_t v = 0; v < 3; v++)
      if (tagc_variant_force(variants[v])) {
        codec->encode(job);
        if (codec->least_bytes && v == 0) /* the other variants write the same */
          memcpy(expected, tagc_allgather_payload(job, rank), job->layout.payload_bytes);
        const bool open = codec->may_refuse && expected[0]; /* what follows a refusal is undefined */
        MUST(memcmp(expected, tagc_allgather_payload(job, rank), open ? 16 : job->layout.payload_bytes) == 0);
      }
  }
  free(expected);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct input in = {data, data + size};
  const uint8_t first = input_byte(&in), second = input_byte(&in);
  const struct tagc_allgather_codec *codec = !(first & 64)   ? tagc_allgather_codecs[first / 2 % 4]
                                             : second >= 192 ? &tagc_allgather_support
                                                             : &tagc_allgather_exact;
  struct tagc_allgather_job job = {
    .shape = {.dtype = (enum tagc_dtype)(second % 3), .nranks = 2 + second / 3 % (RANKS - 1)}, .seed = first};
  job.shape.n = 1 + input_below(&in, MOST_ELEMENTS);
  if (!codec->layout(&job.shape, &job.layout))
    return -1;
  const size_t shard = job.shape.n * tagc_dtype_size(job.shape.dtype), all = (size_t)job.shape.nranks * shard;
  uint8_t *send = taken(&in, 0, all), *result = input_memory(all), *after = input_memory(job.layout.reference_bytes);
  job.reference = taken(&in, first & 128 ? 1 : 0, job.layout.reference_bytes);
  job.payloads = taken(&in, 0, (size_t)job.shape.nranks * job.layout.payload_bytes);
  job.state = input_memory(job.layout.state_bytes);
  job.send = send;
  for (int rank = 0; codec->least_bytes && rank < job.shape.nranks; rank++)
    memset(tagc_allgather_payload(&job, rank), 0, codec->least_bytes);
  if (first & 1)
    encode(codec, &job, send, shard);
  decode(codec, &job, first & 1, shard, result, after);
  if (first & 1 && codec->exact && !tagc_allgather_any_refused(&job))
    MUST(memcmp(result, send, all) == 0);
  free(send);
  free(result);
  free(after);
  free(job.reference);
  free(job.payloads);
  free(job.state);
  return 0;
}
