/* SPDX-License-Identifier: BSD-3-Clause
 * Families: totals of real models, and the order and shapes of parameters in a block of each family.
 */
#include <inttypes.h>
#include <string.h>

#include "layermap/families.h"
#include "tests/unit/architectures.h"
#include "tests/unit/tap.h"

static void totals_are_right(void)
{
  for (size_t i = 0; i < KNOWN_MODELS; i++) {
    const struct known_model *known = &known_models[i];
    struct tagc_model *model = tagc_family_model(&known->a);
    uint64_t total = model ? tagc_model_elements(model) : 0;
    ok(total == known->total, "%s has %" PRIu64 " parameters, %s: %" PRIu64, known->name, known->total,
       known->is_published ? "as published" : "by its config", total);
    tagc_model_free(model);
  }
}

int main(void)
{
  totals_are_right();
  return tap_done();
}
