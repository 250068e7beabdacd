/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/metrics/format.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_LEAST = 1 << 14, COMMON = 2 /* labels that a line of JSON has once */ };

static bool text_has_room(struct tagc_metrics_text *text, size_t more) {
  size_t room = text->room ? text->room : ROOM_LEAST;
  while (room - text->used < more)
    room *= 2;
  if (!text->failed && room != text->room) {
    char *at = realloc(text->at, room);
    text->failed = !at;
    text->at = at ? at : text->at;
    text->room = at ? room : text->room;
  }
  return !text->failed;
}

static void put_raw(struct tagc_metrics_text *text, const char *bytes, size_t size) {
  if (!text_has_room(text, size))
    return;
  memcpy(text->at + text->used, bytes, size);
  text->used += size;
}

static void put_string(struct tagc_metrics_text *text, const char *bytes) { put_raw(text, bytes, strlen(bytes)); }

__attribute__((format(printf, 2, 3))) static void put_formatted(struct tagc_metrics_text *text, const char *format,
                                                                ...) {
  char room[128];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(room, sizeof room, format, arguments);
  va_end(arguments);
  put_string(text, room);
}

/* ---- texts of others --------------------------------------------------------------------------------------------- */

/* The bytes of the UTF-8 character there; 0: none (overlong forms and surrogates are none). */
static size_t utf8_length(const unsigned char *c) {
  static const struct {
    unsigned char least, most, second_least, second_most;
    size_t length;
  } forms[] = {
    {0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
    {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
    {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
  };
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    if (*c < forms[i].least || *c > forms[i].most)
      continue;
    size_t n = 1;
    if (n < forms[i].length && (c[n] < forms[i].second_least || c[n] > forms[i].second_most))
      return 0;
    while (n < forms[i].length && (n < 2 || (c[n] & 0xc0) == 0x80))
      n++;
    return n == forms[i].length ? n : 0;
  }
  return 0;
}

/* Between quotes. Both formats escape a backslash, a quote and a newline alike. */
static void put_quoted(struct tagc_metrics_text *text, const char *value) {
  put_string(text, "\"");
  for (size_t n; *value; value += n ? n : 1) {
    n = utf8_length((const unsigned char *)value);
    if (*value == '"' || *value == '\\')
      put_formatted(text, "\\%c", *value);
    else if (*value == '\n')
      put_string(text, "\\n");
    else if (!n || (unsigned char)*value < 0x20)
      put_string(text, "?");
    else
      put_raw(text, value, n);
  }
  put_string(text, "\"");
}

static void put_number(struct tagc_metrics_text *text, double value) {
  const double exact = 9007199254740992.0; /* 2^53 */
  if (__builtin_isinf(value))
    put_string(text, text->format == TAGC_METRICS_JSON ? "null" : value > 0 ? "+Inf" : "-Inf");
  else if (value > -exact && value < exact && value == (double)(int64_t)value)
    put_formatted(text, "%lld", (long long)value);
  else
    put_formatted(text, "%.12g", value);
}

/* ---- Prometheus -------------------------------------------------------------------------------------------------- */

static void put_prometheus_line(struct tagc_metrics_text *text, const struct tagc_metrics_family *family,
                                const char *suffix, const struct tagc_metrics_sample *sample, double value) {
  put_formatted(text, "tagc_%s%s", family->name, suffix);
  for (size_t i = 0; i < sample->label_count; i++) {
    put_formatted(text, "%s%s=", i ? "," : "{", sample->labels[i].name);
    put_quoted(text, sample->labels[i].value);
  }
  put_string(text, sample->label_count ? "} " : " ");
  put_number(text, value);
  put_string(text, "\n");
}

static void add_prometheus_sample(struct tagc_metrics_text *text, const struct tagc_metrics_family *family,
                                  const struct tagc_metrics_sample *sample) {
  static const char *const types[] = {"gauge", "counter", "summary"};
  if (!text->open) {
    put_formatted(text, "# HELP tagc_%s ", family->name);
    put_string(text, family->help); /* ours: nothing to escape */
    put_formatted(text, "\n# TYPE tagc_%s %s\n", family->name, types[family->type]);
  }
  if (family->type == TAGC_METRICS_SUMMARY) {
    put_prometheus_line(text, family, "_sum", sample, sample->value);
    put_prometheus_line(text, family, "_count", sample, sample->count);
  } else {
    put_prometheus_line(text, family, "", sample, sample->value);
  }
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void add_json_sample(struct tagc_metrics_text *text, const struct tagc_metrics_family *family,
                            const struct tagc_metrics_sample *sample) {
  if (text->open)
    put_string(text, ",{");
  else
    put_formatted(text, ",\"tagc_%s\":[{", family->name);
  for (size_t i = COMMON; i < sample->label_count; i++) {
    put_formatted(text, "\"%s\":", sample->labels[i].name);
    put_quoted(text, sample->labels[i].value);
    put_string(text, ",");
  }
  put_string(text, family->type == TAGC_METRICS_SUMMARY ? "\"sum\":" : "\"value\":");
  put_number(text, sample->value);
  if (family->type == TAGC_METRICS_SUMMARY) {
    put_string(text, ",\"count\":");
    put_number(text, sample->count);
  }
  put_string(text, "}");
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

void tagc_metrics_begin(struct tagc_metrics_text *text, double now, const char *run, int rank) {
  text->used = 0;
  text->open = false;
  if (text->format != TAGC_METRICS_JSON)
    return;
  put_formatted(text, "{\"time\":%.3f,\"run\":", now);
  put_quoted(text, run);
  put_formatted(text, ",\"rank\":%d", rank);
}

void tagc_metrics_end(struct tagc_metrics_text *text) {
  if (text->format == TAGC_METRICS_JSON)
    put_string(text, "}\n");
}

void tagc_metrics_add(struct tagc_metrics_text *text, const struct tagc_metrics_family *family,
                      const struct tagc_metrics_sample *sample) {
  if (__builtin_isnan(sample->value))
    return;
  if (text->format == TAGC_METRICS_JSON)
    add_json_sample(text, family, sample);
  else
    add_prometheus_sample(text, family, sample);
  text->open = true;
}

void tagc_metrics_close(struct tagc_metrics_text *text) {
  if (text->open && text->format == TAGC_METRICS_JSON)
    put_string(text, "]");
  text->open = false;
}
