/* SPDX-License-Identifier: BSD-3-Clause
 * Checks of options that env/ cannot make: names of codecs, lists of layers, and the content of a map. The library
 * calls them at its start, tagc-run before it starts a program, and tagc-doctor; so all of them say the same. Pure but
 * for the file; any thread.
 */
#ifndef INTERPOSE_POLICY_OPTION_CHECK_H
#define INTERPOSE_POLICY_OPTION_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "env/options.h"

struct tagc_model;

enum { TAGC_OPTION_WHY = 520 };

/* Does the library understand option `i`, beside the others? (True for those that env/ checks completely.) If not,
 * `why` names the variable, the value and the accepted values. */
bool tagc_option_check(const struct tagc_options *options, enum tagc_option_index i, char why[TAGC_OPTION_WHY]);

/* Has option `i`, which the user set, no effect beside the others? Then `why` names what it needs. False with
 * TAGC_MODE=off, where no option has an effect. */
bool tagc_option_is_idle(const struct tagc_options *options, enum tagc_option_index i, char why[TAGC_OPTION_WHY]);

/* The model in the file of TAGC_LAYERMAP, and the digest of that file; NULL if it cannot be read: `why` says why. */
struct tagc_model *tagc_option_map(const char *path, uint64_t *digest, char why[TAGC_OPTION_WHY]);
/* Can it be read? If not, see `why`. */
bool tagc_option_map_is_good(const char *path, char why[TAGC_OPTION_WHY]);

#endif
