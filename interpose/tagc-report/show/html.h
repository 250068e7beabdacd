/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-report --html: a job's traces as one self-contained page: no network, no font, no script; pictures are inline
 * SVG.
 *
 * For whom   Anyone with a browser: narrow or wide, light or dark scheme, on paper, or read aloud. Every figure has its
 *            numbers in a table beneath it, and colours are never the only mark.
 * Safety     All names from the traces (hosts, programs, layers) are escaped.
 * Size       Bounded by the drawing, not by the traces: long series are thinned out, short calls drawn together.
 */
#ifndef INTERPOSE_TAGC_REPORT_SHOW_HTML_H
#define INTERPOSE_TAGC_REPORT_SHOW_HTML_H

#include <stdio.h>

#include "interpose/tagc-report/judge/volume.h"
#include "interpose/tagc-report/read/summary.h"

/* Writes the page; call tagc_sum_roles() before. `facts` NULL: none. Reads the traces of the drawn ranks once more.
 * False: no memory. The caller checks the file for errors (ferror()). */
bool tagc_html_write(const struct tagc_summary *summary, const struct tagc_volume_facts *facts, FILE *file);

#endif
