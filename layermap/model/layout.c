/* SPDX-License-Identifier: BSD-3-Clause
 * Layouts of reduce-scatters; see layout.h. *Flat* ones lay parameter behind parameter and cut the whole in equal
 * shards; *chunked* ones cut each parameter and give every shard a chunk of each.
 *
 * (Read in torch 2.15, DeepSpeed 0.19.8 and Megatron-core 0.16.)
 *
 * fsdp1          torch/distributed/fsdp/_runtime_utils.py, _get_reduce_scatter_tensors(): the flat gradient in chunks
 *                of ceil(elements / nranks), zeros behind it.
 * fsdp1_aligned  _flat_param.py, _init_flat_param_and_metadata(): pads before a parameter up to a multiple of
 *                _get_aligned_numel() = 16 / bytes of an element (only with use_orig_params), and behind the last one
 *                up to the ranks.
 * fsdp2          _fully_shard/_fsdp_collectives.py, foreach_reduce() with _get_dim0_padded_size() and chunk_cat: pads
 *                the rows of each parameter to a multiple of the ranks; row r of the buffer is chunk r of each of them.
 *                (Unsupported: parameters that a program shards along another dimension.)
 * zero3          deepspeed/runtime/comm/coalesced_collectives.py, reduce_scatter_coalesced(): of each tensor, flat,
 *                chunks of ceil(elements / nranks); padding is unwritten memory. Sorted by ds_id, the order of creation
 *                (stage3.py).
 * megatron       megatron/core/distributed/param_and_grad_buffer.py, with the distributed optimizer: parameters from
 *                the last to the first, each begins at a multiple of 64, a bucket ends at one of lcm(nranks, 128). (A
 *                bucket begins at such a multiple, so each is laid out as if alone. Unsupported:
 *                pad_buckets_for_high_nccl_busbw, off by default, also ends it at a multiple of 65536.)
 */
#include "layermap/model/layout.h"

enum { FSDP1_ALIGNMENT_BYTES = 16, MEGATRON_BUCKET = 128 };

const char *const tagc_layout_names[TAGC_LAYOUTS + 1] = {[TAGC_LAYOUT_FSDP1] = "fsdp1",
                                                         [TAGC_LAYOUT_FSDP1_ALIGNED] = "fsdp1_aligned",
                                                         [TAGC_LAYOUT_FSDP2] = "fsdp2",
                                                         [TAGC_LAYOUT_ZERO3] = "zero3",
                                                         [TAGC_LAYOUT_MEGATRON] = "megatron"};

const char *tagc_layout_name(enum tagc_layout_kind layout) { return tagc_layout_names[layout]; }

bool tagc_layout_is_uniform(enum tagc_layout_kind layout) {
  return layout == TAGC_LAYOUT_FSDP2 || layout == TAGC_LAYOUT_ZERO3;
}

static uint64_t divide_up(uint64_t n, uint64_t by) { return n / by + (n % by != 0); }

static uint64_t round_up(uint64_t n, uint64_t multiple) { return divide_up(n, multiple) * multiple; }

/* A flat layout ends at a multiple of this. (128 is a power of two: doubling finds the least common multiple.) */
static uint64_t end_of_shards(enum tagc_layout_kind layout, int nranks) {
  uint64_t end = (uint64_t)nranks;
  if (layout == TAGC_LAYOUT_MEGATRON)
    while (end % MEGATRON_BUCKET)
      end *= 2;
  return end;
}

uint64_t tagc_layout_shard_of_parts(enum tagc_layout_kind layout, uint64_t parts, int nranks) {
  return tagc_layout_is_uniform(layout) ? parts : round_up(parts, end_of_shards(layout, nranks)) / (uint64_t)nranks;
}

/* -- chunked layouts ----------------------------------------------------------------------------------------------- */

static uint64_t chunk_of(enum tagc_layout_kind layout, const struct tagc_parameter *p, int nranks) {
  return tagc_layout_part(layout, p->rows, p->columns, nranks);
}

static uint64_t chunked_shard(enum tagc_layout_kind layout, const struct tagc_member *members, size_t count,
                              int nranks) {
  uint64_t elements = 0;
  for (size_t i = 0; i < count; i++)
    if (__builtin_add_overflow(elements, chunk_of(layout, members[i].parameter, nranks), &elements))
      return UINT64_MAX;
  return elements;
}

static bool chunked_walk(enum tagc_layout_kind layout, const struct tagc_member *members, size_t count, int nranks,
                         int shard, bool (*visit)(const struct tagc_segment *segment, void *data), void *data) {
  uint64_t offset = 0;
  for (size_t i = 0; i < count; i++) {
    const struct tagc_parameter *p = members[i].parameter;
    uint64_t chunk = chunk_of(layout, p, nranks), elements = p->rows * p->columns, before = chunk * (uint64_t)shard;
    uint64_t rest = before < elements ? elements - before : 0, filled = rest < chunk ? rest : chunk;
    struct tagc_segment own = {offset, filled, (int32_t)i}, padding = {offset + filled, chunk - filled, -1};
    if ((own.length && !visit(&own, data)) || (padding.length && !visit(&padding, data)))
      return false;
    offset += chunk;
  }
  return true;
}

/* -- flat layouts -------------------------------------------------------------------------------------------------- */

static bool is_reversed(enum tagc_layout_kind layout) { return layout == TAGC_LAYOUT_MEGATRON; }

/* Parameters begin at multiples of this. */
static uint64_t alignment_of(enum tagc_layout_kind layout, size_t element_bytes) {
  if (layout == TAGC_LAYOUT_MEGATRON)
    return TAGC_MEGATRON_PARAMETER;
  bool is_aligned = layout == TAGC_LAYOUT_FSDP1_ALIGNED && element_bytes >= 1 && element_bytes < FSDP1_ALIGNMENT_BYTES;
  return is_aligned ? FSDP1_ALIGNMENT_BYTES / element_bytes : 1;
}

/* The end of the last flat parameter, without padding; UINT64_MAX: overflow. */
static uint64_t flat_end(enum tagc_layout_kind layout, const struct tagc_member *members, size_t count,
                         size_t element_bytes) {
  uint64_t alignment = alignment_of(layout, element_bytes), end = 0;
  for (size_t i = 0; i < count; i++) {
    const struct tagc_parameter *p = members[is_reversed(layout) ? count - 1 - i : i].parameter;
    end = round_up(end, alignment);
    if (end > UINT64_MAX / 2)
      return UINT64_MAX;
    end += p->rows * p->columns;
  }
  return end;
}

static uint64_t flat_shard(enum tagc_layout_kind layout, const struct tagc_member *members, size_t count, int nranks,
                           size_t element_bytes) {
  uint64_t end = flat_end(layout, members, count, element_bytes);
  return end == UINT64_MAX ? end : tagc_layout_shard_of_parts(layout, end, nranks);
}

/* One shard, [begin, end) of the whole, and the visitor of its segments. */
struct window {
  uint64_t begin, end;
  bool (*visit)(const struct tagc_segment *segment, void *data);
  void *data;
};

/* Visits the window's part of [begin, end) of the whole. */
static bool show(const struct window *window, uint64_t begin, uint64_t end, int32_t member) {
  if (begin < window->begin)
    begin = window->begin;
  if (end > window->end)
    end = window->end;
  if (begin >= end)
    return true;
  struct tagc_segment segment = {begin - window->begin, end - begin, member};
  return window->visit(&segment, window->data);
}

static bool flat_walk(enum tagc_layout_kind layout, const struct tagc_member *members, size_t count,
                      size_t element_bytes, const struct window *window) {
  uint64_t alignment = alignment_of(layout, element_bytes), end = 0;
  for (size_t i = 0; i < count && end < window->end; i++) {
    size_t member = is_reversed(layout) ? count - 1 - i : i;
    const struct tagc_parameter *p = members[member].parameter;
    uint64_t begin = round_up(end, alignment);
    if (!show(window, end, begin, -1) || !show(window, begin, begin + p->rows * p->columns, (int32_t)member))
      return false;
    end = begin + p->rows * p->columns;
  }
  return show(window, end, window->end, -1);
}

/* ------------------------------------------------------------------------------------------------------------------ */

uint64_t tagc_layout_shard(enum tagc_layout_kind layout, const struct tagc_member *members, size_t count, int nranks,
                           size_t element_bytes) {
  return tagc_layout_is_uniform(layout) ? chunked_shard(layout, members, count, nranks)
                                        : flat_shard(layout, members, count, nranks, element_bytes);
}

bool tagc_layout_walk(enum tagc_layout_kind layout, const struct tagc_member *members, size_t count, int nranks,
                      size_t element_bytes, int shard, bool (*visit)(const struct tagc_segment *segment, void *data),
                      void *data) {
  uint64_t elements = tagc_layout_shard(layout, members, count, nranks, element_bytes);
  if (elements == UINT64_MAX)
    return false;
  if (tagc_layout_is_uniform(layout))
    return chunked_walk(layout, members, count, nranks, shard, visit, data);
  uint64_t begin = elements * (uint64_t)shard;
  struct window window = {begin, begin + elements, visit, data};
  return flat_walk(layout, members, count, element_bytes, &window);
}
