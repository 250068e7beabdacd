/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/nccl/process.h"

#include <errno.h>
#include <pthread.h>

#include "env/log.h"
#include "interpose/policy/option_check.h"
#include "interpose/trace/trace.h"

atomic_int tagc_library_state;

static struct tagc_options options;
static const struct tagc_codec *codec;
static const struct tagc_model *map;
static uint64_t map_digest;

/* What env/ cannot know: names of codecs, and lists of layers. */
static void check_texts(void)
{
  char why[TAGC_OPTION_WHY];
  for (int i = 0; i < TAGC_OPTION_COUNT; i++)
    if (!tagc_option_check(&options, (enum tagc_option_index)i, why)) {
      options.bad = true;
      tagc_log(TAGC_LOG_ERROR, "env", "%s; this process passes every call through", why);
    }
}

static void read_map(void)
{
  char why[TAGC_OPTION_WHY];
  if (!*options.layermap || (map = tagc_option_map(options.layermap, &map_digest, why)))
    return;
  options.bad = true;
  tagc_log(TAGC_LOG_ERROR, "layermap", "%s; this process passes every call through", why);
}

static void start(void)
{
  int saved = errno;
  tagc_log_start();
  tagc_options_read_process(&options);
  tagc_log_set_level(options.log);
  check_texts();
  codec = tagc_codec_find(options.codec);
  if (!codec && !tagc_options_auto(&options))
    codec = tagc_codecs[0];         /* of a name that was refused: nothing is encoded with it */
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

const struct tagc_allgather_codec *tagc_library_gather_codec(void)
{
  const int choice = tagc_library_options()->gather;
  const struct tagc_allgather_codec *const *of_choice = tagc_allgather_codecs;
  for (int i = TAGC_GATHER_OFF + 1; *of_choice && i < choice; i++)
    of_choice++;
  return choice == TAGC_GATHER_OFF ? NULL : *of_choice;
}
