/* SPDX-License-Identifier: BSD-3-Clause
 * The common code of the dense codecs: the walk over shards and blocks, exceptions, the residual. See dense.h.
 */
#include "kernels/dense/dense.h"

#include <string.h>

#include "kernels/codec/fpmode.h"
#include "kernels/codec/residual.h"
#include "kernels/codec/variant.h"

enum { BLOCK = TAGC_DENSE_BLOCK };

_Static_assert((int)BLOCK == (int)TAGC_RESIDUAL_BLOCK && (int)BLOCK == (int)TAGC_ROTATION, "one size of blocks");

/* At the start of the state, from encode to decode. */
struct header {
  uint32_t anywhere; /* this rank's flags for the others (exceptions.h) */
  uint32_t unused[3];
};

/* One block of a shard. */
struct place {
  uint64_t number, from;
  uint32_t count;
};

static const struct tagc_dense_kernels *dense_kernels(void) { return TAGC_OF_VARIANT(tagc_dense); }

const struct tagc_dense_format tagc_dense_formats[TAGC_DENSE_CODECS] = {
  [TAGC_DENSE_BF16] = {.codec = TAGC_DENSE_BF16, .bytes = 512, .draws = true},
  [TAGC_DENSE_Q8] = {.codec = TAGC_DENSE_Q8, .scales = 1, .bytes = 256, .draws = true},
  [TAGC_DENSE_Q4] = {.codec = TAGC_DENSE_Q4, .scales = 2, .bytes = 128, .rotates = true, .draws = true},
  [TAGC_DENSE_Q3] = {.codec = TAGC_DENSE_Q3, .scales = 2, .bytes = 96},
  [TAGC_DENSE_Q2] = {.codec = TAGC_DENSE_Q2, .scales = 1, .bytes = 64, .rotates = true},
};

struct tagc_dense_parts tagc_dense_parts_of(const struct tagc_dense_format *format, uint64_t n) {
  const uint64_t blocks = (n + BLOCK - 1) / BLOCK;
  struct tagc_dense_parts parts = {.scales = tagc_exceptions_bytes(n)};
  parts.codes = parts.scales + tagc_pad16(blocks * format->scales * sizeof(uint16_t));
  parts.code_bytes = format->codec == TAGC_DENSE_BF16 ? n * sizeof(uint16_t) : blocks * format->bytes;
  parts.bytes = parts.codes + tagc_pad16(parts.code_bytes);
  return parts;
}

bool tagc_dense_layout(const struct tagc_dense_format *format, const struct tagc_shape *shape,
                       struct tagc_layout *out) {
  if (shape->n == 0 || shape->n > UINT32_MAX || shape->nranks < 2)
    return false;
  const size_t room = (size_t)(shape->nranks - 1) * tagc_exceptions_capacity(shape->n);
  *out = (struct tagc_layout){
    .message_bytes = tagc_dense_parts_of(format, shape->n).bytes,
    .state_bytes = sizeof(struct header) + tagc_pad16(room * sizeof(struct tagc_exception)),
    .capacity = shape->n,
  };
  return true;
}

static struct place first_place(uint64_t n) { return (struct place){.count = n < BLOCK ? (uint32_t)n : BLOCK}; }

static struct place next_block(struct place place, uint64_t n) {
  place.number++;
  place.from += BLOCK;
  place.count = n - place.from < BLOCK ? (uint32_t)(n - place.from) : BLOCK;
  return place;
}

static void find_block_signs(uint64_t signs[TAGC_ROTATION_WORDS], uint64_t key, uint64_t block) {
  for (uint32_t word = 0; word < TAGC_ROTATION_WORDS; word++)
    signs[word] = tagc_rotation_signs(key, block, word);
}

/* -- encode -------------------------------------------------------------------------------------------------------- */

/* One foreign shard on its way out. */
struct shard {
  const struct tagc_dense_format *format;
  const struct tagc_dense_kernels *kernels;
  const struct tagc_job *job;
  int number;
  uint64_t rotation_key, chance_key;
  uint8_t *message;
  struct tagc_dense_parts parts;
};

static void find_block_context(struct tagc_dense_context *context, const struct shard *shard, uint64_t block) {
  if (shard->format->rotates)
    find_block_signs(context->signs, shard->rotation_key, block);
  context->stochastic = shard->job->stochastic;
  if (context->stochastic && shard->format->draws)
    for (uint32_t word = 0; word < BLOCK / 4; word++) {
      const uint64_t bits = tagc_chance(shard->chance_key, block, word);
      for (uint32_t i = 0; i < 4; i++)
        context->chance[4 * word + i] = (uint16_t)(bits >> 16 * i);
    }
}

/* scale*g + e of a block, zeros beyond the end of the shard. False: look closer. */
static bool load_block(const struct shard *shard, struct place place, float values[BLOCK]) {
  const struct tagc_job *job = shard->job;
  const size_t size = tagc_dtype_size(job->shape.dtype);
  const char *from = (const char *)tagc_job_shard(job, shard->number) + place.from * size;
  const bool has_residual = job->residual && !job->residual_empty;
  _Alignas(64) float residual[BLOCK], padded[BLOCK];
  if (has_residual)
    tagc_residual_load(job, shard->number, place.from, place.count, residual);
  if (place.count < BLOCK) {
    memset(padded, 0, sizeof padded);
    memcpy(padded, from, place.count * size);
    if (has_residual)
      memset(residual + place.count, 0, (BLOCK - place.count) * sizeof *residual);
    from = (const char *)padded;
  }
  bool usual = shard->kernels->load(from, job->shape.dtype, job->scale, has_residual ? residual : NULL, values);
  for (uint32_t i = place.count; i < BLOCK; i++)
    values[i] = 0; /* the scale may be NaN */
  return usual;
}

/* Takes exceptions, and values that count as zero, out of a block. */
static void take_exceptions(const struct shard *shard, struct place place, float values[BLOCK]) {
  struct tagc_exceptions *list = (struct tagc_exceptions *)shard->message;
  for (uint32_t i = 0; i < place.count; i++) {
    if (tagc_is_exception(tagc_bits_of(values[i])))
      tagc_exceptions_add(list, shard->job->shape.n, (uint32_t)place.from + i, values[i]);
    values[i] = tagc_dense_strip(values[i]);
  }
}

/* Counts a block's values that neither travel nor stay. */
static uint64_t count_lost_in_block(const struct tagc_dense_format *format, const uint16_t *scales,
                                    const float values[BLOCK], bool usual) {
  bool silent[2] = {format->scales > 0 && scales[0] == 0, format->scales > 0 && scales[format->scales - 1] == 0};
  uint64_t lost = 0;
  if (format->rotates) /* the values of a silent half are in the other one */
    silent[0] = silent[1] = silent[0] && silent[1];
  for (uint32_t i = 0; (silent[0] || silent[1] || !usual) && i < BLOCK; i++)
    lost += tagc_dense_loses(values[i], silent[i / (BLOCK / 2)]);
  return lost;
}

/* Returns the squared norm of the residual. */
static double dense_encode_block(const struct shard *shard, struct place place, struct tagc_dense_context *context) {
  const struct tagc_dense_format *format = shard->format;
  const struct tagc_job *job = shard->job;
  const struct tagc_dense_steps *steps = &shard->kernels->codec[format->codec];
  uint16_t *scales = (uint16_t *)(shard->message + shard->parts.scales) + place.number * format->scales;
  uint8_t *codes = shard->message + shard->parts.codes + place.number * format->bytes;
  uint8_t *end = shard->message + shard->parts.codes + shard->parts.code_bytes;
  _Alignas(64) float values[BLOCK], stripped[BLOCK], left[BLOCK];
  _Alignas(64) uint8_t cut[BLOCK * sizeof(uint16_t)];
  const bool usual = load_block(shard, place, values), fits = format->bytes <= (size_t)(end - codes);
  find_block_context(context, shard, place.number);
  if (!usual) {
    memcpy(stripped, values, sizeof values);
    take_exceptions(shard, place, stripped);
  }
  steps->encode(usual ? values : stripped, context, scales, fits ? codes : cut, job->residual ? left : NULL);
  if (!fits)
    memcpy(codes, cut, (size_t)(end - codes));
  if (!job->residual) {
    job->stats->lost += count_lost_in_block(format, scales, values, usual);
    return 0;
  }
  for (uint32_t i = 0; !usual && i < BLOCK; i++)
    left[i] = tagc_dense_mend(values[i], left[i]);
  return tagc_residual_store(job, shard->number, place.from, place.count, left);
}

static double dense_encode_shard(const struct tagc_dense_format *format, struct tagc_job *job, int number) {
  const uint64_t n = job->shape.n;
  const struct shard shard = {
    .format = format,
    .kernels = dense_kernels(),
    .job = job,
    .number = number,
    .rotation_key = tagc_rotation_key(job->seed, (uint32_t)number),
    .chance_key = tagc_chance_key(job->seed, TAGC_CHANCE_SENT, (uint32_t)job->rank, (uint32_t)number),
    .message = job->message_out + (size_t)number * job->layout.message_bytes,
    .parts = tagc_dense_parts_of(format, n),
  };
  struct tagc_dense_context context;
  double norm2 = 0;
  tagc_exceptions_clear((struct tagc_exceptions *)shard.message, n);
  /* The last 16 bytes of each part may be padding: values are written later. */
  if (shard.parts.codes > shard.parts.scales)
    memset(shard.message + shard.parts.codes - 16, 0, 16);
  memset(shard.message + shard.parts.bytes - 16, 0, 16);
  for (struct place place = first_place(n); place.from < n; place = next_block(place, n))
    norm2 += dense_encode_block(&shard, place, &context);
  job->stats->nonfinite += tagc_exceptions_close((struct tagc_exceptions *)shard.message, n);
  return norm2;
}

void tagc_dense_encode(const struct tagc_dense_format *format, struct tagc_job *job) {
  tagc_fpmode mode = tagc_fpmode_enter();
  const void *own = tagc_job_shard(job, job->rank);
  double norm2 = 0;
  for (int shard = 0; shard < job->shape.nranks; shard++)
    if (shard != job->rank)
      norm2 += dense_encode_shard(format, job, shard);
  const bool seen = dense_kernels()->has_exceptions(own, job->shape.n, job->shape.dtype, job->scale);
  *(struct header *)job->state = (struct header){
    .anywhere = tagc_exceptions_anywhere(job, seen ? TAGC_ANYWHERE_EXCEPTION : 0),
  };
  job->stats->selected += ((uint64_t)job->shape.nranks - 1) * job->shape.n;
  job->stats->residual_norm2 = norm2;
  tagc_fpmode_leave(mode);
}

/* -- decode -------------------------------------------------------------------------------------------------------- */

/* The own shard during decode. */
struct sum {
  const struct tagc_dense_format *format;
  const struct tagc_dense_kernels *kernels;
  const struct tagc_job *job;
  uint64_t rotation_key;
  struct tagc_dense_parts parts;
  struct tagc_dense_result result;
};

/* Adds the senders' values of a block. */
static void add_senders(const struct sum *in, struct place place, float sum[BLOCK]) {
  const struct tagc_dense_format *format = in->format;
  const struct tagc_job *job = in->job;
  const size_t at = in->parts.codes + place.number * format->bytes, left = in->parts.codes + in->parts.code_bytes - at;
  for (int sender = 0; sender < job->shape.nranks; sender++) {
    if (sender == job->rank)
      continue;
    const uint8_t *message = job->message_in + (size_t)sender * job->layout.message_bytes;
    const uint16_t *scales = (const uint16_t *)(message + in->parts.scales) + place.number * format->scales;
    _Alignas(64) uint8_t cut[BLOCK * sizeof(uint16_t)];
    const uint8_t *codes = message + at;
    if (left < format->bytes) {
      memset(cut, 0, sizeof cut);
      codes = memcpy(cut, codes, left);
    }
    in->kernels->codec[format->codec].add(sum, scales, codes);
  }
}

/* Finishes an incomplete block, or one with exceptions, which are entry[0..count). True if a result is not finite. */
static bool finish_by_hand(const struct sum *in, struct place place, const float sum[BLOCK],
                           const struct tagc_exception *entry, size_t count) {
  const struct tagc_job *job = in->job;
  const enum tagc_dtype dtype = job->shape.dtype;
  const void *own = tagc_job_shard(job, job->rank);
  bool seen = false;
  for (uint32_t i = 0; i < place.count; i++) {
    float x = sum[i] + job->scale * tagc_load(own, place.from + i, dtype);
    for (; count > 0 && entry->position == place.from + i; entry++, count--)
      x += tagc_float_of(entry->bits);
    seen |= tagc_store_result(job->recv, place.from + i, dtype, x, job->divisor);
  }
  return seen;
}

/* Goes block by block, and reads a block's own values before it writes results: recv may be the own shard. True if a
 * result is not finite. */
static bool decode_blocks(const struct sum *in, const struct tagc_exception *exception, size_t exceptions) {
  const struct tagc_job *job = in->job;
  const uint64_t n = job->shape.n;
  const size_t size = tagc_dtype_size(job->shape.dtype);
  const char *own = tagc_job_shard(job, job->rank);
  bool seen = false;
  for (struct place place = first_place(n); place.from < n; place = next_block(place, n)) {
    _Alignas(64) float sum[BLOCK] = {0};
    size_t here = 0;
    add_senders(in, place, sum);
    if (in->format->rotates) {
      uint64_t signs[TAGC_ROTATION_WORDS];
      find_block_signs(signs, in->rotation_key, place.number);
      in->kernels->turn_back(sum, signs);
    }
    while (here < exceptions && exception[here].position < place.from + place.count)
      here++;
    if (here > 0 || place.count < BLOCK)
      seen |= finish_by_hand(in, place, sum, exception, here);
    else
      seen |= in->kernels->finish(sum, own + place.from * size, (char *)job->recv + place.from * size, in->result);
    exception += here;
    exceptions -= here;
  }
  return seen;
}

static float with_one_nan(float x) { return x == x ? x : tagc_float_of(TAGC_NAN_BITS); }

void tagc_dense_decode(const struct tagc_dense_format *format, struct tagc_job *job) {
  tagc_fpmode mode = tagc_fpmode_enter();
  const struct header *header = job->state;
  struct tagc_exception *exceptions = (struct tagc_exception *)(header + 1);
  const uint64_t n = job->shape.n;
  const struct sum sum = {
    .format = format,
    .kernels = dense_kernels(),
    .job = job,
    .rotation_key = tagc_rotation_key(job->seed, (uint32_t)job->rank),
    .parts = tagc_dense_parts_of(format, n),
    .result = {.dtype = job->shape.dtype, .scale = with_one_nan(job->scale), .divisor = with_one_nan(job->divisor)},
  };
  size_t count;
  const bool fits = tagc_exceptions_collect(job, header->anywhere, exceptions, &count);
  job->surplus_seen = false; /* there is room for all, whatever messages claim */
  if (fits)
    job->nonfinite_seen |= decode_blocks(&sum, exceptions, count);
  else
    tagc_exceptions_overflow(job);
  tagc_fpmode_leave(mode);
}
