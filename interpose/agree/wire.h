/* SPDX-License-Identifier: BSD-3-Clause
 * The wire format of the agreement: the stamp inside an ncclUniqueId, and one request and one reply a connection.
 *
 * NCCL uses the first 40 of an id's 128 bytes, and hashes all of them into the identity of the communicator
 * (bootstrap.h, init.cc, 2.18 to 2.32). So every rank passes the same 128 bytes: if one rank can read a stamp, all can.
 *
 *   stamp    64 bytes, the last ones of the id
 *     0 u64 magic | 8 u16 protocol | 10 u16 address family | 12 u16 port | 14 u16 zero | 16 u8[16] address |
 *    32 u32 IPv6 scope | 36 u32 zero | 40 u8[16] secret | 56 u64 FNV-1a of NCCL's 40 bytes and of the bytes before
 *   request  40 bytes and a text
 *     0 u32 magic | 4 u8 protocol | 5 u8 kind | 6 u16 bytes of text | 8 u8[16] secret | 24 u32 rank | 28 u32 ranks |
 *    32 u64 host
 *   reply    16 bytes and a text
 *     0 u32 magic | 4 u8 protocol | 5 u8 kind | 6 u16 bytes of text | 8 u32 hosts | 12 u32 number of the rank's host
 *
 * Integers are little-endian (as both supported machines are); addresses are in network order. The text of a report is
 * lines of name=value, one for every fact that must be equal on all ranks.
 *
 * Pure functions on memory: no allocation, no I/O, any thread.
 */
#ifndef INTERPOSE_AGREE_WIRE_H
#define INTERPOSE_AGREE_WIRE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAGC_AGREE_PROTOCOL 1
#define TAGC_AGREE_SECRET 16
#define TAGC_AGREE_TEXT 4095   /* the longest text */
#define TAGC_AGREE_RANKS 65536 /* the largest communicator */

/* The address on which an id's maker listens. */
union tagc_agree_address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
};

socklen_t tagc_agree_address_size(const union tagc_agree_address *address);

struct tagc_agree_stamp {
  union tagc_agree_address address; /* with a port */
  uint8_t secret[TAGC_AGREE_SECRET];
};

enum { TAGC_AGREE_ID = 128, TAGC_AGREE_USED = 40, TAGC_AGREE_STAMP_AT = 64 };

/* The address that NCCL put into an id (its bootstrap listens there), without its port. False if the id does not look
 * like one of NCCL's, or if its bytes from 40 on are not all zero: such an id gets no stamp. */
bool tagc_agree_id_address(const uint8_t id[TAGC_AGREE_ID], union tagc_agree_address *address);

void tagc_agree_stamp_write(uint8_t id[TAGC_AGREE_ID], const struct tagc_agree_stamp *stamp);

enum tagc_agree_read { TAGC_AGREE_STAMPED, TAGC_AGREE_UNSTAMPED, TAGC_AGREE_OTHER_PROTOCOL };
enum tagc_agree_read tagc_agree_stamp_read(const uint8_t id[TAGC_AGREE_ID], struct tagc_agree_stamp *stamp);

/* ---- messages ---------------------------------------------------------------------------------------------------- */

enum tagc_agree_kind {
  TAGC_AGREE_REPORT = 1, /* request: here I am, with these facts */
  TAGC_AGREE_ASK,        /* request: the decision, please; one byte then confirms its arrival */
  TAGC_AGREE_NOTED = 16, /* reply to a report: it counts */
  TAGC_AGREE_REFUSED,    /* reply to an invalid request; the text says why */
  TAGC_AGREE_ON,         /* decision: all ranks have reported the same facts */
  TAGC_AGREE_OFF,        /* decision: not so; the text says why */
};

struct tagc_agree_request {
  enum tagc_agree_kind kind;
  uint8_t secret[TAGC_AGREE_SECRET];
  uint32_t rank, nranks;
  uint64_t host;      /* equal for ranks that share a host */
  uint16_t text_size; /* bytes that follow */
};

struct tagc_agree_reply {
  enum tagc_agree_kind kind;
  uint16_t text_size;
  uint32_t hosts, host; /* "on": the number of hosts, and that of the rank's host, from 0 in rank order */
};

enum { TAGC_AGREE_REQUEST_SIZE = 40, TAGC_AGREE_REPLY_SIZE = 16 };

/* Write the fixed part of a message. */
void tagc_agree_request_write(uint8_t *bytes, const struct tagc_agree_request *request);
void tagc_agree_reply_write(uint8_t *bytes, const struct tagc_agree_reply *reply);

/* Read and check the fixed part of a message: false for bytes that the functions above cannot have written. */
bool tagc_agree_request_read(const uint8_t bytes[TAGC_AGREE_REQUEST_SIZE], struct tagc_agree_request *request);
bool tagc_agree_reply_read(const uint8_t bytes[TAGC_AGREE_REPLY_SIZE], struct tagc_agree_reply *reply);

#endif
