/* SPDX-License-Identifier: BSD-3-Clause
 * The answer of modules.py: a map, or "!" and why there is none.
 */
#include <stdio.h>
#include <string.h>

#include "env/hash.h"
#include "interpose/torch/ask.h"
#include "layermap/model/mapfile.h"

/* A reason is one line of the log, whatever an exception says. */
static void copy_reason(const char *text, char why[TAGC_TORCH_WHY]) {
  snprintf(why, TAGC_TORCH_WHY, "%s", *text ? text : "no reason is given");
  for (char *c = why; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 0x7f)
      *c = ' ';
}

struct tagc_model *tagc_torch_read(const char *answer, uint64_t *digest, char why[TAGC_TORCH_WHY]) {
  struct tagc_complaint complaint = {0};
  const size_t bytes = strlen(answer);
  *digest = 0;
  if (*answer == '!') {
    copy_reason(answer + 1, why);
    return NULL;
  }
  if (bytes > TAGC_MAPFILE_BYTES) {
    snprintf(why, TAGC_TORCH_WHY, "its map has more than %d bytes", TAGC_MAPFILE_BYTES);
    return NULL;
  }
  struct tagc_model *model = tagc_mapfile_parse(answer, bytes, &complaint);
  if (!model) {
    snprintf(why, TAGC_TORCH_WHY, "its map is refused in line %u: %.160s", complaint.line, complaint.text);
    return NULL;
  }
  const uint64_t hash = tagc_hash_add(TAGC_HASH_START, answer, bytes);
  *digest = hash ? hash : 1;
  return model;
}
