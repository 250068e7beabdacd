/* SPDX-License-Identifier: BSD-3-Clause
 * The version of the emulated NCCL: the newest one known. A variant (variants.sh) replaces this definition. It
 * therefore stands in a file without a use of it: compilers fold a visible constant, even a weak one.
 */
#include "tests/standin/standin.h"

const int standin_version __attribute__((weak)) = 23203;
