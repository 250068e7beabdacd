/* SPDX-License-Identifier: BSD-3-Clause
 * One step on a common scale of time: for each rank a lane of calls per thread, and a lane per stream of NCCL's work,
 * if known. With both sides of TAGC_MODE=ab a plain and a compressed step are on one scale.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "interpose/tagc-report/judge/steps.h"
#include "interpose/tagc-report/show/page.h"
#include "interpose/tagc-report/show/page_picture.h"
#include "interpose/tagc-report/show/svg.h"

enum { LEFT = 150, RIGHT = 16, TOP = 42, LANE = 22, BAR = 16, STRIP = 6, APART = 8, BARS = 8000, ROWS = 150 };

/* -- bars -------------------------------------------------------------------------------------------------------- */

/* Narrow neighbouring bars, merged into one. */
struct bunch {
  double from, to;
  size_t calls, compressed;
  double bytes, ns;
  const char *function; /* NULL: several */
};

static const struct tagc_sum_slot *drawn_slot(const struct tagc_picture *picture, const struct tagc_drawn *part,
                                              const struct tagc_trace_call *call) {
  size_t comm = call->record.comm < part->comm_count ? part->comms[call->record.comm] : SIZE_MAX;
  return tagc_call_slot(picture->page->summary, comm, call);
}

static const char *layer_of(const struct tagc_picture *picture, const struct tagc_drawn *part,
                            const struct tagc_trace_call *call) {
  const struct tagc_sum_slot *slot = drawn_slot(picture, part, call);
  return slot ? slot->name : "";
}

static bool is_compressed(const struct tagc_picture *picture, const struct tagc_trace_call *call) {
  return tagc_sum_is(picture->page->summary, TAGC_TRACE_ACTIONS, call->action, "compress");
}

static double x_of(const struct tagc_picture *picture, const struct tagc_drawn *part, uint64_t ns) {
  double at = part->offset_ms + tagc_ms((double)ns - (double)part->step->began_ns);
  return fmin(tagc_axis_at(&picture->x, at), picture->x.to + RIGHT);
}

static void put_mark(FILE *file, double x, double y, double width) {
  fprintf(file, "<rect class=\"mark\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"2.5\"/>", x, y + BAR, width);
}

static void flush_bunch(const struct tagc_picture *picture, struct bunch *bunch, double y) {
  FILE *file = picture->page->file;
  char bytes[16], ms[32];
  if (!bunch->calls)
    return;
  double width = fmax(bunch->to - bunch->from, 0.7);
  fprintf(file, "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\"><title>%zu %s",
          bunch->function ? tagc_page_class(bunch->function) : "other", bunch->from, y, width, BAR, bunch->calls,
          bunch->calls == 1 ? "call" : "calls");
  tagc_markup(file, "%s%s, %s, %s</title></rect>\n", bunch->function ? " of " : "",
              bunch->function ? bunch->function : "", tagc_format_bytes(bunch->bytes, bytes),
              tagc_page_ms(tagc_ms(bunch->ns), ms));
  if (bunch->compressed)
    put_mark(file, bunch->from, y, width);
  *bunch = (struct bunch){0};
}

static void add_to(struct bunch *bunch, const struct tagc_trace_call *call, const char *function, double from,
                   double to, uint64_t ns, bool compressed) {
  if (!bunch->calls)
    *bunch = (struct bunch){.from = from, .to = to, .function = function};
  bunch->to = fmax(bunch->to, to);
  bunch->calls++;
  bunch->compressed += compressed;
  bunch->bytes += (double)call->raw_bytes;
  bunch->ns += (double)ns;
  if (bunch->function && strcmp(bunch->function, function) != 0)
    bunch->function = NULL;
}

/* Writes the tooltip of a call. */
static void put_title(const struct tagc_picture *picture, const struct tagc_drawn *part,
                      const struct tagc_window_call *call) {
  FILE *file = picture->page->file;
  const struct tagc_summary *summary = picture->page->summary;
  const char *layer = layer_of(picture, part, &call->call);
  char a[32], b[32], bytes[16];
  tagc_markup(file, "<title>%s%s%s, %s: at %s, %s in the call; ", tagc_sum_function(summary, call->call.function),
              *layer ? " of " : "", layer, tagc_format_bytes((double)call->call.raw_bytes, bytes),
              tagc_page_ms(tagc_ms((double)call->call.began_ns - (double)part->step->began_ns), a),
              tagc_page_ms(tagc_ms((double)call->call.host_ns), b));
  if (call->times.sum_ns)
    fprintf(file, "sum inside the host %s, ", tagc_page_ms(tagc_ms((double)call->times.sum_ns), a));
  if (call->times.encode_ns || call->times.decode_ns)
    fprintf(file, "encode %s, ", tagc_page_ms(tagc_ms((double)call->times.encode_ns), a));
  if (call->times.call)
    fprintf(file, "exchange %s", tagc_page_ms(tagc_ms((double)call->times.exchange_ns), a));
  if (call->times.encode_ns || call->times.decode_ns)
    fprintf(file, ", decode %s", tagc_page_ms(tagc_ms((double)call->times.decode_ns), a));
  if (tagc_times_hidden(&call->times))
    fprintf(file, ", of both %s while it was under way",
            tagc_page_ms(tagc_ms((double)tagc_times_hidden(&call->times)), a));
  tagc_markup(file, "%s%s", call->times.call ? "; " : "",
              tagc_sum_name(summary, TAGC_TRACE_REASONS, call->call.reason));
  if (is_compressed(picture, &call->call))
    tagc_markup(file, " %s", tagc_call_codec(drawn_slot(picture, part, &call->call), &call->call));
  fputs("</title>", file);
}

static void put_stage(FILE *file, const char *class, double from, double to, double y, int height) {
  if (to - from > 0.4)
    fprintf(file, "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\"/>", class, from, y, to - from,
            height);
}

/* Draws sum and encode, then the exchange, then decode. The hidden parts are strips in the exchange: encode's at its
 * start, decode's at its end. */
static void draw_stages(const struct tagc_picture *picture, const struct tagc_drawn *part,
                        const struct tagc_window_call *call, double y) {
  FILE *file = picture->page->file;
  const struct tagc_trace_times *times = &call->times;
  const uint64_t hidden = tagc_times_hidden(times),
                 early = tagc_encode_hidden(times->encode_ns, times->decode_ns, hidden);
  uint64_t began = call->wire_began_ns, end = began + tagc_times_sum(times), encode = began + times->sum_ns;
  double summed = x_of(picture, part, encode), sent = x_of(picture, part, encode + times->encode_ns - early),
         received = x_of(picture, part, end - (times->decode_ns - (hidden - early)));
  put_stage(file, "sum", x_of(picture, part, began), summed, y, BAR);
  put_stage(file, "encode", summed, sent, y, BAR);
  put_stage(file, "encode", sent, fmin(received, x_of(picture, part, encode + times->encode_ns)), y, STRIP);
  put_stage(file, "decode", fmax(sent, x_of(picture, part, end - times->decode_ns)), received, y + BAR - STRIP, STRIP);
  put_stage(file, "decode", received, x_of(picture, part, end), y, BAR);
}

static void put_bar(const struct tagc_picture *picture, const struct tagc_drawn *part,
                    const struct tagc_window_call *call, bool wire, double y, double from, double to) {
  FILE *file = picture->page->file;
  const char *function = tagc_sum_function(picture->page->summary, call->call.function),
             *layer = layer_of(picture, part, &call->call);
  double width = fmax(to - from - (to - from > 3 ? 0.6 : 0), 0.7);
  fputs("<g>", file);
  put_title(picture, part, call);
  fprintf(file, "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\"/>", tagc_page_class(function),
          from, y, width, BAR);
  if (call->times.call && wire == !call->under)
    draw_stages(picture, part, call, y);
  if (is_compressed(picture, &call->call))
    put_mark(file, from, y, width);
  const char *label = *layer ? layer : function;
  if (width > 6.5 * (double)strlen(label) + 8 && tagc_times_sum(&call->times) == call->times.exchange_ns)
    tagc_svg_text(file, "in", from + width / 2, y + 12, label);
  fputs("</g>\n", file);
}

static void draw_lane(const struct tagc_picture *picture, const struct tagc_drawn *part, bool wire, uint64_t what,
                      double y) {
  struct bunch bunch = {0};
  for (size_t i = 0; i < part->window.count; i++) {
    const struct tagc_window_call *call = &part->window.calls[i];
    if (wire ? !call->times.call || call->under || call->call.stream != what : call->call.thread != what)
      continue;
    uint64_t began = wire ? call->wire_began_ns : call->call.began_ns,
             ns = wire ? tagc_times_sum(&call->times) : call->call.host_ns;
    double from = x_of(picture, part, began), to = x_of(picture, part, began + ns);
    bool narrow = to - from < picture->least;
    if (!narrow || (bunch.calls && (from - bunch.to > picture->least || from - bunch.from > 4 * picture->least)))
      flush_bunch(picture, &bunch, y);
    if (narrow)
      add_to(&bunch, &call->call, tagc_sum_function(picture->page->summary, call->call.function), from, to, ns,
             is_compressed(picture, &call->call));
    else
      put_bar(picture, part, call, wire, y, from, to);
  }
  flush_bunch(picture, &bunch, y);
}

/* -- a picture --------------------------------------------------------------------------------------------------- */

static size_t lanes_of(const struct tagc_picture *picture) {
  size_t lanes = 0;
  for (size_t i = 0; i < picture->count; i++)
    lanes += picture->parts[i].threads + picture->parts[i].streams;
  return lanes;
}

static void draw_part(const struct tagc_picture *picture, const struct tagc_drawn *part, double *y) {
  FILE *file = picture->page->file;
  char label[64];
  for (size_t lane = 0; lane < part->threads + part->streams; lane++) {
    bool wire = lane >= part->threads;
    uint64_t what = wire ? part->lanes[TAGC_PICTURE_LANES + lane - part->threads] : part->lanes[lane];
    if (!lane) {
      snprintf(label, sizeof label, "rank %d", picture->page->summary->ranks[part->rank].number);
      tagc_svg_text(file, "label strong", 4, *y + 13, label);
    }
    if (wire)
      snprintf(label, sizeof label, part->streams > 1 ? "wire, stream %zu" : "wire", lane - part->threads + 1);
    else
      snprintf(label, sizeof label, part->threads > 1 ? "thread %" PRIu64 : "calls", what);
    tagc_svg_text(file, "note end", LEFT - 8, *y + 13, label);
    fprintf(file, "<rect class=\"lane\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>\n", LEFT, *y,
            picture->x.to - LEFT, BAR);
    draw_lane(picture, part, wire, what, *y);
    *y += LANE;
  }
  *y += APART;
}

static void draw_timeline_keys(const struct tagc_picture *picture) {
  static const char *const names[] = {"ReduceScatter", "AllGather", "AllReduce", "Broadcast", "Send", "GroupEnd"};
  static const char *const words[] = {"ReduceScatter", "AllGather", "AllReduce", "one to all", "Send, Recv", "other"};
  FILE *file = picture->page->file;
  bool seen[6] = {false}, compressed = false, stages = false, sums = false, hidden = false;
  for (size_t i = 0; i < picture->count; i++)
    for (size_t j = 0; j < picture->parts[i].window.count; j++) {
      const struct tagc_window_call *call = &picture->parts[i].window.calls[j];
      const char *class = tagc_page_class(tagc_sum_function(picture->page->summary, call->call.function));
      for (size_t k = 0; k < 6; k++)
        seen[k] |= strcmp(class, tagc_page_class(names[k])) == 0;
      compressed |= is_compressed(picture, &call->call);
      stages |= call->times.encode_ns > 0;
      sums |= call->times.sum_ns > 0;
      hidden |= tagc_times_hidden(&call->times) > 0;
    }
  double x = LEFT;
  for (size_t k = 0; k < 6; k++)
    if (seen[k])
      x = tagc_svg_key(file, tagc_page_class(names[k]), x, 18, words[k]);
  if (sums)
    x = tagc_svg_key(file, "sum", x, 18, "sum inside the host");
  if (stages) {
    x = tagc_svg_key(file, "encode", x, 18, "encode");
    x = tagc_svg_key(file, "decode", x, 18, hidden ? "decode (strips: while others travel)" : "decode");
  }
  if (compressed) {
    fprintf(file, "<rect class=\"mark\" x=\"%.1f\" y=\"15\" width=\"14\" height=\"2.5\"/>", x);
    tagc_svg_text(file, "key", x + 19, 18, "compressed");
  }
}

static void draw_picture(struct tagc_picture *picture, const char *id) {
  static const char *const ab[] = {"A step", "A plain step", "A compressed step"};
  struct tagc_page *page = picture->page;
  double height = TOP + (double)lanes_of(picture) * LANE + (double)picture->count * APART + 30, y = TOP;
  char title[120], description[300], ms[32];
  snprintf(title, sizeof title, "%s: number %zu, %s", ab[picture->step->side],
           tagc_step_number(page->summary, picture->step->lock, picture->step->cycle),
           tagc_page_ms(picture->step->ms, ms));
  snprintf(description, sizeof description,
           "Timeline of %zu ranks over %s: calls as bars, %zu on the first rank. The table has those.", picture->count,
           tagc_page_ms(picture->length_ms, ms), picture->parts[0].window.count);
  picture->least = fmax(1, (double)lanes_of(picture) * 2 * TAGC_PAGE_WIDTH / BARS);
  tagc_figure_begin(page, id, title, description, TAGC_PAGE_WIDTH, height);
  draw_timeline_keys(picture);
  for (size_t i = 0; i < picture->count; i++)
    draw_part(picture, &picture->parts[i], &y);
  fprintf(page->file, "<path class=\"base\" d=\"M%d %.1fH%.1f\"/>", LEFT, y, picture->x.to);
  tagc_axis_draw_below(page->file, &picture->x, y, "ms");
  tagc_figure_end(page);
}

static void put_call(const struct tagc_picture *picture, const struct tagc_drawn *part,
                     const struct tagc_window_call *call) {
  struct tagc_page *page = picture->page;
  const struct tagc_summary *summary = page->summary;
  bool timed = call->times.call != 0, packed = is_compressed(picture, &call->call);
  tagc_row_begin(page, tagc_sum_function(summary, call->call.function));
  tagc_cell_text(page, layer_of(picture, part, &call->call));
  tagc_cell_text(page, packed ? tagc_call_codec(drawn_slot(picture, part, &call->call), &call->call) : "");
  tagc_cell_number(page, call->call.raw_bytes);
  tagc_cell_number(page, call->call.inside + call->call.between);
  tagc_cell_real(page, tagc_ms((double)call->call.began_ns - (double)part->step->began_ns), 3);
  tagc_cell_real(page, tagc_ms((double)call->call.host_ns), 3);
  tagc_cell_real(page, timed ? tagc_ms((double)call->times.sum_ns) : NAN, 3);
  tagc_cell_real(page, timed ? tagc_ms((double)call->times.encode_ns) : NAN, 3);
  tagc_cell_real(page, timed ? tagc_ms((double)call->times.exchange_ns) : NAN, 3);
  tagc_cell_real(page, timed ? tagc_ms((double)call->times.decode_ns) : NAN, 3);
  tagc_cell_real(page, timed && !call->times.hidden_unknown ? tagc_ms((double)tagc_times_hidden(&call->times)) : NAN,
                 3);
  tagc_cell_text(page, tagc_sum_name(summary, TAGC_TRACE_REASONS, call->call.reason));
  tagc_row_end(page);
}

static void put_call_list(const struct tagc_picture *picture) {
  struct tagc_page *page = picture->page;
  const struct tagc_drawn *part = &picture->parts[0];
  char caption[160];
  size_t shown = part->window.count < ROWS ? part->window.count : ROWS;
  snprintf(caption, sizeof caption, "The calls of rank %d in this step%s: %zu of %zu",
           page->summary->ranks[part->rank].number, shown < part->window.count ? ", the first ones" : "", shown,
           part->window.count);
  tagc_table_begin(page, caption,
                   "Function|Layer|Codec|>Send buffer, bytes|>Sent, bytes|>Began, ms|>In the call, ms|"
                   ">Sum inside the host, ms|>Encode, ms|>Exchange, ms|>Decode, ms|>Hidden of both, ms|Reason",
                   true);
  for (size_t i = 0; i < shown; i++)
    put_call(picture, part, &part->window.calls[i]);
  tagc_table_end(page);
}

static void put_notes(const struct tagc_picture *picture) {
  FILE *file = picture->page->file;
  const struct tagc_summary *summary = picture->page->summary;
  size_t left_out = 0;
  for (size_t i = 0; i < picture->count; i++)
    left_out += picture->parts[i].window.left_out;
  if (picture->count < summary->rank_count)
    fprintf(file, "<p class=\"faint\">%zu of %zu ranks are drawn.</p>\n", picture->count, summary->rank_count);
  if (!picture->aligned)
    fputs("<p class=\"faint\">The clocks of the hosts differ by more than half a step: each rank begins at 0.</p>\n",
          file);
  if (left_out)
    fprintf(file,
            "<p class=\"faint\">%zu calls are not drawn: a step of so many is looked at better with "
            "<code>--perfetto</code>.</p>\n",
            left_out);
}

static bool draw_steps(struct tagc_page *page, const struct tagc_page_step *const chosen[2]) {
  struct tagc_picture pictures[2] = {{.page = page, .step = chosen[0]}, {.page = page, .step = chosen[1]}};
  bool read = true;
  double length = 0;
  for (int i = 0; i < 2 && read; i++)
    if (chosen[i]) {
      read = tagc_picture_read(&pictures[i]);
      length = fmax(length, pictures[i].length_ms);
    }
  for (int i = 0; i < 2 && read; i++) {
    if (!pictures[i].count)
      continue;
    pictures[i].x = tagc_axis_make(0, length, LEFT, TAGC_PAGE_WIDTH - RIGHT, 8);
    pictures[i].x.to = LEFT + (pictures[i].x.high - pictures[i].x.low) * (pictures[i].x.to - LEFT) / pictures[i].x.high;
    draw_picture(&pictures[i], i ? "fig-timeline-2" : "fig-timeline");
    put_call_list(&pictures[i]);
    if (!i)
      put_notes(&pictures[i]);
  }
  tagc_picture_free(&pictures[0]);
  tagc_picture_free(&pictures[1]);
  return read;
}

bool tagc_page_timeline(struct tagc_page *page) {
  const struct tagc_page_step *chosen[2] = {NULL, NULL};
  if (page->ab.figures.outcome != TAGC_AB_NONE) {
    chosen[0] = tagc_picture_choose(page, TAGC_SUM_PLAIN);
    chosen[1] = tagc_picture_choose(page, TAGC_SUM_COMPRESSED);
  }
  if (!chosen[0] && !chosen[1])
    chosen[0] = tagc_picture_choose(page, -1);
  bool done = true;
  tagc_page_section(page, "timeline", "One step", "");
  if (!chosen[0] && !chosen[1])
    tagc_page_nothing(
      page, "No whole step is in these traces.",
      "Let the program repeat its step a few times; <code>--perfetto</code> shows all calls as they are.");
  else {
    fputs("<p class=\"faint\">The whole step whose time is nearest to the median. A bar is a call, from its beginning "
          "until the program has its thread "
          "back; on lanes named wire it is what NCCL did on the stream, placed where that can have begun at the "
          "earliest. Point at a bar for more.</p>\n",
          page->file);
    done = draw_steps(page, chosen);
  }
  tagc_page_section_end(page);
  return done;
}
