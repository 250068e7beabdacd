/* SPDX-License-Identifier: BSD-3-Clause
 * The list of codecs for all-gathers, and the memory of a job. See allgather.h.
 */
#include "kernels/allgather.h"

#include "kernels/carve.h"

const struct tagc_allgather_codec *const tagc_allgather_codecs[] = {
  &tagc_allgather_bf16,
  NULL,
};

size_t tagc_allgather_carve(struct tagc_allgather_job *job, uint8_t *base)
{
  size_t used = 0;
  job->payloads = tagc_carve(base, &used, (size_t)job->shape.nranks * job->layout.payload_bytes);
  job->state = tagc_carve(base, &used, job->layout.state_bytes);
  return used;
}

bool tagc_allgather_any_refused(const struct tagc_allgather_job *job)
{
  for (int rank = 0; rank < job->shape.nranks; rank++)
    if (((const struct tagc_allgather_header *)tagc_allgather_payload(job, rank))->flags & TAGC_ALLGATHER_REFUSED)
      return true;
  return false;
}
