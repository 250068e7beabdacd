/* SPDX-License-Identifier: BSD-3-Clause
 * The timing requests to a device for a call, in one part or two and in pieces, and the use of the reported times. The
 * device is the host's, with a tally that records requests and reports given times.
 */
#include "interpose/stats/exit_report.h"
#include "tests/unit/vote/rank.h"

enum { MOST = 64 };

/* ---- the device -------------------------------------------------------------------------------------------------- */

static enum tagc_mark marks[MOST];
static int mark_count;
static unsigned functions; /* the limit announced to the side stream; only valid after the first mark */
static int submitted[TAGC_SIDE_WORKS], waited;
static const struct tagc_tally_times *told; /* the next read's result; NULL: none */
static struct tagc_codec_stats counted;     /* with it */

static void *make(const struct tagc_device *self, void *stream) {
  static int tally;
  (void)self, (void)stream;
  return &tally;
}

static bool mark(const struct tagc_device *self, void *tally, enum tagc_mark mark, uint64_t number, void *stream) {
  (void)self, (void)tally, (void)number, (void)stream;
  if (mark_count < MOST)
    marks[mark_count++] = mark;
  return true;
}

static void watch(const struct tagc_device *self, void *tally, void *side_stream, unsigned most) {
  (void)self, (void)tally, (void)side_stream;
  functions += mark_count == 1 ? most : 1000;
}

static bool read_tally(const struct tagc_device *self, void *tally, struct tagc_tally_times *times,
                       struct tagc_codec_stats *stats) {
  (void)self, (void)tally;
  if (!told)
    return false;
  *times = *told;
  stats->dropped += counted.dropped;
  stats->residual_norm2 = counted.residual_norm2;
  told = NULL;
  return true;
}

static uint64_t submit(const struct tagc_device *self, void *side_stream, enum tagc_side_work work,
                       tagc_side_function *function, void *argument) {
  submitted[work]++;
  return tagc_device_host.side_stream_submit(self, side_stream, work, function, argument);
}

static bool wait_for(const struct tagc_device *self, void *side_stream, uint64_t event, void *stream) {
  waited += mark_count > 0 && marks[mark_count - 1] != TAGC_MARK_DECODED;
  return tagc_device_host.side_stream_wait(self, side_stream, event, stream);
}

/* ---- the communicator -------------------------------------------------------------------------------------------- */

static ncclResult_t all_gather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t on,
                               cudaStream_t stream) {
  const size_t bytes = count * (type == ncclUint8 ? 1 : 4);
  (void)on, (void)stream;
  memmove(to, from, bytes);
  memmove((char *)to + bytes, to, bytes);
  return ncclSuccess;
}

static void set_up_device(void) {
  set_up();
  plain_ns = 0;
  nccl.functions[TAGC_ENTRY_ncclAllGather] = (void *)all_gather;
  device.host_reads = false;
  device.tally_make = make;
  device.tally_mark = mark;
  device.tally_side_stream = watch;
  device.tally_read = read_tally;
  device.side_stream_submit = submit;
  device.side_stream_wait = wait_for;
}

static ncclResult_t all_reduce_once(void) {
  struct tagc_call c = {.entry = TAGC_ENTRY_ncclAllReduce,
                        .send = sent,
                        .recv = received,
                        .count = N * RANKS,
                        .type = ncclFloat32,
                        .op = ncclSum,
                        .handle = handles[0],
                        .comm = comm,
                        .nccl = &nccl,
                        .scale = 1};
  const ncclResult_t status = tagc_call_observe(&c);
  return status == ncclSuccess ? tagc_launch_run(&c, 1, NULL, NULL) : status;
}

/* Records only this call's marks. */
static bool once(ncclResult_t (*make_call)(void)) {
  mark_count = waited = submitted[0] = submitted[1] = 0;
  functions = 0;
  return make_call() == ncclSuccess;
}

static bool marked(const enum tagc_mark *wanted, int count) {
  bool good = mark_count == count;
  for (int i = 0; i < count && good; i++)
    good = marks[i] == wanted[i];
  for (int i = 0; i < mark_count && !good; i++)
    printf("# mark %d: %d\n", i, marks[i]);
  return good;
}

static bool near(double a, double b) { return a - b < 1e-9 && b - a < 1e-9; }

static bool told_so_far(uint64_t calls_, double encode, double exchange, double decode, double hidden_) {
  const struct tagc_ledger_times *t = &comm->ledger->times;
  const bool good = t->calls == calls_ && near(t->encode_ms, encode) && near(t->exchange_ms, exchange) &&
                    near(t->decode_ms, decode) && near(t->hidden_ms, hidden_);
  if (!good)
    printf("# %d calls: encode %g, exchange %g, decode %g, hidden %g\n", (int)t->calls, t->encode_ms, t->exchange_ms,
           t->decode_ms, t->hidden_ms);
  return good;
}

static void scatters(void) {
  static const enum tagc_mark wanted[] = {TAGC_MARK_BEGUN, TAGC_MARK_ENCODED, TAGC_MARK_EXCHANGED, TAGC_MARK_DECODED};
  set_up_device();
  bool good =
    calls(VOTE) == ncclSuccess && slot()->reason == TAGC_REASON_compressed && slot()->chunking.chunks.count > 2;
  ok(good && once(call) && marked(wanted, 4), "a reduce-scatter: its marks");
  const unsigned pieces = (unsigned)slot()->chunking.chunks.count;
  ok(functions == 2 * pieces - 1 && submitted[TAGC_SIDE_ENCODE] == (int)pieces - 1 &&
       submitted[TAGC_SIDE_DECODE] == (int)pieces && waited == (int)functions,
     "all that its side_stream does is timed, and nothing else");
  tear_down();
}

static void reduces(void) {
  static const enum tagc_mark wanted[] = {TAGC_MARK_BEGUN,  TAGC_MARK_ENCODED,      TAGC_MARK_EXCHANGED,
                                          TAGC_MARK_HALF,   TAGC_MARK_SUMS_ENCODED, TAGC_MARK_SUMS_EXCHANGED,
                                          TAGC_MARK_DECODED};
  static const struct tagc_tally_times
    in_pieces = {.ms = {0, 2, 20, 0.5, 1, 10, 2.5}, .worked_ms = {6, 5}, .waited_ms = {1, 2}, .side_known = true},
    waits = {.ms = {4, 1, 8, 0, 0, 0, 3}, .worked_ms = {2, 3}, .waited_ms = {4, 2}, .side_known = true},
    whole = {.ms = {0, 2, 7, 3, 1, 1, 1}, .side_known = true},
    unknown = {.ms = {0, 2, 20, 0.5, 1, 10, 2.5}, .worked_ms = {6, 5}, .waited_ms = {1, 2}};
  set_up_device();
  ncclResult_t status = ncclSuccess;
  for (int i = 0; i < VOTE && status == ncclSuccess; i++)
    status = all_reduce_once();
  bool good = status == ncclSuccess && comm->slot_count == 1 && slot()->reason == TAGC_REASON_compressed &&
              slot()->allgather_phase.codec;
  ok(good && once(all_reduce_once) && marked(wanted, 7), "an all-reduce: the marks of both halves, and one end");
  const unsigned pieces =
    (unsigned)slot()->chunking.chunks.count + (unsigned)slot()->allgather_phase_chunking.chunks.count;
  ok(pieces > 4 && functions == 2 * pieces - 2 && waited == (int)functions,
     "all that its side_stream does is timed, for both");
  told = &in_pieces;
  ok(once(all_reduce_once) && told_so_far(1, 9, 29, 6, 8),
     "of both: all work, what the stream did not wait for of it, exchanges without their waits");
  told = &waits;
  ok(once(all_reduce_once) && told_so_far(2, 9 + 3, 29 + 4 + 5, 6 + 4, 8),
     "where more was waited than worked nothing was hidden");
  told = &whole;
  ok(once(all_reduce_once) && told_so_far(3, 12 + 3, 38 + 8, 10 + 4, 8), "in one piece: what lies between the marks");
  told = &unknown;
  ok(once(all_reduce_once) && told_so_far(3, 15, 46, 14, 8),
     "a call of which the side_stream's times are lost is not taken for one that hid nothing");
  tear_down();
}

/* What a device tells of the calls of a lock that is over. */
static void former(void) {
  static const struct tagc_tally_times times = {.ms = {0, 1, 1, 0, 0, 0, 1}, .side_known = true};
  int tally;
  set_up_device();
  told = &times;
  counted = (struct tagc_codec_stats){.dropped = 2, .residual_norm2 = 9};
  const bool read = tagc_comm_read_tally(comm, &tally, -1);
  const struct tagc_ledger_row total = tagc_report_total(comm->ledger);
  ok(read && total.stats.residual_norm2 == 0 && total.residuals_dropped == 2,
     "of a former lock: its residual is in no sum any more, what was dropped is: %g, %d", total.stats.residual_norm2,
     (int)total.residuals_dropped);
  tear_down();
}

int main(void) {
  setenv("TAGC_CODEC", "q8", 1);
  setenv("TAGC_DEPTH", "4", 1);
  begin_votes();
  free(received);
  received = malloc(sizeof(float) * N * RANKS);
  scatters();
  reduces();
  former();
  return end_votes();
}
