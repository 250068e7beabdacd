/* SPDX-License-Identifier: BSD-3-Clause
 * How a proof goes (proof.c, proof_gather.c): what is compared, what was found first, and in which words.
 *
 * Functions give false where the proof has ended. Ownership: all memory is the caller's. Threads: one at a time.
 */
#ifndef KERNELS_DEVICE_TRIAL_H
#define KERNELS_DEVICE_TRIAL_H

#include <stdio.h>
#include <string.h>

#include "kernels/device/proof.h"

struct tagc_trial {
  const struct tagc_device *device;
  const char *codec;               /* its name */
  void *stream;
  uint8_t *seen;                   /* on the host: what is compared */
  enum tagc_proof proof;
  char *why;                       /* of `size` bytes */
  size_t size;
};

/* What is found first counts. */
static inline bool tagc_trial_ends(struct tagc_trial *t, enum tagc_proof proof, const char *what)
{
  if (t->proof == TAGC_PROOF_RIGHT) {
    snprintf(t->why, t->size, "codec %s: %s", t->codec, what);
    t->proof = proof;
  }
  return false;
}

static inline bool tagc_trial_fails(struct tagc_trial *t) { return tagc_trial_ends(t, TAGC_PROOF_UNTRIED, "the device fails"); }

/* Are so many bytes of the device those of the host? */
static inline bool tagc_trial_same(struct tagc_trial *t, const char *what, const void *host, const void *there, size_t bytes)
{
  if (!bytes)
    return true;
  if (!t->device->get(t->device, t->seen, there, bytes, t->stream))
    return tagc_trial_fails(t);
  return memcmp(t->seen, host, bytes) == 0 || tagc_trial_ends(t, TAGC_PROOF_WRONG, what);
}

#endif
