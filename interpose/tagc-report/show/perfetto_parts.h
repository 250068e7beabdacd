/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the halves of tagc-report --perfetto (perfetto.h): perfetto.c writes the document, perfetto_rank.c a rank.
 */
#ifndef INTERPOSE_TAGC_REPORT_SHOW_PERFETTO_PARTS_H
#define INTERPOSE_TAGC_REPORT_SHOW_PERFETTO_PARTS_H

#include "env/program/json.h"
#include "interpose/tagc-report/show/perfetto.h"

/* One end of an arrow: a call of a collective. */
struct tagc_perfetto_arrow {
  uint64_t k;
  int64_t at_ns;
  uint32_t comm, pid, track;
};

struct tagc_perfetto {
  struct tagc_json json;
  const struct tagc_summary *summary;
  int64_t base_ns; /* start of the document's time, since 1970 */
  bool linked;     /* collectives can be counted: no rank has lost records */
  struct tagc_perfetto_arrow *arrows;
  size_t arrow_count;
  bool full; /* more than TAGC_PERFETTO_ARROWS: none is drawn */
};

enum { TAGC_PERFETTO_ARROWS = 200000 };

/* Begins an event, and leaves it open. */
void tagc_perfetto_begin(struct tagc_perfetto *w, const char *phase, uint32_t pid, uint32_t track, const char *name);
/* Nanoseconds as microseconds, exactly. */
void tagc_perfetto_put_us(struct tagc_perfetto *w, const char *name, int64_t ns);

/* Writes a rank's events that began in [from_ns, to_ns) of its clock. False: no memory. */
bool tagc_perfetto_rank(struct tagc_perfetto *w, size_t at, uint64_t from_ns, uint64_t to_ns);

#endif
