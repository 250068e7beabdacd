/* SPDX-License-Identifier: BSD-3-Clause */
#include "layermap/tagc-map/keys.h"

#include <string.h>

#include "env/program/terminal.h"

const json_t *tagc_keys_value(const struct tagc_keys *r, const char *key) {
  const json_t *value = json_object_get(r->object, key);
  return json_is_null(value) ? NULL : value;
}

size_t tagc_keys_place(const struct tagc_keys *r, const char *key) { return tagc_json_find(&r->json, r->from, key); }

uint32_t tagc_keys_size(struct tagc_keys *r, const char *key, uint32_t by_default, uint32_t least) {
  const json_t *value = tagc_keys_value(r, key);
  if (!value || !r->is_good)
    return by_default;
  if (!json_is_integer(value)) {
    r->is_good = tagc_json_complain(&r->json, tagc_keys_place(r, key), r->complaint,
                                    "\"%s\" is %s; expected is a whole number from %u to %u", key,
                                    tagc_json_kind(value), least, TAGC_LARGEST_SIZE);
  } else if (json_integer_value(value) < least || json_integer_value(value) > TAGC_LARGEST_SIZE) {
    r->is_good = tagc_json_complain(&r->json, tagc_keys_place(r, key), r->complaint,
                                    "\"%s\" is %lld; expected is a whole number from %u to %u", key,
                                    (long long)json_integer_value(value), least, TAGC_LARGEST_SIZE);
  }
  return r->is_good ? (uint32_t)json_integer_value(value) : by_default;
}

uint32_t tagc_keys_important(struct tagc_keys *r, const char *key, uint32_t by_default, uint32_t least) {
  if (r->notes && r->is_good && by_default && !tagc_keys_value(r, key)) {
    fputs("tagc-map: ", r->notes);
    tagc_put_tamed(r->notes, r->path);
    fprintf(r->notes, ": \"%s\" is not there: %u, the default of %s\n", key, by_default, r->type);
  }
  return tagc_keys_size(r, key, by_default, least);
}

bool tagc_keys_flag(struct tagc_keys *r, const char *key, bool by_default) {
  const json_t *value = tagc_keys_value(r, key);
  if (!value || !r->is_good)
    return by_default;
  if (!json_is_boolean(value))
    r->is_good = tagc_json_complain(&r->json, tagc_keys_place(r, key), r->complaint,
                                    "\"%s\" is %s; expected is true or false", key, tagc_json_kind(value));
  return json_is_true(value);
}

void tagc_keys_require(struct tagc_keys *r, const char *key, bool required) {
  if (tagc_keys_flag(r, key, required) != required && r->is_good)
    r->is_good = tagc_json_complain(&r->json, tagc_keys_place(r, key), r->complaint,
                                    "\"%s\" is %s; only models where it is %s are known", key,
                                    required ? "false" : "true", required ? "true" : "false");
}

const char *tagc_keys_class(struct tagc_keys *r) {
  const json_t *list = json_object_get(r->is_part ? r->json.root : r->object, "architectures");
  const char *name = json_string_value(json_array_get(list, 0));
  return name ? name : "";
}

bool tagc_ends_with(const char *text, const char *end) {
  size_t length = strlen(text), size = strlen(end);
  return length >= size && !strcmp(text + length - size, end);
}

void tagc_keys_enter(struct tagc_keys *r, const char *key) {
  r->object = json_object_get(r->json.root, key);
  r->from = tagc_json_find(&r->json, 0, key);
  r->is_part = true;
  if (!json_is_object(r->object) && r->is_good)
    r->is_good = tagc_json_complain(&r->json, r->from, r->complaint, "\"%s\" is %s; expected is an object", key,
                                    r->object ? tagc_json_kind(r->object) : "not there");
}

void tagc_keys_leave(struct tagc_keys *r) {
  r->object = r->json.root;
  r->from = 0;
}
