/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/tagc-report/events/event_file.h"

#include <string.h>

/* Wire types of protobuf. */
enum { VARINT, FIXED64, BYTES, FIXED32 = 5 };

/* A message that fits: its longest text is a tag. */
struct message {
  uint8_t bytes[TAGC_EVENT_TAG + 64];
  size_t used;
};

uint32_t tagc_crc32c(const void *data, size_t size) {
  const uint32_t polynomial = UINT32_C(0x82f63b78); /* reflected */
  uint32_t crc = UINT32_C(0xffffffff);
  for (const uint8_t *byte = data; size--; byte++) {
    crc ^= *byte;
    for (int bit = 0; bit < 8; bit++)
      crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
  }
  return ~crc;
}

static void put_little_endian(uint8_t *to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++)
    to[i] = (uint8_t)(value >> 8 * i);
}

static void add_fixed(struct message *m, uint64_t value, int bytes) {
  put_little_endian(m->bytes + m->used, value, bytes);
  m->used += (size_t)bytes;
}

static void add_varint(struct message *m, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    m->bytes[m->used++] = (uint8_t)(value | 0x80);
  m->bytes[m->used++] = (uint8_t)value;
}

static void add_key(struct message *m, unsigned field, unsigned type) { add_varint(m, field << 3 | type); }

static void add_double(struct message *m, unsigned field, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  add_key(m, field, FIXED64);
  add_fixed(m, bits, 8);
}

static void add_float(struct message *m, unsigned field, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  add_key(m, field, FIXED32);
  add_fixed(m, bits, 4);
}

static void add_bytes(struct message *m, unsigned field, const void *bytes, size_t size) {
  add_key(m, field, BYTES);
  add_varint(m, size);
  memcpy(m->bytes + m->used, bytes, size);
  m->used += size;
}

/* A rotation and a constant, so that a checksum inside the data does not weaken that of the data. */
static uint32_t masked_crc(const void *data, size_t size) {
  const uint32_t crc = tagc_crc32c(data, size);
  return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

static void write_record(FILE *file, const struct message *m) {
  uint8_t head[12], tail[4];
  put_little_endian(head, m->used, 8);
  put_little_endian(head + 8, masked_crc(head, 8), 4);
  put_little_endian(tail, masked_crc(m->bytes, m->used), 4);
  fwrite(head, sizeof head, 1, file);
  fwrite(m->bytes, m->used, 1, file);
  fwrite(tail, sizeof tail, 1, file);
}

void tagc_event_version(FILE *file, double wall_time) {
  static const char version[] = "brain.Event:2";
  struct message event = {.used = 0};
  add_double(&event, 1, wall_time);
  add_bytes(&event, 3, version, sizeof version - 1);
  write_record(file, &event);
}

void tagc_event_scalar(FILE *file, double wall_time, uint64_t step, const char *tag, double value) {
  const size_t length = strnlen(tag, TAGC_EVENT_TAG);
  struct message event = {.used = 0}, summary = {.used = 0}, scalar = {.used = 0};
  add_bytes(&scalar, 1, tag, length);
  add_float(&scalar, 2, (float)value);
  add_bytes(&summary, 1, scalar.bytes, scalar.used);
  add_double(&event, 1, wall_time);
  add_key(&event, 2, VARINT);
  add_varint(&event, step);
  add_bytes(&event, 5, summary.bytes, summary.used);
  write_record(file, &event);
}
