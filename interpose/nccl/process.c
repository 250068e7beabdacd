/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/nccl/process.h"

#include <stdatomic.h>
#include <errno.h>
#include <pthread.h>

#include "env/log.h"
#include "layermap/model/select.h"

static struct tagc_options options;
static const struct tagc_codec *codec;
static const struct tagc_model *map;
static uint64_t map_digest;

static void read_options(void) {
  const int saved = errno;
  tagc_log_start();
  tagc_options_read_process(&options);
  tagc_log_set_level(options.log);
  codec = tagc_codec_find(options.codec);
  if (!codec && !tagc_options_auto(&options))
    codec = tagc_codecs[0]; /* for a name that will be refused: it encodes nothing */
  errno = saved;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

const struct tagc_options *tagc_library_options(void) {
  pthread_once(&once, read_options);
  return &options;
}

const struct tagc_codec *tagc_library_codec(void) { return codec; }

void tagc_library_refuse(void) { options.bad = true; }

void tagc_library_set_map(const struct tagc_model *model, uint64_t digest) {
  map = model;
  map_digest = digest;
}

const struct tagc_model *tagc_library_map(uint64_t *digest) {
  *digest = map_digest;
  return map;
}

static bool asks_kinds(const char *list) {
  char element[TAGC_SELECT_ELEMENT];
  for (const char *rest = list; rest;)
    if (tagc_select_asks_kinds(tagc_select_next(&rest, element)))
      return true;
  return false;
}

enum tagc_ask tagc_library_asks_torch(void) {
  const struct tagc_options *o = tagc_library_options();
  if (tagc_options_ask_torch(o))
    return TAGC_ASK_ALL;
  return !*o->layermap && (asks_kinds(o->layers) || asks_kinds(o->skip)) ? TAGC_ASK_FULLY_SHARD : TAGC_ASK_NOTHING;
}

const struct tagc_allgather_codec *tagc_library_allgather_codec(void) {
  const int choice = tagc_library_options()->allgather;
  if (choice == TAGC_ALLGATHER_AUTO)
    return tagc_options_auto(tagc_library_options()) ? &tagc_allgather_exact : NULL;
  const struct tagc_allgather_codec *const *of_choice = tagc_allgather_codecs;
  for (int i = TAGC_ALLGATHER_OFF + 1; *of_choice && i < choice; i++)
    of_choice++;
  return choice == TAGC_ALLGATHER_OFF ? NULL : *of_choice;
}

static atomic_bool messages;

void tagc_library_note_messages(void) {
  if (!atomic_load_explicit(&messages, memory_order_relaxed))
    atomic_store_explicit(&messages, true, memory_order_relaxed);
}

bool tagc_library_saw_messages(void) { return atomic_load_explicit(&messages, memory_order_relaxed); }

ncclResult_t tagc_no_memory(const char *what) {
  static atomic_flag told;
  if (!atomic_flag_test_and_set(&told))
    tagc_log(TAGC_LOG_ERROR, "interpose",
             "no memory for %s: the call fails with ncclSystemError, as this rank cannot go its "
             "own way",
             what);
  return ncclSystemError;
}
