/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <string.h>

#include "env/program/markup.h"
#include "interpose/tagc-report/show/svg.h"

/* Rounds up to 1, 2 or 5 times a power of ten. */
static double round_up_axis(double value) {
  double power = pow(10, floor(log10(value))), first = value / power;
  return power * (first <= 1 ? 1 : first <= 2 ? 2 : first <= 5 ? 5 : 10);
}

struct tagc_axis tagc_axis_make(double low, double high, double from, double to, int ticks) {
  if (!isfinite(low) || !isfinite(high))
    low = 0, high = 1;
  if (!(high > low))
    high = low + (low > 0 ? low * 0.1 : 1);
  double step = round_up_axis((high - low) / ticks);
  return (struct tagc_axis){floor(low / step + 1e-9) * step, ceil(high / step - 1e-9) * step, from, to, step};
}

double tagc_axis_at(const struct tagc_axis *axis, double value) {
  return axis->from + (axis->to - axis->from) * (value - axis->low) / (axis->high - axis->low);
}

static int ticks_of(const struct tagc_axis *axis) { return (int)lround((axis->high - axis->low) / axis->step); }

void tagc_axis_draw_left(FILE *file, const struct tagc_axis *axis, double x, double width, const char *unit) {
  for (int i = 0; i <= ticks_of(axis); i++) {
    double value = axis->low + i * axis->step, y = tagc_axis_at(axis, value);
    fprintf(file, "<path class=\"%s\" d=\"M%.1f %.1fh%.1f\"/>", i ? "grid" : "base", x, y, width);
    fprintf(file, "<text class=\"tick end\" x=\"%.1f\" y=\"%.1f\">%.10g%s%s</text>\n", x - 6, y + 4,
            fabs(value) < axis->step / 2 ? 0 : value, i == ticks_of(axis) && *unit ? " " : "",
            i == ticks_of(axis) ? unit : "");
  }
}

void tagc_axis_draw_below(FILE *file, const struct tagc_axis *axis, double y, const char *name) {
  int all = ticks_of(axis);
  for (int i = 0; i <= all; i++) {
    double value = axis->low + i * axis->step, x = tagc_axis_at(axis, value);
    fprintf(file, "<path class=\"base\" d=\"M%.1f %.1fv4\"/>", x, y);
    fprintf(file, "<text class=\"tick %s\" x=\"%.1f\" y=\"%.1f\">%.10g%s%s</text>\n", i == all && *name ? "end" : "mid",
            x + (i == all && *name ? 14 : 0), y + 17, fabs(value) < axis->step / 2 ? 0 : value,
            i == all && *name ? " " : "", i == all ? name : "");
  }
}

void tagc_svg_text(FILE *file, const char *class, double x, double y, const char *text) {
  tagc_markup(file, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", class, x, y, text);
}

double tagc_svg_key(FILE *file, const char *class, double x, double y, const char *name) {
  fprintf(file, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\"/>", class, x, y - 10);
  tagc_svg_text(file, "key", x + 17, y, name);
  return x + 17 + 6.8 * (double)strlen(name) + 18;
}
