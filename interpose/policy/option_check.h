/* SPDX-License-Identifier: BSD-3-Clause
 * What env/ cannot know of options: names of codecs, lists of layers, and what is in a map. The library asks when it
 * starts, tagc-run before it starts a program, and tagc-doctor; so all of them say the same. Pure but for the file; any
 * thread.
 */
#ifndef INTERPOSE_POLICY_OPTION_CHECK_H
#define INTERPOSE_POLICY_OPTION_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "env/options.h"

struct tagc_model;

enum { TAGC_OPTION_WHY = 520 };

/* Is option `i` one that the library understands, beside the others? (True for those that env/ knows all of.) If not,
 * `why` names the variable, the value and what is accepted. */
bool tagc_option_check(const struct tagc_options *options, enum tagc_option_index i, char why[TAGC_OPTION_WHY]);

/* The model in the file that TAGC_LAYERMAP names, and the digest of that file; NULL where it cannot be read: `why` says
 * it. */
struct tagc_model *tagc_option_map(const char *path, uint64_t *digest, char why[TAGC_OPTION_WHY]);

#endif
