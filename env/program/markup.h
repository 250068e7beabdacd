/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the programs' pictures, pages and JSON: escaping of any foreign text, and looks. Threads: one.
 */
#ifndef ENV_PROGRAM_MARKUP_H
#define ENV_PROGRAM_MARKUP_H

#include <stdio.h>

/* Writes our own XML or HTML; %s inserts any text, between tags or in an attribute with double quotes. Texts are
 * escaped. '?' replaces bytes that are not UTF-8, and characters that XML lacks or that turn the direction of others.
 * Understands %s, %d, %u, %ld, %lu, %zu, %f, %g (the last two with a precision) and %%. */
__attribute__((format(printf, 2, 3))) void tagc_markup(FILE *file, const char *format, ...);
/* Writes a text as a JSON string with its quotes. Bytes that are not UTF-8 become the replacement character. */
void tagc_put_json(FILE *file, const char *text);

/* Variables of style sheets. Ink and faint text has a contrast of at least 4.5 on paper and on card. */
#define TAGC_LOOK_LIGHT "--paper:#fff;--card:#f6f8fa;--ink:#1b1f24;--faint:#59636e;--edge:#d1d9e0"
#define TAGC_LOOK_DARK "--paper:#0d1117;--card:#161b22;--ink:#e6edf3;--faint:#9198a1;--edge:#3d444d"
#define TAGC_LOOK_FONT "system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif"

#endif
