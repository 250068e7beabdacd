/* SPDX-License-Identifier: BSD-3-Clause */
#include "layermap/infer/division.h"

#include <stdlib.h>

/* Limit of shards, of all slots. It knows nothing of the members: models that are cut otherwise see the same shards. */
enum { MOST_WALKED = 1 << 14 };

struct digest {
  uint64_t hash;
  enum tagc_division what;
  const struct tagc_member *members;
  uint32_t kinds; /* of the current run; bias does not count */
  uint64_t length;
};

static void mix(struct digest *digest, uint64_t word) {
  digest->hash = (digest->hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  digest->hash ^= digest->hash >> 29;
}

static bool add_segment(const struct tagc_segment *segment, void *data) {
  struct digest *digest = data;
  if (segment->member < 0)
    return true;
  if (digest->what == TAGC_DIVISION_PARAMETERS) {
    mix(digest, (uint64_t)(uint32_t)segment->member);
    mix(digest, segment->offset);
    mix(digest, segment->length);
    return true;
  }
  uint32_t kinds = digest->members[segment->member].parameter->kinds;
  if (kinds != digest->kinds) {
    mix(digest, (uint64_t)digest->kinds << 56 ^ digest->length);
    digest->kinds = kinds;
    digest->length = 0;
  }
  digest->length += segment->length;
  return true;
}

bool tagc_division_digest(enum tagc_division what, const struct tagc_model *model, const struct tagc_match *match,
                          const struct tagc_piece *pieces, size_t count, int nranks, size_t element_bytes,
                          uint64_t *result) {
  struct digest digest = {.hash = 1, .what = what};
  struct tagc_member *members = NULL;
  const bool all = what == TAGC_DIVISION_PARAMETERS || !tagc_layout_is_uniform(match->layout);
  for (size_t i = 0; i < count; i++) {
    mix(&digest, i);
    if (!pieces[i].keep ||
        (i && pieces[i].count == pieces[i - 1].count && pieces[i].keep == pieces[i - 1].keep && !pieces[i].to &&
         model->places[pieces[i].first].unit == model->places[pieces[i - 1].first].unit))
      continue;
    size_t needed = tagc_piece_members(model, &pieces[i], NULL);
    struct tagc_member *room = realloc(members, (needed + 1) * sizeof *members);
    if (!room) {
      free(members);
      return false;
    }
    digest.members = members = room;
    tagc_piece_members(model, &pieces[i], members);
    /* A sample of very many shards suffices. */
    const int step = all ? 1 + (int)((uint64_t)nranks * count / MOST_WALKED) : nranks > 1 ? nranks - 1 : 1;
    for (int shard = 0; shard < nranks; shard += step) {
      tagc_layout_walk(match->layout, members, needed, nranks, element_bytes, shard, add_segment, &digest);
      mix(&digest, (uint64_t)digest.kinds << 56 ^ digest.length);
      digest.kinds = 0;
      digest.length = 0;
    }
  }
  free(members);
  *result = digest.hash;
  return true;
}
