/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-map forecast: the bytes of gradients and parameters with the codecs of the library, by their own layouts. One
 * chunk a call, no exceptions. Two levels where a group has several ranks on each of several hosts, as TAGC_SCOPE=auto.
 */
#include <string.h>

#include "kernels/codec/allgather.h"
#include "layermap/tagc-map/forecast.h"

/* An exchange of a call's shards. */
struct forecast_exchange {
  struct tagc_shape shape;
  struct tagc_hosts hosts;
  bool two_levels;
};

/* Hosts that are not known are one a rank. */
static struct forecast_exchange forecast_exchange_of(const struct tagc_forecast_call *call, double sparsity) {
  const bool reduced = call->function == TAGC_FORECAST_ALL_REDUCE;
  const uint64_t ranks = (uint64_t)call->hosts.nranks;
  struct forecast_exchange e = {.hosts = call->hosts};
  if (!e.hosts.hosts)
    e.hosts.hosts = e.hosts.nranks;
  e.two_levels = e.hosts.local > 1;
  e.shape = (struct tagc_shape){.n = reduced ? (call->count + ranks - 1) / ranks : call->count,
                                .nranks = e.two_levels ? e.hosts.hosts : e.hosts.nranks,
                                .dtype = call->type,
                                .keep_ppm = (uint32_t)((1 - sparsity) * 1e6 + 0.5)};
  return e;
}

static void add_traffic(struct tagc_traffic *sum, struct tagc_traffic more, uint64_t times) {
  sum->inside += more.inside * times;
  sum->between += more.between * times;
}

/* The sums of an all-reduce are gathered in 16 bits after bf16, else in 8, by default (interpose/policy/plan.c). */
static struct tagc_traffic gathered_sums(const struct forecast_exchange *e, const struct tagc_codec *codec) {
  const struct tagc_allgather_codec *how = codec == tagc_codec_find("bf16") ? &tagc_allgather_bf16 : &tagc_allgather_q8;
  const struct tagc_allgather_shape shape = {.n = e->shape.n, .nranks = e->hosts.nranks, .dtype = e->shape.dtype};
  struct tagc_allgather_layout layout;
  const bool packed = how->layout(&shape, &layout);
  return tagc_plain_traffic(packed ? layout.payload_bytes : shape.n * tagc_dtype_size(shape.dtype), &e->hosts);
}

/* False: the codec cannot carry the call, or would not save anything. */
static bool coded_gradient(const struct tagc_forecast_call *call, const struct tagc_codec *codec, double sparsity,
                           struct tagc_traffic *coded) {
  struct forecast_exchange e = forecast_exchange_of(call, sparsity);
  struct tagc_layout layout;
  e.shape.residual = codec->needs_residual ? TAGC_STORAGE_INT8 : TAGC_STORAGE_NONE;
  if (e.hosts.hosts < 2 || !codec->layout(&e.shape, &layout))
    return false;
  *coded = tagc_layout_traffic(&e.shape, &layout, &e.hosts, e.two_levels);
  if (call->function == TAGC_FORECAST_ALL_REDUCE)
    add_traffic(coded, gathered_sums(&e, codec), 1);
  return true;
}

static bool coded_parameter(const struct tagc_forecast_call *call, const struct tagc_allgather_codec *codec,
                            struct tagc_traffic *coded) {
  const struct forecast_exchange e = forecast_exchange_of(call, 0);
  const struct tagc_allgather_shape shape = {.n = e.shape.n, .nranks = e.hosts.nranks, .dtype = e.shape.dtype};
  struct tagc_allgather_layout layout;
  if (e.hosts.hosts < 2 || !codec->layout(&shape, &layout))
    return false;
  *coded = tagc_plain_traffic(layout.payload_bytes, &e.hosts);
  return true;
}

static bool may_be_coded(const struct tagc_forecast_call *call, enum tagc_forecast_content content, uint64_t least) {
  return call->content == content && call->times && call->group <= TAGC_FORECAST_REPLICAS &&
         tagc_forecast_message(call) >= least;
}

static void count_coded(struct tagc_forecast_codec *to, const struct tagc_forecast_call *call, bool can,
                        struct tagc_traffic coded) {
  struct tagc_forecast_call known = *call;
  if (!known.hosts.hosts)
    known.hosts.hosts = known.hosts.nranks;
  const struct tagc_traffic plain = tagc_forecast_sent(&known);
  if (!can)
    return;
  add_traffic(&to->plain, plain, call->times);
  add_traffic(&to->coded, coded, call->times);
}

static void sum_codec(const struct tagc_forecast_stage *stage, enum tagc_forecast_content content, uint64_t least,
                      double sparsity, size_t at, struct tagc_forecast_codec *to) {
  /* Those whose payloads have a fixed size; the others depend on the values. */
  static const struct tagc_allgather_codec *const gathers[] = {&tagc_allgather_bf16, &tagc_allgather_q8};
  for (size_t i = 0; i < stage->count; i++) {
    const struct tagc_forecast_call *call = &stage->calls[i];
    struct tagc_traffic coded = {0};
    if (may_be_coded(call, content, least))
      count_coded(to, call,
                  content == TAGC_FORECAST_GRADIENTS ? coded_gradient(call, tagc_codecs[at], sparsity, &coded)
                                                     : coded_parameter(call, gathers[at], &coded),
                  coded);
  }
}

size_t tagc_forecast_codecs(const struct tagc_forecast_stage *stage, enum tagc_forecast_content content, uint64_t least,
                            double sparsity, struct tagc_forecast_codec *codecs, size_t room) {
  static const char *const gathers[] = {"bf16", "q8", NULL};
  size_t count = 0;
  for (size_t i = 0; count < room && (content == TAGC_FORECAST_GRADIENTS ? !!tagc_codecs[i] : !!gathers[i]); i++) {
    struct tagc_forecast_codec *codec = &codecs[count];
    *codec =
      (struct tagc_forecast_codec){.name = content == TAGC_FORECAST_GRADIENTS ? tagc_codecs[i]->name : gathers[i]};
    sum_codec(stage, content, least, sparsity, i, codec);
    const bool exact = !strcmp(codec->name, "none") || !strcmp(codec->name, "precise"); /* they compress nothing */
    count += !exact && codec->coded.between < codec->plain.between;
  }
  return count;
}
