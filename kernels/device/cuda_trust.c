/* SPDX-License-Identifier: BSD-3-Clause
 * Which codecs a GPU is trusted with: those that were played on it, and left the host's bits (proof.h). See cuda_device.h.
 */
#include "env/log.h"
#include "kernels/allgather/cuda.h"
#include "kernels/cuda/codecs.h"
#include "kernels/device/cuda_device.h"
#include "kernels/device/proof.h"

enum { FIRST_GATHER = 16 };        /* the bit of the first codec for all-gathers */

/* One of the two kinds. */
struct trial {
  const struct tagc_codec *codec;
  const struct tagc_allgather_codec *gather;
  uint32_t bit;                    /* 0 where it does not run on GPUs */
};

static struct trial trial_of(const struct tagc_codec *codec)
{
  struct trial trial = {.codec = codec};
  for (int i = 0; tagc_codecs[i]; i++)
    if (tagc_codecs[i] == codec && tagc_cuda_codec_of(codec))
      trial.bit = UINT32_C(1) << i;
  return trial;
}

static struct trial trial_of_gather(const struct tagc_allgather_codec *codec)
{
  struct trial trial = {.gather = codec};
  for (int i = 0; tagc_allgather_codecs[i]; i++)
    if (tagc_allgather_codecs[i] == codec && tagc_allgather_cuda_of(codec))
      trial.bit = UINT32_C(1) << (FIRST_GATHER + i);
  return trial;
}

static enum tagc_proof prove(const struct tagc_cuda_device *d, const struct trial *trial, char *words, size_t size)
{
  if (d->driver->trusted)
    return TAGC_PROOF_RIGHT;
  return trial->codec ? tagc_device_prove(&d->base, trial->codec, d->service, words, size)
                      : tagc_device_prove_gather(&d->base, trial->gather, d->service, words, size);
}

/* Its kernels are new to this GPU, or its driver has just made them: are they right? */
static void try_one(struct tagc_cuda_device *d, const struct trial *trial)
{
  const char *name = trial->codec ? trial->codec->name : trial->gather->name;
  const char *calls = trial->codec ? "calls" : "all-gathers", *made_up = trial->codec ? "gradient" : "parameter";
  char words[160];
  const enum tagc_proof proof = prove(d, trial, words, sizeof words);
  if (proof == TAGC_PROOF_RIGHT) {
    atomic_fetch_or(&d->right, trial->bit);
    return;
  }
  if (proof == TAGC_PROOF_WRONG) {
    atomic_fetch_or(&d->wrong, trial->bit);
    tagc_log(TAGC_LOG_ERROR, "kernels", "GPU %d: %s with codec %s pass: a made-up %s does not come out as on the host: %s",
             d->ordinal, calls, name, made_up, words);
  } else if (!(d->put_off & trial->bit)) {
    d->put_off |= trial->bit;
    tagc_log(TAGC_LOG_WARN, "kernels", "GPU %d: %s with codec %s pass until it can be tried out: %s", d->ordinal, calls, name,
             words);
  }
}

static bool is_known(struct tagc_cuda_device *d, uint32_t bit) { return (atomic_load(&d->right) | atomic_load(&d->wrong)) & bit; }

static bool is_trusted(struct tagc_cuda_device *d, const struct trial *trial)
{
  bool is_tried_here = false;
  if (!trial->bit)
    return false;
  if (!is_known(d, trial->bit)) {
    pthread_mutex_lock(&d->proof_lock);
    is_tried_here = d->proving;    /* who comes here meanwhile is the proof itself */
    if (!is_tried_here && !is_known(d, trial->bit)) {
      d->proving = true;
      try_one(d, trial);
      d->proving = false;
    }
    pthread_mutex_unlock(&d->proof_lock);
  }
  return is_tried_here || (atomic_load(&d->right) & trial->bit);
}

bool tagc_cuda_trusts(struct tagc_cuda_device *d, const struct tagc_codec *codec)
{
  const struct trial trial = trial_of(codec);
  return is_trusted(d, &trial);
}

bool tagc_cuda_trusts_gather(struct tagc_cuda_device *d, const struct tagc_allgather_codec *codec)
{
  const struct trial trial = trial_of_gather(codec);
  return is_trusted(d, &trial);
}

static bool is_ready(struct tagc_cuda_device *d) { return atomic_load(&d->state) == TAGC_CUDA_READY; }

void tagc_cuda_try_codecs(struct tagc_cuda_device *d)
{
  bool all = is_ready(d);
  for (int i = 0; tagc_codecs[i] && is_ready(d); i++)
    if (tagc_cuda_codec_of(tagc_codecs[i]) && !tagc_cuda_trusts(d, tagc_codecs[i]))
      all = false;
  for (int i = 0; tagc_allgather_codecs[i] && is_ready(d); i++)
    if (tagc_allgather_cuda_of(tagc_allgather_codecs[i]) && !tagc_cuda_trusts_gather(d, tagc_allgather_codecs[i]))
      all = false;
  if (all && !d->driver->trusted)
    tagc_log(TAGC_LOG_INFO, "kernels", "GPU %d: made-up gradients come out as on the host", d->ordinal);
}
