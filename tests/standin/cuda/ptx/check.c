/* SPDX-License-Identifier: BSD-3-Clause
 * Findings: one line each on stderr, which begins with "cuda-check:". An instruction has each kind of finding once. A
 * process with findings fails at its end.
 */
#include "tests/standin/cuda/ptx/ptx.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t findings_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct finding {
  const struct ptx_ins *ins;
  const char *format;
  struct finding *next;
} * findings;

static void fail_at_end(void) {
  fflush(NULL);
  _exit(1);
}

/* True for the first finding of this kind. */
static bool is_new(const struct ptx_ins *ins, const char *format) {
  bool known = false, first;
  pthread_mutex_lock(&findings_mutex);
  first = !findings;
  for (const struct finding *f = findings; f && !known; f = f->next)
    known = f->ins == ins && f->format == format;
  struct finding *f = known ? NULL : malloc(sizeof *f);
  if (f) {
    *f = (struct finding){ins, format, findings};
    findings = f;
  }
  pthread_mutex_unlock(&findings_mutex);
  if (first)
    atexit(fail_at_end);
  return !known;
}

void ptx_finding(const struct ptx_warp *warp, const struct ptx_ins *ins, unsigned lane, const char *format, ...) {
  if (!is_new(ins, format))
    return;
  char what[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  const struct ptx_block *b = warp->block;
  fprintf(stderr, "cuda-check: %s: %s; block (%u,%u) thread %u, PTX line %d: %.*s\n", b->machine->function->name, what,
          b->index.x, b->index.y, warp->index * LANES + lane, ins->line, (int)strcspn(ins->text, ";\n"), ins->text);
  if (standin_settings()->stops)
    _exit(1);
}

void ptx_refuse(const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "cuda-check: %s\n", text);
  abort();
}

void ptx_undefined(const struct ptx_warp *warp, const struct ptx_ins *ins, uint32_t lanes, const char *what) {
  ptx_finding(warp, ins, (unsigned)__builtin_ctz(lanes), "%s is undefined", what);
}
