/* SPDX-License-Identifier: BSD-3-Clause */
#include "layermap/tagc-map/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tagc_file_complain(struct tagc_complaint *complaint, const char *text, ...) {
  va_list args;
  va_start(args, text);
  complaint->line = complaint->column = 0;
  vsnprintf(complaint->text, sizeof complaint->text, text, args);
  va_end(args);
  return false;
}

bool tagc_json_complain(const struct tagc_json_document *json, size_t at, struct tagc_complaint *complaint,
                        const char *text, ...) {
  va_list args;
  va_start(args, text);
  complaint->line = complaint->column = 1;
  for (size_t i = 0; i < at && i < json->bytes; i++) {
    bool is_end = json->text[i] == '\n';
    complaint->line += is_end;
    complaint->column = is_end ? 1 : complaint->column + 1;
  }
  vsnprintf(complaint->text, sizeof complaint->text, text, args);
  va_end(args);
  return false;
}

bool tagc_json_parse(struct tagc_json_document *json, char *text, size_t bytes, struct tagc_complaint *complaint) {
  json_error_t error;
  *json = (struct tagc_json_document){.text = text, .bytes = bytes};
  json->root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
  if (json_is_object(json->root))
    return true;
  if (json->root) {
    tagc_json_complain(json, 0, complaint, "the text is %s; expected is an object, in { and }",
                       tagc_json_kind(json->root));
  } else if (!*error.text) {
    tagc_file_complain(complaint, "there is no memory to read it");
  } else {
    char shown[64];
    size_t at = error.position > 0 ? (size_t)error.position - 1 : 0;
    tagc_json_complain(json, at, complaint, "%s; expected is JSON", tagc_json_show(error.text, shown));
  }
  tagc_json_free(json);
  return false;
}

void tagc_json_free(struct tagc_json_document *json) {
  json_decref(json->root);
  free(json->text);
  *json = (struct tagc_json_document){.root = NULL};
}

static bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

size_t tagc_json_find(const struct tagc_json_document *json, size_t from, const char *key) {
  size_t length = strlen(key);
  for (size_t i = from; i < json->bytes; i++) {
    if (json->text[i] != '"')
      continue;
    size_t begin = ++i;
    while (i < json->bytes && json->text[i] != '"')
      i += json->text[i] == '\\' ? 2 : 1;
    bool is_same = i < json->bytes && i - begin == length && memcmp(json->text + begin, key, length) == 0;
    size_t behind = i + 1;
    while (behind < json->bytes && is_json_space(json->text[behind]))
      behind++;
    if (!is_same || behind >= json->bytes || json->text[behind] != ':')
      continue;
    do
      behind++;
    while (behind < json->bytes && is_json_space(json->text[behind]));
    return behind;
  }
  return from;
}

const char *tagc_json_kind(const json_t *value) {
  switch (json_typeof(value)) {
  case JSON_OBJECT: return "an object";
  case JSON_ARRAY: return "an array";
  case JSON_STRING: return "a string";
  case JSON_INTEGER: return "a whole number";
  case JSON_REAL: return "a number with a fraction";
  case JSON_TRUE: return "true";
  case JSON_FALSE: return "false";
  default: return "null";
  }
}

const char *tagc_json_show(const char *text, char shown[64]) {
  size_t i = 0;
  for (; text[i] && i < 63; i++)
    shown[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
  shown[i] = '\0';
  return shown;
}
