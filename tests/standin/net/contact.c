/* SPDX-License-Identifier: BSD-3-Clause
 * First contacts: before the first call between two ranks of a communicator goes to a stream, both meet on the host,
 * inside their group's end: a byte each way. NCCL connects its ranks there, too. The end of a group therefore waits for
 * peers that are new in it, and for no other rank. Meanwhile, work with other peers of the communicator goes on.
 *
 * NCCL does this once per direction of a pair, the stand-in once for both. On host memory all peers count as met.
 */
#include "tests/standin/standin.h"

#include <stdlib.h>

/* The calls of a contact, for its job. */
struct contact {
  struct call *calls;
  struct call **order;
};

/* True if the call makes the ranks communicate, seen from this side. */
static bool talks_to(const struct ncclComm *comm, const struct call *call, int peer) {
  if (standin_is_collective(call->function)) {
    int distance = abs(comm->place[peer] - comm->place[comm->rank]);
    return distance == 1 || distance == comm->nranks - 1; /* the ring's neighbours */
  }
  bool is_rooted = call->function == FN_GATHER || call->function == FN_SCATTER;
  return call->function == FN_ALL_TO_ALL || peer == call->root || (is_rooted && comm->rank == call->root);
}

static bool is_new(const struct job *job, int peer) {
  const struct ncclComm *comm = job->comm;
  for (size_t i = 0; i < job->ncalls && peer != comm->rank && !comm->peers[peer].met; i++)
    if (talks_to(comm, job->calls[i], peer))
      return true;
  return false;
}

/* Makes `job` the contact with all peers that are new in `of`; without new peers it has no calls. */
static bool plan(struct job *job, struct contact *contact, const struct job *of) {
  static char sent, received;
  struct ncclComm *comm = of->comm;
  *job = (struct job){.comm = comm, .contact = true};
  for (int i = 0; i < comm->nranks; i++)
    job->ncalls += is_new(of, i) ? 2 : 0;
  if (!job->ncalls)
    return true;
  contact->calls = calloc(job->ncalls, sizeof *contact->calls);
  job->calls = contact->order = calloc(job->ncalls, sizeof *contact->order);
  if (!contact->calls || !contact->order)
    return false;
  size_t n = 0;
  for (int i = 0; i < comm->nranks; i++)
    for (int receives = 0; receives < 2 && is_new(of, i); receives++) {
      contact->calls[n] = (struct call){.function = receives ? FN_RECV : FN_SEND,
                                        .send = &sent,
                                        .recv = &received,
                                        .count = 1,
                                        .type = ncclUint8,
                                        .root = i,
                                        .line = STANDIN_NO_LINE};
      contact->order[n] = &contact->calls[n];
      n++;
    }
  return true;
}

ncclResult_t standin_contact(const struct job *jobs, size_t njobs) {
  ncclResult_t result = ncclSuccess;
  struct job *meetings = calloc(njobs, sizeof *meetings);
  struct contact *contacts = calloc(njobs, sizeof *contacts);
  bool good = meetings && contacts;
  for (size_t i = 0; i < njobs && good; i++)
    good = plan(&meetings[i], &contacts[i], &jobs[i]);
  for (size_t i = 0; i < njobs && good; i++)
    standin_comm_acquire_again(jobs[i].comm);
  if (good)
    standin_run(meetings, njobs);
  else
    result = standin_fail(ncclSystemError, "no memory to meet other ranks");
  for (size_t i = 0; i < njobs && contacts; i++) {
    for (size_t k = 0; good && k < meetings[i].ncalls && meetings[i].result == ncclSuccess; k++)
      jobs[i].comm->peers[contacts[i].calls[k].root].met = true;
    if (good && result == ncclSuccess)
      result = meetings[i].result;
    free(contacts[i].calls);
    free(contacts[i].order);
  }
  free(meetings);
  free(contacts);
  return result;
}
