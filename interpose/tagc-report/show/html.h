/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-report --html: a job's traces as one page that stands alone: no network, no font, no script; pictures are SVG
 * inside it.
 *
 * For whom   Anyone with a browser: narrow or wide, in the light or dark scheme, on paper, or read aloud: every figure
 *            has its numbers in a table beneath it, and colours are never the only thing that tells.
 * Safety     Whatever the traces name (hosts, programs, layers) is escaped.
 * Size       Bounded by what is drawn, not by how long the traces are: long series are thinned out, short calls drawn
 *            together.
 */
#ifndef INTERPOSE_TAGC_REPORT_SHOW_HTML_H
#define INTERPOSE_TAGC_REPORT_SHOW_HTML_H

#include <stdio.h>

#include "interpose/tagc-report/judge/volume.h"
#include "interpose/tagc-report/read/summary.h"

/* Writes the page; roles must have been written down (tagc_sum_roles()). `facts`: NULL: nothing is known. Reads the
 * traces of the ranks that it draws once more. False without memory; whether the file took everything is the caller's
 * to ask (ferror()). */
bool tagc_html_write(const struct tagc_summary *summary, const struct tagc_volume_facts *facts, FILE *file);

#endif
