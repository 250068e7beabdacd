/* SPDX-License-Identifier: BSD-3-Clause
 * Numbers have points, whatever the locale of the host program: scripts read them, and logs are compared. Threads: any,
 * each for itself. The C locale is part of libc, so that no memory is allocated.
 */
#ifndef ENV_NUMBERS_H
#define ENV_NUMBERS_H

#include <locale.h>

struct tagc_numbers {
  locale_t own, before; /* own: 0 without memory, and then the locale stays */
};

static inline struct tagc_numbers tagc_numbers_begin(void) {
  const locale_t own = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  return (struct tagc_numbers){own, own ? uselocale(own) : (locale_t)0};
}

static inline void tagc_numbers_end(const struct tagc_numbers *numbers) {
  if (!numbers->own)
    return;
  uselocale(numbers->before);
  freelocale(numbers->own);
}

#endif
