/* SPDX-License-Identifier: BSD-3-Clause
 * Configurations of vision-language models: "text_config", "vision_config", and keys of the projector.
 */
#ifndef LAYERMAP_TAGC_MAP_COMPOSITE_H
#define LAYERMAP_TAGC_MAP_COMPOSITE_H

#include "layermap/model/families.h"
#include "layermap/tagc-map/keys.h"

struct tagc_composite;

/* NULL: no vision-language model has that "model_type". */
const struct tagc_composite *tagc_composite_find(const char *name);
/* The type of the text model, if the file does not say it; NULL: it must. */
const char *tagc_composite_text(const struct tagc_composite *composite);

/* The model around a text model whose part was read last. NULL: not r->is_good, no memory, or too large. */
struct tagc_model *tagc_composite_model(struct tagc_keys *r, const struct tagc_composite *composite,
                                        struct tagc_architecture *text);

#endif
