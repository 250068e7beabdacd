/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/agree/wire.h"

#include <string.h>

#include "env/hash.h"

static const uint64_t stamp_magic = UINT64_C(0x0a6469632d636761); /* "agc-cid\n" */
static const uint32_t message_magic = UINT32_C(0x63676174);       /* "tagc" */

struct stamp {
  uint64_t magic;
  uint16_t protocol, family, port, zero;
  uint8_t address[16];
  uint32_t scope, zero_too;
  uint8_t secret[TAGC_AGREE_SECRET];
  uint64_t check;
};
_Static_assert(sizeof(struct stamp) == TAGC_AGREE_ID - TAGC_AGREE_STAMP_AT, "a stamp fills the end of the id");

struct request {
  uint32_t magic;
  uint8_t protocol, kind;
  uint16_t text_size;
  uint8_t secret[TAGC_AGREE_SECRET];
  uint32_t rank, nranks;
  uint64_t host;
};
_Static_assert(sizeof(struct request) == TAGC_AGREE_REQUEST_SIZE, "no holes");

struct reply {
  uint32_t magic;
  uint8_t protocol, kind;
  uint16_t text_size;
  uint32_t hosts, host;
};
_Static_assert(sizeof(struct reply) == TAGC_AGREE_REPLY_SIZE, "no holes");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the structs above are the wire format");

/* Ties a stamp to its id: before 2.23 NCCL writes only 40 bytes, so a variable may still hold an earlier id's stamp. */
static uint64_t check_of(const uint8_t *id, const struct stamp *s) {
  return tagc_hash_add(tagc_hash_add(TAGC_HASH_START, id, TAGC_AGREE_USED), s, offsetof(struct stamp, check));
}

socklen_t tagc_agree_address_size(const union tagc_agree_address *address) {
  return address->any.sa_family == AF_INET6 ? sizeof address->v6 : sizeof address->v4;
}

bool tagc_agree_id_address(const uint8_t id[TAGC_AGREE_ID], union tagc_agree_address *address) {
  for (size_t i = TAGC_AGREE_USED; i < TAGC_AGREE_ID; i++)
    if (id[i])
      return false;
  memset(address, 0, sizeof *address);
  memcpy(address, id + 8, sizeof *address);
  if (address->any.sa_family == AF_INET)
    address->v4.sin_port = 0;
  else if (address->any.sa_family == AF_INET6)
    address->v6.sin6_port = 0;
  else
    return false;
  return true;
}
_Static_assert(sizeof(union tagc_agree_address) == 28, "the union in NCCL's id");

void tagc_agree_stamp_write(uint8_t id[TAGC_AGREE_ID], const struct tagc_agree_stamp *stamp) {
  const union tagc_agree_address *from = &stamp->address;
  struct stamp s = {.magic = stamp_magic, .protocol = TAGC_AGREE_PROTOCOL, .family = from->any.sa_family};
  if (s.family == AF_INET6) {
    s.port = from->v6.sin6_port;
    s.scope = from->v6.sin6_scope_id;
    memcpy(s.address, &from->v6.sin6_addr, 16);
  } else {
    s.port = from->v4.sin_port;
    memcpy(s.address, &from->v4.sin_addr, 4);
  }
  memcpy(s.secret, stamp->secret, sizeof s.secret);
  s.check = check_of(id, &s);
  memcpy(id + TAGC_AGREE_STAMP_AT, &s, sizeof s);
}

enum tagc_agree_read tagc_agree_stamp_read(const uint8_t id[TAGC_AGREE_ID], struct tagc_agree_stamp *stamp) {
  struct stamp s;
  memcpy(&s, id + TAGC_AGREE_STAMP_AT, sizeof s);
  if (s.magic != stamp_magic || s.check != check_of(id, &s))
    return TAGC_AGREE_UNSTAMPED;
  if (s.protocol != TAGC_AGREE_PROTOCOL)
    return TAGC_AGREE_OTHER_PROTOCOL;
  memset(stamp, 0, sizeof *stamp);
  union tagc_agree_address *to = &stamp->address;
  if (s.family == AF_INET6) {
    to->v6.sin6_family = AF_INET6;
    to->v6.sin6_port = s.port;
    to->v6.sin6_scope_id = s.scope;
    memcpy(&to->v6.sin6_addr, s.address, 16);
  } else if (s.family == AF_INET) {
    to->v4.sin_family = AF_INET;
    to->v4.sin_port = s.port;
    memcpy(&to->v4.sin_addr, s.address, 4);
  } else {
    return TAGC_AGREE_UNSTAMPED;
  }
  memcpy(stamp->secret, s.secret, sizeof s.secret);
  return TAGC_AGREE_STAMPED;
}

void tagc_agree_request_write(uint8_t *bytes, const struct tagc_agree_request *r) {
  struct request m = {.magic = message_magic,
                      .protocol = TAGC_AGREE_PROTOCOL,
                      .kind = (uint8_t)r->kind,
                      .text_size = r->text_size,
                      .rank = r->rank,
                      .nranks = r->nranks,
                      .host = r->host};
  memcpy(m.secret, r->secret, sizeof m.secret);
  memcpy(bytes, &m, sizeof m);
}

bool tagc_agree_request_read(const uint8_t bytes[TAGC_AGREE_REQUEST_SIZE], struct tagc_agree_request *r) {
  struct request m;
  memcpy(&m, bytes, sizeof m);
  *r = (struct tagc_agree_request){
    .kind = (enum tagc_agree_kind)m.kind, .rank = m.rank, .nranks = m.nranks, .host = m.host, .text_size = m.text_size};
  memcpy(r->secret, m.secret, sizeof m.secret);
  return m.magic == message_magic && m.protocol == TAGC_AGREE_PROTOCOL &&
         (m.kind == TAGC_AGREE_REPORT || m.kind == TAGC_AGREE_ASK) && m.text_size <= TAGC_AGREE_TEXT && m.nranks >= 1 &&
         m.nranks <= TAGC_AGREE_RANKS && m.rank < m.nranks;
}

void tagc_agree_reply_write(uint8_t *bytes, const struct tagc_agree_reply *r) {
  struct reply m = {.magic = message_magic,
                    .protocol = TAGC_AGREE_PROTOCOL,
                    .kind = (uint8_t)r->kind,
                    .text_size = r->text_size,
                    .hosts = r->hosts,
                    .host = r->host};
  memcpy(bytes, &m, sizeof m);
}

bool tagc_agree_reply_read(const uint8_t bytes[TAGC_AGREE_REPLY_SIZE], struct tagc_agree_reply *r) {
  struct reply m;
  memcpy(&m, bytes, sizeof m);
  *r = (struct tagc_agree_reply){
    .kind = (enum tagc_agree_kind)m.kind, .text_size = m.text_size, .hosts = m.hosts, .host = m.host};
  return m.magic == message_magic && m.protocol == TAGC_AGREE_PROTOCOL && m.kind >= TAGC_AGREE_NOTED &&
         m.kind <= TAGC_AGREE_OFF && m.text_size <= TAGC_AGREE_TEXT && m.hosts <= TAGC_AGREE_RANKS && m.host <= m.hosts;
}
