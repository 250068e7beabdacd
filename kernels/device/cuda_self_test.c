/* SPDX-License-Identifier: BSD-3-Clause
 * The codecs that have passed the self-test on a GPU, by giving the host's bits (self_test.h). See cuda_device.h.
 */
#include "env/log.h"
#include "kernels/allgather/cuda.h"
#include "kernels/cuda/codecs.h"
#include "kernels/device/cuda_device.h"
#include "kernels/device/self_test.h"

enum { FIRST_ALLGATHER = 16 }; /* the bit of the first codec for all-gathers */

/* One of the two kinds. */
struct tested {
  const struct tagc_codec *codec;
  const struct tagc_allgather_codec *allgather;
  uint32_t bit; /* 0: it does not run on GPUs */
};

static struct tested tested_codec(const struct tagc_codec *codec) {
  struct tested tested = {.codec = codec};
  for (int i = 0; tagc_codecs[i]; i++)
    if (tagc_codecs[i] == codec && tagc_cuda_codec_of(codec))
      tested.bit = UINT32_C(1) << i;
  return tested;
}

static struct tested tested_allgather(const struct tagc_allgather_codec *codec) {
  struct tested tested = {.allgather = codec};
  for (int i = 0; tagc_allgather_codec_at(i); i++)
    if (tagc_allgather_codec_at(i) == codec && tagc_allgather_cuda_of(codec))
      tested.bit = UINT32_C(1) << (FIRST_ALLGATHER + i);
  return tested;
}

static enum tagc_self_test run_self_test(const struct tagc_cuda_device *d, const struct tested *tested, char *words,
                                         size_t size) {
  if (d->driver->needs_no_self_test)
    return TAGC_SELF_TEST_PASSED;
  return tested->codec ? tagc_self_test_codec(&d->base, tested->codec, d->service, words, size)
                       : tagc_self_test_allgather(&d->base, tested->allgather, d->service, words, size);
}

/* Checks kernels that are new to this GPU, or just translated by its driver. */
static void test_one(struct tagc_cuda_device *d, const struct tested *tested) {
  const char *name = tested->codec ? tested->codec->name : tested->allgather->name;
  const char *calls = tested->codec ? "calls" : "all-gathers", *made_up = tested->codec ? "gradient" : "parameter";
  char words[160];
  const enum tagc_self_test result = run_self_test(d, tested, words, sizeof words);
  if (result == TAGC_SELF_TEST_PASSED) {
    atomic_fetch_or(&d->passed, tested->bit);
    return;
  }
  if (result == TAGC_SELF_TEST_FAILED) {
    atomic_fetch_or(&d->failed, tested->bit);
    tagc_log(TAGC_LOG_ERROR, "kernels", "GPU %d: %s with codec %s pass: a made-up %s differs from the host's: %s",
             d->ordinal, calls, name, made_up, words);
  } else if (!(d->not_run & tested->bit)) {
    d->not_run |= tested->bit;
    tagc_log(TAGC_LOG_WARN, "kernels", "GPU %d: %s with codec %s pass until the self-test succeeds: %s", d->ordinal,
             calls, name, words);
  }
}

static bool is_tested(struct tagc_cuda_device *d, uint32_t bit) {
  return (atomic_load(&d->passed) | atomic_load(&d->failed)) & bit;
}

static bool passes(struct tagc_cuda_device *d, const struct tested *tested) {
  bool is_tried_here = false;
  if (!tested->bit)
    return false;
  if (!is_tested(d, tested->bit)) {
    pthread_mutex_lock(&d->self_test_lock);
    is_tried_here = d->self_testing; /* only the self-test itself gets here meanwhile */
    if (!is_tried_here && !is_tested(d, tested->bit)) {
      d->self_testing = true;
      test_one(d, tested);
      d->self_testing = false;
    }
    pthread_mutex_unlock(&d->self_test_lock);
  }
  return is_tried_here || (atomic_load(&d->passed) & tested->bit);
}

bool tagc_cuda_codec_passes(struct tagc_cuda_device *d, const struct tagc_codec *codec) {
  const struct tested tested = tested_codec(codec);
  return passes(d, &tested);
}

bool tagc_cuda_allgather_passes(struct tagc_cuda_device *d, const struct tagc_allgather_codec *codec) {
  const struct tested tested = tested_allgather(codec);
  return passes(d, &tested);
}

static bool is_ready(struct tagc_cuda_device *d) { return atomic_load(&d->state) == TAGC_CUDA_READY; }

void tagc_cuda_self_test_codecs(struct tagc_cuda_device *d) {
  bool all = is_ready(d);
  for (int i = 0; tagc_codecs[i] && is_ready(d); i++)
    if (tagc_cuda_codec_of(tagc_codecs[i]) && !tagc_cuda_codec_passes(d, tagc_codecs[i]))
      all = false;
  for (int i = 0; tagc_allgather_codec_at(i) && is_ready(d); i++)
    if (tagc_allgather_cuda_of(tagc_allgather_codec_at(i)) &&
        !tagc_cuda_allgather_passes(d, tagc_allgather_codec_at(i)))
      all = false;
  if (all && !d->driver->needs_no_self_test)
    tagc_log(TAGC_LOG_INFO, "kernels", "GPU %d: the self-test gives the host's bits", d->ordinal);
}
