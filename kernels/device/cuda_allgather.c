/* SPDX-License-Identifier: BSD-3-Clause
 * The all-gather functions of a CUDA device's table (device.h); allgather/cuda.h launches the kernels.
 */
#include "kernels/allgather/cuda.h"
#include "kernels/device/cuda_device.h"

bool tagc_cuda_allgather_layout(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                                const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *out) {
  struct tagc_cuda_visit visit;
  return tagc_cuda_enter_ready(self, &visit) && tagc_cuda_leave(&visit, true) &&
         tagc_allgather_cuda_layout(codec, shape, out) && tagc_cuda_allgather_passes(tagc_cuda_device_of(self), codec);
}

/* `what`: for the log. */
static bool run_allgather_step(const struct tagc_device *self, tagc_allgather_step *step,
                               const struct tagc_allgather_codec *codec, const struct tagc_allgather_job *job,
                               void *stream, const char *what) {
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter_ready(self, &visit))
    return false;
  struct tagc_counts *counts = job->tally ? tagc_cuda_tally_counts(job->tally) : NULL;
  const struct tagc_allgather_call allgather = tagc_allgather_call_of(codec, job, counts);
  const int error = step(job->beside ? &visit.device->beside : &visit.device->launcher, &allgather, stream);
  return tagc_cuda_leave(&visit, tagc_cuda_did(visit.device, error, what));
}

bool tagc_cuda_allgather_encode(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                                struct tagc_allgather_job *job, void *stream) {
  return run_allgather_step(self, tagc_allgather_cuda_of(codec)->encode, codec, job, stream,
                            "cuLaunchKernel for parameters that are sent");
}

bool tagc_cuda_allgather_decode(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                                struct tagc_allgather_job *job, void *stream) {
  return run_allgather_step(self, tagc_allgather_cuda_of(codec)->decode, codec, job, stream,
                            "cuLaunchKernel for parameters that came in");
}

/* Copies one row, without a kernel. */
bool tagc_cuda_allgather_refer(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                               struct tagc_allgather_job *job, void *stream) {
  const size_t bytes = job->layout.reference_bytes;
  return !codec->refer || tagc_cuda_copy(self, job->reference, bytes, job->recv, bytes, bytes, 1, stream);
}

bool tagc_cuda_allgather_refused(const struct tagc_device *self, struct tagc_allgather_job *job, void *stream,
                                 bool *refused) {
  const struct tagc_allgather_state *state = job->state;
  uint32_t word = 0;
  if (!tagc_cuda_get(self, &word, &state->refused, sizeof word, stream))
    return false;
  *refused = job->refused = word != 0;
  return true;
}
