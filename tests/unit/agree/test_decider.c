/* SPDX-License-Identifier: BSD-3-Clause
 * interpose/agree/wire and decider: only messages as they were written are read. Decisions depend on the reports alone.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/agree/decider.h"
#include "tests/unit/tap.h"

static const uint8_t secret[TAGC_AGREE_SECRET] = {7, 6, 5};

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static void make_id(uint8_t *id, const char *address, struct tagc_agree_stamp *stamp) {
  memset(id, 0, TAGC_AGREE_ID);
  memset(stamp, 0, sizeof *stamp);
  if (inet_pton(AF_INET, address, &stamp->address.v4.sin_addr) == 1)
    stamp->address.v4.sin_family = AF_INET;
  else if (inet_pton(AF_INET6, address, &stamp->address.v6.sin6_addr) == 1)
    stamp->address.v6.sin6_family = AF_INET6;
  stamp->address.v4.sin_port = htons(4711); /* at the same offset in both */
  memcpy(stamp->secret, secret, sizeof secret);
  id[0] = 1;
  memcpy(id + 8, &stamp->address, sizeof stamp->address);
}

static void stamps(void) {
  const char *addresses[] = {"127.0.0.1", "10.1.2.3", "::1", "2001:db8::7"};
  for (size_t i = 0; i < 4; i++) {
    uint8_t id[TAGC_AGREE_ID], before[TAGC_AGREE_ID];
    struct tagc_agree_stamp stamp, read;
    union tagc_agree_address host;
    make_id(id, addresses[i], &stamp);
    memcpy(before, id, sizeof id);
    ok(tagc_agree_stamp_read(id, &read) == TAGC_AGREE_UNSTAMPED, "%s: NCCL's own id has no stamp", addresses[i]);
    ok(tagc_agree_id_address(id, &host) && host.v4.sin_port == 0 && host.any.sa_family == stamp.address.any.sa_family,
       "%s: its address is found, without the port", addresses[i]);
    tagc_agree_stamp_write(id, &stamp);
    ok(tagc_agree_stamp_read(id, &read) == TAGC_AGREE_STAMPED && memcmp(&read, &stamp, sizeof read) == 0,
       "%s: a stamp is read as it was written", addresses[i]);
    ok(memcmp(id, before, TAGC_AGREE_STAMP_AT) == 0, "%s: NCCL's part of the id is as it was", addresses[i]);
    ok(!tagc_agree_id_address(id, &host), "%s: an id is stamped once", addresses[i]);
    int taken = 0;
    for (size_t byte = TAGC_AGREE_STAMP_AT; byte < TAGC_AGREE_ID; byte++) {
      id[byte] ^= 1;
      taken += tagc_agree_stamp_read(id, &read) != TAGC_AGREE_UNSTAMPED;
      id[byte] ^= 1;
    }
    ok(taken == 0, "%s: a stamp with a wrong bit is none", addresses[i]);
    id[3] ^= 1;
    ok(tagc_agree_stamp_read(id, &read) == TAGC_AGREE_UNSTAMPED, "%s: nor is one of another id", addresses[i]);
  }
  uint8_t id[TAGC_AGREE_ID];
  struct tagc_agree_stamp stamp;
  union tagc_agree_address host;
  make_id(id, "127.0.0.1", &stamp);
  id[40] = 1;
  ok(!tagc_agree_id_address(id, &host), "an id that uses more than 40 bytes is left alone");
  make_id(id, "127.0.0.1", &stamp);
  id[8] = 99;
  ok(!tagc_agree_id_address(id, &host), "an address of an unknown family is left alone");
}

static void messages(void) {
  uint8_t bytes[TAGC_AGREE_REQUEST_SIZE];
  struct tagc_agree_request request = {TAGC_AGREE_ASK, {1, 2, 3}, 3, 4, 99, 17}, read;
  tagc_agree_request_write(bytes, &request);
  ok(tagc_agree_request_read(bytes, &read) && read.kind == request.kind && read.rank == 3 && read.nranks == 4 &&
       read.host == 99 && read.text_size == 17 && memcmp(read.secret, request.secret, sizeof read.secret) == 0,
     "a request is read as it was written");
  for (int i = 0; i < 5; i++) {
    struct tagc_agree_request wrong = request;
    wrong.kind = i == 0 ? TAGC_AGREE_ON : wrong.kind;
    wrong.text_size = i == 1 ? TAGC_AGREE_TEXT + 1 : wrong.text_size;
    wrong.nranks = i == 2 ? 0 : i == 3 ? TAGC_AGREE_RANKS + 1 : wrong.nranks;
    wrong.rank = i == 4 ? 4 : wrong.rank;
    tagc_agree_request_write(bytes, &wrong);
    ok(!tagc_agree_request_read(bytes, &read), "a wrong request is refused (%d)", i);
  }
  struct tagc_agree_reply reply = {TAGC_AGREE_OFF, 12, 5, 3}, heard;
  tagc_agree_reply_write(bytes, &reply);
  ok(tagc_agree_reply_read(bytes, &heard) && heard.kind == reply.kind && heard.text_size == 12 && heard.hosts == 5 &&
       heard.host == 3,
     "a reply is read as it was written");
  reply.kind = TAGC_AGREE_REPORT;
  tagc_agree_reply_write(bytes, &reply);
  ok(!tagc_agree_reply_read(bytes, &heard), "a request is no reply");
}

/* ---- decisions --------------------------------------------------------------------------------------------------- */

static struct tagc_agree_decider *decider;
static struct tagc_agree_reply heard;
static char text[TAGC_AGREE_TEXT + 1];

/* Sends a request; the answer is in `heard` and `text`. Returns the kind of the answer, 0 for none. */
static int send_request(enum tagc_agree_kind kind, uint32_t rank, uint32_t nranks, uint64_t host, const char *facts) {
  struct tagc_agree_request request = {
    .kind = kind, .rank = rank, .nranks = nranks, .host = host, .text_size = (uint16_t)strlen(facts)};
  uint8_t *reply = NULL;
  memcpy(request.secret, secret, sizeof secret);
  size_t size = tagc_agree_decider_answer(decider, &request, facts, &reply);
  bool good = size >= TAGC_AGREE_REPLY_SIZE && tagc_agree_reply_read(reply, &heard) &&
              size == TAGC_AGREE_REPLY_SIZE + (size_t)heard.text_size;
  if (good) {
    memcpy(text, reply + TAGC_AGREE_REPLY_SIZE, heard.text_size);
    text[heard.text_size] = '\0';
  }
  free(reply);
  return good ? (int)heard.kind : 0;
}

static int report(uint32_t rank, uint32_t nranks, const char *facts) {
  return send_request(TAGC_AGREE_REPORT, rank, nranks, rank / 2, facts);
}

static int ask(uint32_t rank, uint32_t nranks) { return send_request(TAGC_AGREE_ASK, rank, nranks, 0, ""); }

static void start(void) {
  tagc_agree_decider_destroy(decider);
  decider = tagc_agree_decider_create();
  tagc_agree_decider_expect(decider, secret);
}

static const char *const facts = "A=1\nB=two words\n";

static void all_agree(void) {
  int noted = 0, on = 0;
  start();
  for (uint32_t r = 4; r-- > 0;)
    noted += report(r, 4, facts) == TAGC_AGREE_NOTED;
  noted += report(2, 4, facts) == TAGC_AGREE_NOTED;
  ok(noted == 5, "reports are noted in any order, a repeated one, too");
  for (uint32_t r = 0; r < 4; r++)
    on += ask(r, 4) == TAGC_AGREE_ON && heard.hosts == 2 && heard.host == r / 2;
  ok(on == 4, "all there, all equal: on, and who shares a host is told");
  ok(!*tagc_agree_decider_complaint(decider), "and there is nothing to complain of");
  ok(report(1, 4, facts) == TAGC_AGREE_REFUSED && ask(1, 4) == TAGC_AGREE_ON,
     "the decision stands, a late report is refused");
}

static void is_off(const char *name, const char *expected) {
  int off = 0;
  char complaint[1000];
  for (uint32_t r = 0; r < 4; r++)
    off += ask(r, 4) == TAGC_AGREE_OFF;
  ok(off == 4 && heard.hosts == 0, "%s: off, for every rank", name);
  snprintf(complaint, sizeof complaint, "%s", tagc_agree_decider_complaint(decider));
  if (!ok(strcmp(text, expected) == 0 && strcmp(complaint, expected) == 0, "%s: \"%s\"", name, expected))
    note("got \"%s\" and \"%s\"", text, complaint);
  ok(!*tagc_agree_decider_complaint(decider), "%s: said once", name);
}

static void some_differ(void) {
  start();
  for (uint32_t r = 0; r < 4; r++)
    report(r, 4, r == 2 ? "A=5\nB=two words\n" : facts);
  is_off("one value", "A is 1 on ranks 0-1,3, 5 on rank 2");
  start();
  for (uint32_t r = 0; r < 4; r++)
    report(r, 4, r == 0 ? "A=1\n" : r == 3 ? "B=two words\nA=1\n" : "A=2\nB=\n");
  is_off("several", "A is 1 on ranks 0,3, 2 on ranks 1-2; B is unknown to rank 0,  on ranks 1-2, two words on rank 3");
  start();
  report(1, 4, facts);
  is_off("missing ranks",
         "ranks 0,2-3 of 4 did not report (no library, TAGC_MODE=off, no connection, or few descriptors)");
  ok(report(0, 4, facts) == TAGC_AGREE_REFUSED && ask(0, 4) == TAGC_AGREE_OFF,
     "a report after the decision does not change it");
  start();
  for (uint32_t r = 0; r < 3; r++)
    report(r, 4, r ? facts : "A=\033[1m\n");
  is_off("control characters and a missing rank",
         "rank 3 of 4 did not report (no library, TAGC_MODE=off, no connection, or few descriptors); "
         "A is \033[1m on rank 0, 1 on ranks 1-2; B is unknown to rank 0, two words on ranks 1-2");
  start();
  for (uint32_t r = 0; r < 4; r++)
    report(r, 4, facts);
  ok(report(1, 4, "A=3\n") == TAGC_AGREE_REFUSED, "two processes with one rank: the second is refused");
  is_off("two processes with one rank", "two processes report as rank 1");
  start();
  for (uint32_t r = 0; r < 4; r++)
    report(r, 4, facts);
  ok(report(4, 5, facts) == TAGC_AGREE_REFUSED && ask(0, 5) == TAGC_AGREE_REFUSED,
     "another number of ranks is refused");
  is_off("another number of ranks", "rank 4 reports 5 ranks, another one 4");
  start();
  for (uint32_t r = 0; r < 4; r++)
    report(r, 4, r == 1 ? "A=\xc3\xa4\n" : "A=\xc3\xb6\n");
  is_off("bytes that no terminal shows", "A is \xc3\xb6 on ranks 0,2-3, \xc3\xa4 on rank 1");
  start();
  for (uint32_t r = 0; r < 4; r++)
    report(r, 4, r == 1 ? "A\n" : "B\n");
  is_off("reports that hold no facts", "they report different things");
  start();
  is_off("nobody has reported",
         "ranks 0-3 of 4 did not report (no library, TAGC_MODE=off, no connection, or few descriptors)");
}

/* Every rank reports something else: the answer is still short and quick. */
static void all_differ(void) {
  enum { RANKS = 3000 };
  char own[40];
  start();
  for (uint32_t r = 0; r < RANKS; r++) {
    snprintf(own, sizeof own, "SEED=%u\nA=1\n", r);
    report(r, RANKS, own);
  }
  ok(ask(7, RANKS) == TAGC_AGREE_OFF &&
       strcmp(text, "SEED is 0 on rank 0, 1 on rank 1, 2 on rank 2, 3 on rank 3, 4 on rank 4, "
                    "5 on rank 5, 6 on rank 6, 7 on rank 7 ...") == 0,
     "%d different reports: \"%s\"", RANKS, text);
}

static void strangers(void) {
  struct tagc_agree_request request = {.kind = TAGC_AGREE_ASK, .nranks = 4};
  uint8_t *reply = NULL;
  start();
  ok(!tagc_agree_decider_knows(decider, request.secret) &&
       tagc_agree_decider_answer(decider, &request, "", &reply) == 0 && !reply,
     "who does not know the secret gets no answer");
}

static void ends(void) {
  struct tagc_agree_request request = {.nranks = 2};
  memcpy(request.secret, secret, sizeof secret);
  start();
  ok(tagc_agree_decider_open(decider) == 1, "an id is waited for");
  report(0, 2, facts);
  report(1, 2, facts);
  tagc_agree_decider_confirm(decider, &request);
  ask(0, 2);
  ask(1, 2);
  tagc_agree_decider_confirm(decider, &request);
  tagc_agree_decider_confirm(decider, &request);
  ok(tagc_agree_decider_open(decider) == 1, "until every rank has its decision");
  request.rank = 1;
  tagc_agree_decider_confirm(decider, &request);
  ok(tagc_agree_decider_open(decider) == 0, "and no longer");
  ok(ask(0, 2) == TAGC_AGREE_ON && report(1, 2, facts) == TAGC_AGREE_REFUSED, "who asks again hears the same");
}

int main(void) {
  stamps();
  messages();
  all_agree();
  some_differ();
  all_differ();
  strangers();
  ends();
  tagc_agree_decider_destroy(decider);
  return tap_done();
}
