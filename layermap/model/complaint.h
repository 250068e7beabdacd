/* SPDX-License-Identifier: BSD-3-Clause
 * What is wrong with a file, where, and what was expected there.
 */
#ifndef LAYERMAP_MODEL_COMPLAINT_H
#define LAYERMAP_MODEL_COMPLAINT_H

struct tagc_complaint {
  unsigned line, column; /* from 1 on; line 0: of the file as a whole (it cannot be opened, is too large) */
  char text[200];        /* "\"rows\" is no number; expected is one from 1 to 281474976710656" */
};

#endif
