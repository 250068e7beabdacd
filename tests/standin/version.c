/* SPDX-License-Identifier: BSD-3-Clause
 * Which NCCL is played: the newest that is known. A variant (variants.sh) replaces this definition, which therefore
 * stands in a file where nothing uses it: compilers take a constant that they see for what it is, weak or not.
 */
#include "standin.h"

const int standin_version __attribute__((weak)) = 23007;
