/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/policy/coll_config.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* As 2.32 has it. 2.31 ends before the event. */
struct known {
  size_t size;
  unsigned magic, version;
  const ncclConfigExt_t *ext;
  int min_ctas, max_ctas, nvls_ctas, cluster_size;
  const char *algorithms;
  int force_algorithms, policy;
  uint64_t profiler_tag;
  void *launch_event;
};
_Static_assert(offsetof(struct known, launch_event) == 64 && sizeof(struct known) == 72, "of 2.31.2, and of 2.32.3");
enum { MAGIC = 0xcafebeef, LEAST = offsetof(struct known, launch_event) };

/* Reads no byte beyond its size. */
static struct known read_fields(const ncclCollConfig_t *config) {
  struct known known = {0};
  memcpy(&known, config, config->size < sizeof known ? config->size : sizeof known);
  return known;
}

bool tagc_coll_config_is_valid(const ncclCollConfig_t *config) {
  if (!config)
    return true;
  if (config->size < LEAST || config->magic != MAGIC)
    return false;
  const struct known known = read_fields(config);
  return (known.force_algorithms == 0 || known.force_algorithms == 1) &&
         (known.policy == NCCL_CONFIG_UNDEF_INT ||
          (known.policy >= 0 && known.policy <= (NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO)));
}

static bool is_defined(int value) { return value != NCCL_CONFIG_UNDEF_INT; }

enum tagc_reason tagc_coll_config_gate(const ncclCollConfig_t *config) {
  if (!config)
    return TAGC_REASON_NONE;
  const struct known known = read_fields(config);
  if (known.size > sizeof known || known.ext)
    return TAGC_REASON_config_unknown;
  if (known.launch_event)
    return TAGC_REASON_config_event;
  if (known.algorithms && *known.algorithms)
    return TAGC_REASON_config_algorithm;
  if (is_defined(known.min_ctas) || is_defined(known.max_ctas) || is_defined(known.nvls_ctas) ||
      is_defined(known.cluster_size) || is_defined(known.policy))
    return TAGC_REASON_config_ctas;
  return TAGC_REASON_NONE;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* One block: the configuration of config->size bytes, its options, its text. */
struct tagc_kept_config {
  atomic_int references;
  _Alignas(max_align_t) unsigned char bytes[];
};

const ncclCollConfig_t *tagc_coll_config_of(const struct tagc_kept_config *kept) {
  return (const ncclCollConfig_t *)kept->bytes;
}

static size_t count_options(const ncclConfigExt_t *option) {
  size_t count = 0;
  for (; option; option = option->next)
    count++;
  return count;
}

static void copy_options(const ncclConfigExt_t *from, ncclConfigExt_t *to, size_t count) {
  for (size_t i = 0; i < count; i++, from = from->next) {
    to[i] = *from;
    to[i].next = i + 1 < count ? &to[i + 1] : NULL;
  }
}

struct tagc_kept_config *tagc_coll_config_keep(const ncclCollConfig_t *config) {
  const struct known known = read_fields(config);
  const size_t options = count_options(known.ext), text = known.algorithms ? strlen(known.algorithms) + 1 : 0;
  const size_t size = (config->size + 15) / 16 * 16;
  struct tagc_kept_config *kept = malloc(sizeof *kept + size + options * sizeof(ncclConfigExt_t) + text);
  if (!kept)
    return NULL;
  struct known *copy = (struct known *)kept->bytes;
  ncclConfigExt_t *chain = (ncclConfigExt_t *)(kept->bytes + size);
  atomic_init(&kept->references, 1);
  memcpy(copy, config, config->size);
  copy_options(known.ext, chain, options);
  copy->ext = options ? chain : NULL;
  if (text)
    copy->algorithms = memcpy(chain + options, known.algorithms, text);
  return kept;
}

void tagc_coll_config_retain(struct tagc_kept_config *kept) { atomic_fetch_add(&kept->references, 1); }

void tagc_coll_config_release(struct tagc_kept_config *kept) {
  if (kept && atomic_fetch_sub(&kept->references, 1) == 1)
    free(kept);
}
