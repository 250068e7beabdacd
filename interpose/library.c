/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/library.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "env/log.h"
#include "interpose/trace.h"
#include "layermap/mapfile.h"
#include "layermap/select.h"

atomic_int tagc_library_state;

static struct tagc_options options;
static const struct tagc_codec *codec;
static const struct tagc_model *map;
static uint64_t map_digest;

/* What env/ cannot know: names of codecs, and lists of layers. */
static void check_list(const char *variable, const char *list)
{
  const char *why;
  size_t at;
  if (tagc_select_valid(list, &why, &at))
    return;
  options.bad = true;
  tagc_log(TAGC_LOG_ERROR, "env", "%s=%.80s: %s, at character %zu; " TAGC_SELECT_ACCEPTED "; this process passes every call through",
           variable, list, why, at + 1);
}

static void read_map(void)
{
  struct tagc_complaint complaint;
  char where[32] = "";
  if (!*options.layermap || (map = tagc_mapfile_read(options.layermap, &map_digest, &complaint)))
    return;
  options.bad = true;
  if (complaint.line)
    snprintf(where, sizeof where, ":%u:%u", complaint.line, complaint.column);
  tagc_log(TAGC_LOG_ERROR, "layermap", "TAGC_LAYERMAP=%.200s%s: %s; this process passes every call through", options.layermap, where,
           complaint.text);
}

static void start(void)
{
  int saved = errno;
  tagc_log_start();
  tagc_options_read_process(&options);
  tagc_log_set_level(options.log);
  codec = tagc_codec_find(options.codec);
  if (!codec && !tagc_options_auto(&options)) {
    char names[120];
    tagc_log(TAGC_LOG_ERROR, "env", "TAGC_CODEC=%.80s: not understood; accepted is one of auto|%s; this process passes "
             "every call through", options.codec, tagc_codec_names(names, sizeof names));
    options.bad = true;
    codec = tagc_codecs[0];
  }
  check_list("TAGC_LAYERS", options.layers);
  check_list("TAGC_SKIP", options.skip);
  if (options.mode != TAGC_MODE_OFF) {
    read_map();
    tagc_trace_start(&options);
  }
  atomic_store_explicit(&tagc_library_state, options.mode == TAGC_MODE_OFF ? TAGC_LIBRARY_OFF : TAGC_LIBRARY_ON,
                        memory_order_release);
  errno = saved;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

bool tagc_library_start(void)
{
  pthread_once(&once, start);
  return atomic_load(&tagc_library_state) == TAGC_LIBRARY_ON;
}

const struct tagc_options *tagc_library_options(void)
{
  pthread_once(&once, start);
  return &options;
}

const struct tagc_codec *tagc_library_codec(void) { return codec; }

const struct tagc_model *tagc_library_map(uint64_t *digest)
{
  *digest = map_digest;
  return map;
}
