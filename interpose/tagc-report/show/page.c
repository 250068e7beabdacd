/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the parts of the page: style, texts, sections, figures and tables; see page.h.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "interpose/tagc-report/show/page.h"

/* Columns with longer texts get a least width: browsers would make them as narrow as the numbers beneath. */
enum { LONG_HEAD = 20, LONG_TEXT = 24 };

/* Marks have Okabe's and Ito's colours, which people with any kind of colour blindness tell apart. In the light scheme
 * they are dark enough for a contrast of 4.5 with white, so that text on them is legible. */
/* clang-format off */
static const char style[] =
  ":root{color-scheme:light dark;" TAGC_LOOK_LIGHT ";--on:#fff;--scatter:#0072b2;--gather:#9a6400;--reduce:#007a59;"
  "--one:#a3507e;"
  "--point:#c25500;--other:#59636e;--sum:#8c959f;--encode:#1b1f24;--decode:#7a6f00;--plain:#9a6400;--packed:#0072b2;"
  "--good:#007a59;--bad:#c25500;--band:#0072b21c}\n"
  "@media(prefers-color-scheme:dark){:root{" TAGC_LOOK_DARK ";--on:#111;--scatter:#56b4e9;--gather:#e69f00;"
  "--reduce:#00b586;"
  "--one:#cc79a7;--point:#d55e00;--other:#9198a1;--sum:#6e7681;--encode:#fff;--decode:#f0e442;--plain:#e69f00;"
  "--packed:#56b4e9;--good:#00b586;--bad:#e8702a;--band:#56b4e926}}\n"
  "*{box-sizing:border-box}html{scroll-behavior:smooth;-webkit-text-size-adjust:100%}\n"
  "@media(prefers-reduced-motion:reduce){html{scroll-behavior:auto}}\n"
  "body{margin:0;background:var(--paper);color:var(--ink);font:1rem/1.5 " TAGC_LOOK_FONT "}\n"
  "body>*{max-width:62rem;margin-inline:auto;padding-inline:1rem}\n"
  "header{padding-top:2rem}h1{font-size:clamp(1.6rem,1.1rem + 2.4vw,2.5rem);line-height:1.15;margin:.25rem 0 .75rem;"
  "letter-spacing:-.015em;text-wrap:balance;overflow-wrap:anywhere}\n"
  "h2{font-size:1.35rem;line-height:1.25;margin:0 0 .25rem}h3{font-size:1.05rem;margin:1.5rem 0 .25rem}"
  "p{margin:.25rem 0 .75rem;max-width:46rem}\n"
  ".lead{font-size:1.125rem}.faint,.nothing{color:var(--faint)}"
  ".over{color:var(--faint);margin:0;overflow-wrap:anywhere}\n"
  "a{color:var(--packed)}a:focus-visible,summary:focus-visible,.wide:focus-visible{outline:3px solid var(--packed);"
  "outline-offset:2px}\n"
  ".skip{position:absolute;left:-100vw}.skip:focus{left:1rem;top:1rem;background:var(--paper);padding:.5rem;z-index:1}"
  "\n"
  "nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1.1rem;list-style:none;padding:0;margin:1rem 0 0;font-size:.9375rem}\n"
  "nav a{display:inline-block;padding:.3rem 0}\n"
  ".keys{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(15rem,100%),1fr));gap:.75rem;margin:1.25rem 0}\n"
  ".keys div{background:var(--card);border:1px solid var(--edge);border-radius:.6rem;padding:.7rem .9rem}\n"
  ".keys dt{color:var(--faint);font-size:.875rem}.keys dd{margin:0;font-size:1.35rem;font-weight:600;line-height:1.3;"
  "font-variant-numeric:tabular-nums}.keys dd+dd{font-size:.875rem;font-weight:400;color:var(--faint)}\n"
  ".alert{border:1px solid var(--edge);border-left:.3rem solid var(--bad);border-radius:.3rem;padding:.5rem .9rem;"
  "margin:1rem 0;background:var(--card)}\n"
  ".alert ul{margin:.25rem 0;padding-left:1.2rem}.alert li{overflow-wrap:anywhere}\n"
  "section{padding:1.75rem 0 .5rem;border-top:1px solid var(--edge);margin-top:1.25rem;scroll-margin-top:.5rem}\n"
  "figure{margin:.5rem 0 .25rem}.wide svg{min-width:44rem}#fig-difference svg{max-width:32rem}\n"
  /* Shadows at the sides mark hidden content to scroll to. */
  ".wide{overflow-x:auto;background:linear-gradient(90deg,var(--paper) 50%,transparent),linear-gradient(270deg,"
  "var(--paper) 50%,transparent) 100% 0,"
  "linear-gradient(90deg,var(--edge),transparent),linear-gradient(270deg,var(--edge),transparent) 100% 0;"
  "background-repeat:no-repeat;"
  "background-size:2.5rem 100%,2.5rem 100%,1rem 100%,1rem 100%;background-attachment:local,local,scroll,scroll}\n"
  "svg{display:block;width:100%;height:auto}.many{display:grid;grid-template-columns:repeat(auto-fill,"
  "minmax(min(17.5rem,100%),1fr));gap:.75rem}\n"
  ".many figure{margin:0;border:1px solid var(--edge);border-radius:.6rem;padding:.5rem .6rem}\n"
  "figcaption{font-weight:600;font-size:.9375rem;margin:.25rem 0}\n"
  "details{margin:.25rem 0 .75rem}summary{cursor:pointer;color:var(--faint);font-size:.9375rem;padding:.3rem 0}\n"
  "table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums;min-width:20rem}\n"
  "caption{text-align:left;color:var(--faint);padding:.25rem 0;font-size:.875rem}\n"
  "th,td{text-align:left;padding:.3rem .9rem .3rem 0;border-bottom:1px solid var(--edge);vertical-align:top;"
  "font-weight:400}\n"
  "thead th{color:var(--faint);border-bottom-width:2px;vertical-align:bottom;max-width:11rem}"
  "tbody th{font-weight:600;overflow-wrap:break-word;max-width:20rem}\n"
  ".n{text-align:right}td.n{white-space:nowrap}td{max-width:26rem}\n"
  "th.long{min-width:8.5rem}td.long{min-width:10rem}\n"
  "footer{color:var(--faint);font-size:.875rem;border-top:1px solid var(--edge);margin-top:2rem;"
  "padding-block:1rem 3rem}footer dt{color:var(--ink);font-weight:600}footer dd{margin:0 0 .5rem}\n"
  /* pictures */
  "svg text{font:13px " TAGC_LOOK_FONT ";fill:var(--ink)}svg .tick{font-size:12px;fill:var(--faint);"
  "font-variant-numeric:tabular-nums}"
  "svg .key,svg .label{font-size:12.5px}svg .end{text-anchor:end}svg .mid{text-anchor:middle}"
  "svg .strong{font-weight:600}"
  "svg .note{font-size:12px;fill:var(--faint)}svg .in{font-size:11px;fill:var(--on);text-anchor:middle;"
  "pointer-events:none}\n"
  ".grid{stroke:var(--edge);stroke-width:1}.base{stroke:var(--faint);stroke-width:1}.lane{fill:var(--card)}"
  ".frame{fill:none;stroke:var(--edge)}\n"
  ".scatter{fill:var(--scatter)}.gather{fill:var(--gather)}.reduce{fill:var(--reduce)}.one{fill:var(--one)}"
  ".point{fill:var(--point)}"
  ".other{fill:var(--other)}.sum{fill:var(--sum)}.encode{fill:var(--encode)}.decode{fill:var(--decode)}"
  ".mark{fill:var(--ink)}.band{fill:var(--band)}\n"
  ".plain{fill:var(--plain)}.packed{fill:var(--packed)}.outline{fill:none;stroke:var(--plain);stroke-width:1.5}"
  ".line{fill:none;stroke-width:2;stroke:var(--packed)}.line.plain{fill:none;stroke:var(--plain)}"
  ".line.dash{stroke:var(--gather);stroke-dasharray:5 4}"
  ".thin{fill:none;stroke:var(--faint);stroke-width:1}.zero{stroke:var(--ink);stroke-width:1.5}"
  ".dot.plain{fill:var(--paper);stroke:var(--plain);stroke-width:1.5}\n"
  "@media print{:root{" TAGC_LOOK_LIGHT "}nav,.skip{display:none}section{break-inside:avoid-page}"
  "details>summary{display:none}.wide{overflow:visible}"
  ".wide svg{min-width:0}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}\n";
/* clang-format on */

void tagc_page_style(FILE *file) {
  fputs("<style>\n", file);
  fputs(style, file);
  fputs("</style>\n", file);
}

/* -- texts --------------------------------------------------------------------------------------------------------- */

const char *tagc_page_ms(double ms, char text[32]) {
  double size = fabs(ms);
  if (isnan(ms))
    snprintf(text, 32, "\342\200\223");
  else if (size >= 10000)
    snprintf(text, 32, "%.2f s", ms / 1000);
  else if (size < 0.1 && size > 0)
    snprintf(text, 32, "%.1f \302\265s", ms * 1000);
  else
    snprintf(text, 32, "%.*f ms", size >= 1000 ? 0 : size >= 100 ? 1 : 2, ms);
  return text;
}

const char *tagc_page_count(uint64_t number, const char *noun, char text[64]) {
  char digits[32];
  snprintf(text, 64, "%s %s%s", tagc_format_count((double)number, digits), noun, number == 1 ? "" : "s");
  return text;
}

const char *tagc_page_class(const char *function) {
  static const char *const classes[][2] = {
    {"ReduceScatter", "scatter"},
    {"AllGather", "gather"},
    {"AllReduce", "reduce"},
    {"Broadcast", "one"},
    {"Bcast", "one"},
    {"Reduce", "one"},
    {"Gather", "one"},
    {"Scatter", "one"},
    {"AlltoAll", "one"},
    {"Send", "point"},
    {"Recv", "point"},
  };
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
    if (tagc_sum_same(TAGC_TRACE_FUNCTIONS, function, classes[i][0]))
      return classes[i][1];
  return "other";
}

void tagc_page_nothing(struct tagc_page *page, const char *why, const char *what_to_do) {
  fprintf(page->file, "<p class=\"nothing\">%s %s</p>\n", why, what_to_do);
}

/* -- sections, figures, tables ------------------------------------------------------------------------------------- */

void tagc_page_section(struct tagc_page *page, const char *id, const char *title, const char *intro) {
  fprintf(page->file, "<section id=\"%s\" aria-labelledby=\"%s-h\">\n<h2 id=\"%s-h\">%s</h2>\n", id, id, id, title);
  if (*intro)
    fprintf(page->file, "<p class=\"faint\">%s</p>\n", intro);
}

void tagc_page_section_end(struct tagc_page *page) { fputs("</section>\n", page->file); }

void tagc_figure_begin(struct tagc_page *page, const char *id, const char *title, const char *description, double width,
                       double height) {
  FILE *file = page->file;
  page->wide = width >= TAGC_PAGE_WIDTH;
  tagc_markup(file, "<figure id=\"%s\">\n<figcaption>%s</figcaption>\n", id, title);
  if (page->wide)
    tagc_markup(file, "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"%s, picture\">", title);
  tagc_markup(file, "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-labelledby=\"%s-t %s-d\">\n", width, height, id,
              id);
  tagc_markup(file, "<title id=\"%s-t\">%s</title>\n<desc id=\"%s-d\">%s</desc>\n", id, title, id, description);
}

void tagc_figure_end(struct tagc_page *page) {
  fprintf(page->file, "</svg>%s\n</figure>\n", page->wide ? "</div>" : "");
}

void tagc_table_begin(struct tagc_page *page, const char *caption, const char *heads, bool folded) {
  FILE *file = page->file;
  page->folded = folded;
  if (folded)
    fputs("<details><summary>The numbers in a table</summary>\n", file);
  tagc_markup(file, "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"Table: %s\"><table>\n", caption);
  tagc_markup(file, "<caption>%s</caption>\n<thead><tr>", caption);
  for (const char *head = heads; *head;) {
    size_t length = strcspn(head, "|");
    bool number = *head == '>';
    const char *class = length > LONG_HEAD ? number ? " class=\"n long\"" : " class=\"long\""
                        : number           ? " class=\"n\""
                                           : "";
    fprintf(file, "<th scope=\"col\"%s>%.*s</th>", class, (int)(length - number), head + number);
    head += length + (head[length] == '|');
  }
  fputs("</tr></thead>\n<tbody>\n", file);
}

void tagc_table_end(struct tagc_page *page) {
  fprintf(page->file, "</tbody></table></div>%s\n", page->folded ? "</details>" : "");
}

void tagc_row_begin(struct tagc_page *page, const char *text) {
  tagc_markup(page->file, "<tr><th scope=\"row\">%s</th>", text);
}

void tagc_row_end(struct tagc_page *page) { fputs("</tr>\n", page->file); }

void tagc_cell_text(struct tagc_page *page, const char *text) {
  tagc_markup(page->file, strlen(text) > LONG_TEXT ? "<td class=\"long\">%s</td>" : "<td>%s</td>", text);
}

void tagc_cell(struct tagc_page *page, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("<td class=\"n\">", page->file);
  vfprintf(page->file, format, arguments);
  fputs("</td>", page->file);
  va_end(arguments);
}

void tagc_cell_number(struct tagc_page *page, uint64_t number) {
  char text[32];
  tagc_cell(page, "%s", tagc_format_count((double)number, text));
}

void tagc_cell_real(struct tagc_page *page, double number, int digits) {
  if (!isfinite(number))
    tagc_cell(page, "\342\200\223");
  else
    tagc_cell(page, "%.*f", digits, number);
}
