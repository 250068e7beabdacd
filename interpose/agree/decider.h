/* SPDX-License-Identifier: BSD-3-Clause
 * The decider: it alone knows the reports of all ranks of a communicator, and decides once and for all whether its
 * calls may be compressed. It lives in the process that made the id (listener.c feeds it).
 *
 * A rank's report arrives before that rank enters NCCL's init. A rank asks for the decision after its init has
 * succeeded, which needs all ranks to have entered theirs. So when the first rank asks, every rank with the library has
 * reported: the decision needs no timer, and never changes afterwards. If all ranks have reported the same facts: on.
 * Otherwise off, with a text that names ranks and facts.
 *
 * No I/O, no clock, no lock: one thread at a time. Memory: a session (one id) takes about 20 bytes a rank from the
 * first report until every rank that reported has its decision, and about 100 bytes for as long as the process lives.
 */
#ifndef INTERPOSE_AGREE_DECIDER_H
#define INTERPOSE_AGREE_DECIDER_H

#include "interpose/agree/wire.h"

struct tagc_agree_decider;

struct tagc_agree_decider *tagc_agree_decider_create(void); /* NULL without memory */
void tagc_agree_decider_destroy(struct tagc_agree_decider *decider);

/* Expects the ranks of an id with this secret. False without memory. */
bool tagc_agree_decider_expect(struct tagc_agree_decider *decider, const uint8_t secret[TAGC_AGREE_SECRET]);

/* Does an id with this secret exist? */
bool tagc_agree_decider_knows(const struct tagc_agree_decider *decider, const uint8_t secret[TAGC_AGREE_SECRET]);

/* Answers a request whose secret is known; `text` came with it (request->text_size bytes). Allocates the reply, and
 * returns its size. 0, and no reply, without memory or for an unknown secret: send nothing then. */
size_t tagc_agree_decider_answer(struct tagc_agree_decider *decider, const struct tagc_agree_request *request,
                                 const char *text, uint8_t **reply);

/* Notes that the decision has arrived at this rank. */
void tagc_agree_decider_confirm(struct tagc_agree_decider *decider, const struct tagc_agree_request *request);

/* The number of ids for whose decision some rank may still ask. */
size_t tagc_agree_decider_open(const struct tagc_agree_decider *decider);

/* The text of the last "off" decision since the previous call; "": none. Valid until the next decision. */
const char *tagc_agree_decider_complaint(struct tagc_agree_decider *decider);

#endif
