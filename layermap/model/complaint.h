/* SPDX-License-Identifier: BSD-3-Clause
 * An error in a file: its place, and what was expected there.
 */
#ifndef LAYERMAP_MODEL_COMPLAINT_H
#define LAYERMAP_MODEL_COMPLAINT_H

struct tagc_complaint {
  unsigned line, column; /* from 1; line 0: the file as a whole (cannot be opened, too large) */
  char text[200];        /* "\"rows\" is no number; expected is one from 1 to 281474976710656" */
};

#endif
