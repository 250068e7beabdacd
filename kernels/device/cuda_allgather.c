/* SPDX-License-Identifier: BSD-3-Clause
 * The all-gather functions of a CUDA device's table (device.h); allgather/cuda.h launches the kernels.
 */
#include "env/log.h"
#include "kernels/allgather/cuda.h"
#include "kernels/device/cuda_device.h"

bool tagc_cuda_allgather_layout(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                                const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *out) {
  struct tagc_cuda_visit visit;
  return tagc_cuda_enter_ready(self, &visit) && tagc_cuda_leave(&visit, true) &&
         tagc_allgather_cuda_layout(codec, shape, out) && tagc_cuda_allgather_passes(tagc_cuda_device_of(self), codec);
}

/* What exact takes is its instructions: some hundred for an element, whose few bytes memory moves in less time. */
bool tagc_cuda_allgather_cost(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                              struct tagc_gpu_cost *out) {
  enum { LAUNCHES = 6 };
  const struct tagc_allgather_cuda *its = tagc_allgather_cuda_of(codec);
  struct tagc_cuda_visit visit;
  if (!its || !its->encode_ops || !tagc_cuda_enter_ready(self, &visit))
    return false;
  *out = (struct tagc_gpu_cost){.encode_ns = visit.device->rates.ns_per_op * its->encode_ops,
                                .decode_ns = visit.device->rates.ns_per_op * its->decode_ops,
                                .call_ns = LAUNCHES * TAGC_GPU_LAUNCH_NS + TAGC_GPU_WAIT_NS};
  return tagc_cuda_leave(&visit, true);
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

/* Copies one row, without a kernel; some codecs then note what they need. */
bool tagc_cuda_allgather_refer(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                               struct tagc_allgather_job *job, void *stream) {
  const size_t bytes = (size_t)job->shape.nranks * job->shape.n * tagc_dtype_size(job->shape.dtype);
  tagc_allgather_step *refer = tagc_allgather_cuda_of(codec)->refer;
  if (codec->refer && !tagc_cuda_copy(self, job->reference, bytes, job->recv, bytes, bytes, 1, stream))
    return false;
  return !refer || run_allgather_step(self, refer, codec, job, stream, "cuLaunchKernel for a reference");
}

/* What decode does on the host, where it needs no waiting. */
bool tagc_cuda_allgather_refused(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                                 struct tagc_allgather_job *job, void *stream, bool *refused) {
  struct tagc_allgather_state state = {0};
  if (!tagc_cuda_get(self, &state, job->state, sizeof state, stream))
    return false;
  *refused = job->refused = state.refused != 0;
  job->failed = state.failed != 0;
  if (job->sizes && codec->choose_size)
    codec->choose_size(job, state.needed);
  if (job->failed)
    tagc_log(TAGC_LOG_ERROR, "kernels",
             "GPU %d: parameters that came in are not those that were sent: a payload, or "
             "this rank's copy of the last parameters, is damaged",
             tagc_cuda_device_of(self)->ordinal);
  return !job->failed;
}

bool tagc_cuda_allgather_digest(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                                struct tagc_allgather_job *job, void *stream) {
  const struct tagc_allgather_call gather = tagc_allgather_call_of(codec, job, NULL);
  return !gather.kept || tagc_cuda_get(self, job->digest, &gather.kept->digest, sizeof *job->digest, stream);
}
