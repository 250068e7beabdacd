/* SPDX-License-Identifier: BSD-3-Clause
 * libFuzzer target: for any bytes from the network, the decider neither crashes nor gives two decisions on one id. It
 * says "on" only if all ranks have reported the same text. The input is a series of requests: a byte for kind and
 * secret, one for the rank, one for the number of ranks, one for the size of the text, and the text. Once it has raw
 * bytes for the readers.
 */
#include "interpose/agree/decider.h"
#include "tests/fuzz/input.h"

enum { MOST = 8 };

static const uint8_t secret[TAGC_AGREE_SECRET] = {1, 2, 3, 4};

/* The facts that a simple observer knows of the id. */
struct observer {
  uint32_t nranks;
  char *text[MOST];
  enum tagc_agree_kind decision;
};

static bool all_equal(const struct observer *o) {
  for (uint32_t r = 0; r < o->nranks; r++)
    if (!o->text[r] || strcmp(o->text[r], o->text[0]) != 0)
      return false;
  return o->nranks > 0;
}

static void check(struct observer *o, const struct tagc_agree_request *q, const char *text, const uint8_t *reply,
                  size_t size) {
  struct tagc_agree_reply heard;
  if (size < TAGC_AGREE_REPLY_SIZE || !tagc_agree_reply_read(reply, &heard) ||
      size != TAGC_AGREE_REPLY_SIZE + (size_t)heard.text_size ||
      memchr(reply + TAGC_AGREE_REPLY_SIZE, 0, heard.text_size))
    abort();
  if (heard.kind == TAGC_AGREE_NOTED) {
    if (o->decision || q->kind != TAGC_AGREE_REPORT || (o->nranks && o->nranks != q->nranks))
      abort();
    o->nranks = q->nranks;
    if (!o->text[q->rank])
      o->text[q->rank] = strndup(text, q->text_size);
  } else if (heard.kind == TAGC_AGREE_ON || heard.kind == TAGC_AGREE_OFF) {
    if ((o->decision && o->decision != heard.kind) || (heard.kind == TAGC_AGREE_ON && !all_equal(o)))
      abort();
    o->decision = heard.kind;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct tagc_agree_request request;
  struct tagc_agree_reply reply;
  struct tagc_agree_stamp stamp;
  uint8_t raw[TAGC_AGREE_ID] = {0};
  memcpy(raw, data, size < sizeof raw ? size : sizeof raw);
  tagc_agree_stamp_read(raw, &stamp);
  tagc_agree_request_read(raw, &request);
  tagc_agree_reply_read(raw, &reply);

  struct observer o = {0};
  struct tagc_agree_decider *decider = tagc_agree_decider_create();
  tagc_agree_decider_expect(decider, secret);
  for (size_t at = 0; at + 4 <= size;) {
    uint8_t bytes[TAGC_AGREE_REQUEST_SIZE], kind = data[at];
    size_t left = size - at - 4, text_size = data[at + 3] < left ? data[at + 3] : left;
    struct tagc_agree_request q = {.kind = kind & 1 ? TAGC_AGREE_ASK : TAGC_AGREE_REPORT,
                                   .rank = data[at + 1] % (MOST + 1),
                                   .nranks = data[at + 2] % (MOST + 1),
                                   .host = data[at + 1] / 100,
                                   .text_size = (uint16_t)text_size};
    memcpy(q.secret, secret, sizeof secret);
    q.secret[5] = kind == 255;
    tagc_agree_request_write(bytes, &q);
    char *text = input_memory(text_size + 1);
    memcpy(text, data + at + 4, text_size);
    text[text_size] = '\0';
    for (size_t i = 0; i < text_size; i++) /* as the decider stores it */
      text[i] = text[i] ? text[i] : '?';
    uint8_t *answer = NULL;
    if (tagc_agree_request_read(bytes, &q)) {
      size_t n = tagc_agree_decider_answer(decider, &q, text, &answer);
      if (n && kind == 255)
        abort();
      if (n)
        check(&o, &q, text, answer, n);
      tagc_agree_decider_confirm(decider, &q);
    }
    free(answer);
    free(text);
    at += 4 + text_size;
  }
  if (strlen(tagc_agree_decider_complaint(decider)) > 1000)
    abort();
  tagc_agree_decider_destroy(decider);
  for (int r = 0; r < MOST; r++)
    free(o.text[r]);
  return 0;
}
