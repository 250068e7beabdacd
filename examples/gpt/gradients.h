/* SPDX-License-Identifier: BSD-3-Clause
 * The backward pass against finite differences. Needs no NCCL. Single-threaded.
 */
#ifndef EXAMPLES_GPT_GRADIENTS_H
#define EXAMPLES_GPT_GRADIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Checks every tensor of a small model with that many tokens, one line on stdout each. True if all agree. */
bool gradients_check(uint64_t seed, size_t vocabulary, bool halves);

#endif
