/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_BUDGET on a communicator: later votes, the measurements before them, and failures in them.
 */
#include "tests/unit/vote/rank.h"

#include "interpose/budget/retune.h"

/* A cycle is a call. Cycle 2, of the first vote, is the fourth call. Cycle 34 has the second vote, 33 its sample. */
enum {
  CALL_OF_CYCLE_0 = VOTE - 2,
  LOOK = CALL_OF_CYCLE_0 + 33,
  AGAIN = LOOK + 1,
  THIRD = CALL_OF_CYCLE_0 + 98,
  Q2 = TAGC_CANDIDATES - 1
};

/* Words of the second gradient message: three of the communicator, then the slot's. */
enum { SEEN = 1, UNDISTURBED, BARRED, DENSITY, FINDINGS = 6, WORDS_OF_FINDING = 4 };

static struct tagc_options *options(void) { return (struct tagc_options *)(uintptr_t)tagc_library_options(); }

static void set_up_with(const char *budget) {
  char why[200];
  set_up_slow_wire(200);
  send_ns = 200; /* so that bytes count */
  options()->mode = TAGC_MODE_COMPRESS;
  options()->residual = TAGC_RESIDUAL_AUTO;
  if (!tagc_options_set(options(), "TAGC_BUDGET", budget, why, sizeof why))
    exit(1);
}

static const struct tagc_retune *retune(void) { return comm->ledger->retune; }
static const char *codec(void) { return slot()->reason == TAGC_REASON_compressed ? slot()->codec->name : "plain"; }
static bool has(const char *name) { return strcmp(codec(), name) == 0; }

static void again(void) {
  set_up_with("1us");
  bool good = calls(VOTE) == ncclSuccess && meetings == 3 && has("q2") && retune()->next == 34 && comm->vote.cycle == 2;
  ok(good, "no time at all: the fastest codec, q2");
  const void *workspace = comm->memory.workspace;
  good = calls(LOOK - VOTE - 1) == ncclSuccess && meetings == 3 && !slot()->sample.tried;
  ok(good, "until cycle 32 nobody asks or looks");
  int before = sends;
  ok(call() == ncclSuccess && slot()->sample.taken && meetings == 3 && sends == before + 1,
     "in cycle 33 the gradient is looked at, and compressed");
  before = allocations;
  const int sent_before = sends;
  good = call() == ncclSuccess;
  ok(good && meetings == 5 && has("q2") && comm->memory.workspace == workspace && allocations == before + 1 &&
       sends == sent_before + 2,
     "in cycle 34 two meetings with a greeting, no probe, no memory but for the words; and the call is compressed as "
     "before");
  ok(retune()->next == 98 && comm->vote.cycle == 2 && retune()->entry_count == 1 && retune()->entries[0].times == 2,
     "the next one comes twice as late");
  options()->budget.amount = TAGC_BUDGET_MOST_NS;
  ok(calls(THIRD - AGAIN) == ncclSuccess && meetings == 7 && has("plain") && !comm->memory.workspace &&
       slot()->reason == TAGC_REASON_budget && retune()->entry_count == 2,
     "all the time there is: plain, and the memory is given back");
  options()->budget.amount = 1000;
  ok(calls(128) == ncclSuccess && meetings == 9 && has("q2") && comm->memory.workspace,
     "none again, 128 cycles later: q2");
  tear_down();

  set_up_with("3600s");
  ok(calls(VOTE) == ncclSuccess && is_plain(TAGC_REASON_budget) && retune()->next == 34, "at first plain");
  options()->budget.amount = 1000;
  ok(calls(AGAIN - VOTE) == ncclSuccess && has("q2"), "a slot that was plain is looked at, too");
  tear_down();

  set_up_with("1%");
  ok(calls(VOTE) == ncclSuccess && has("q8"), "an error of 1%%: q8");
  options()->budget.amount = 150000;
  ok(calls(AGAIN - VOTE) == ncclSuccess && has("q4") && slot()->memory.codec == slot()->codec, "of 15%%: q4");
  tear_down();
}

static int64_t bits(double x) {
  int64_t word;
  memcpy(&word, &x, sizeof word);
  return -word;
}

/* ---- the other rank ---------------------------------------------------------------------------------------------- */

static void has_noise(int meeting, int64_t *words) {
  if (meeting == 3)
    words[FINDINGS + WORDS_OF_FINDING * Q2] = bits(0.9);
}

static void has_nan(int meeting, int64_t *words) {
  if (meeting == 3) {
    words[UNDISTURBED] = 0;
    for (int c = 0; c < TAGC_CANDIDATES; c++)
      words[FINDINGS + WORDS_OF_FINDING * c] = bits(__builtin_inf());
  }
}

static void has_not_looked(int meeting, int64_t *words) {
  if (meeting == 3)
    words[SEEN] = words[UNDISTURBED] = 0;
}

static void chooses_another(int meeting, int64_t *words) {
  if (meeting == 4)
    words[4]--;
}

static void lacks_memory(int meeting, int64_t *words) {
  if (meeting == 4)
    words[0] = 0;
}

static void others(void) {
  static const struct {
    void (*says)(int meeting, int64_t *words);
    const char *codec, *what;
    uint64_t next;
    int meetings;
  } table[] = {
    {has_noise, "q3", "finds noise near its gradient: the next better codec, and another choice soon", 66, 5},
    {has_nan, "q2", "has met NaN in the look: the last one counts", 98, 5},
    {has_not_looked, "q2", "could not look: the last one counts", 98, 5},
    {chooses_another, "plain", "chooses another codec, which it cannot: plain", 98, 5},
    {lacks_memory, "plain", "lacks memory for the second choice: plain", 98, 5},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    set_up_with("1us");
    other_rank = table[i].says;
    bool good = calls(AGAIN) == ncclSuccess && meetings == table[i].meetings && has(table[i].codec) &&
                retune()->next == table[i].next;
    good &= !strcmp(table[i].codec, "plain") == (comm->memory.workspace == NULL) && !slot()->state.dirty;
    ok(good, "the other rank %s", table[i].what);
    const bool plain = strcmp(table[i].codec, "plain") == 0;
    const double *ns = retune()->options[0].ns, expected = ns[plain ? 0 : retune()->options[0].option];
    ok(retune()->outcome.ns - expected < 1 && expected - retune()->outcome.ns < 1 &&
         plain == (retune()->outcome.error == 0),
       "what is told is of the calls as they are now: %.0f ns, error %g", retune()->outcome.ns,
       retune()->outcome.error);
    ok(calls(3) == ncclSuccess && meetings == table[i].meetings, "and calls go on");
    ok(!plain || retune()->outcome.changed == 1, "and of what has changed: %u slots", retune()->outcome.changed);
    double ratios[2];
    tagc_retune_measure(retune(), ratios);
    ok((ratios[0] > 0) == plain && (ratios[1] > 0) == !plain, "their times count as those of %s calls",
       plain ? "plain" : "compressed");
    ok(!plain || (calls(THIRD - AGAIN - 3) == ncclSuccess && has("q2")), "until the next choice");
    tear_down();
  }
}

/* Its buffers have moved into a symmetric window, which all ranks count with, although its gradient does not count. */
static void has_moved(int meeting, int64_t *words) {
  has_nan(meeting, words);
  if (meeting == 3)
    words[TAGC_MESSAGE_SAMPLE] = 0;
}

static void moved(void) {
  set_up_with("1us");
  other_rank = has_moved;
  ok(calls(AGAIN) == ncclSuccess && meetings == 5 && slot()->sample.symmetric,
     "the other rank has met NaN in the look, and lies in a window now: all ranks count with that");
  other_rank = NULL;
  ok(calls(THIRD - AGAIN) == ncclSuccess && meetings == 7 && !slot()->sample.symmetric, "until it lies in none");
  tear_down();
}

/* ---- residuals --------------------------------------------------------------------------------------------------- */

static void residuals(void) {
  set_up_with("1us");
  options()->residual = TAGC_RESIDUAL_FP32;
  bool good = calls(LOOK - 1) == ncclSuccess && has("q2") && slot()->memory.residual && slot()->state.dirty;
  const void *residual = slot()->memory.residual;
  int before = plains;
  const struct tagc_ledger_times were = comm->ledger->times, *are = &comm->ledger->times;
  ok(good && call() == ncclSuccess && plains == before + 1 && plain_from == comm->memory.workspace &&
       !slot()->state.dirty && slot()->sample.taken,
     "in cycle 33 a slot with a residual sends it, with its gradient, which was looked at");
  ok(are->flushes == were.flushes + 1 && are->flush_ms > were.flush_ms && are->calls == were.calls &&
       are->encode_ms <= were.encode_ms && are->exchange_ms <= were.exchange_ms,
     "whose time is not among those of compressed calls");
  ok(call() == ncclSuccess && has("q2") && slot()->memory.residual == residual && slot()->state.dirty,
     "with the same codec the residual's memory stays");
  options()->budget = (struct tagc_budget){TAGC_BUDGET_ERROR, 10000};
  good = calls(THIRD - AGAIN) == ncclSuccess && has("q8") && slot()->memory.residual && slot()->state.dirty;
  ok(good && tagc_ledger_row(comm->ledger, 0)->residuals_dropped == 0, "with another one nothing is lost either");
  options()->budget = (struct tagc_budget){TAGC_BUDGET_TIME, TAGC_BUDGET_MOST_NS};
  good = calls(128) == ncclSuccess && has("plain") && !slot()->memory.residual && !slot()->state.dirty;
  ok(good && tagc_ledger_row(comm->ledger, 0)->residuals_dropped == 0 && call() == ncclSuccess,
     "plain: it is given back, empty");
  tear_down();

  set_up_with("1us"); /* its call in cycle 33 did not belong to the slot */
  options()->residual = TAGC_RESIDUAL_FP32;
  good = calls(LOOK) == ncclSuccess && !slot()->state.dirty;
  comm->slots[0].state.dirty = true;
  comm->slots[0].state.residual_empty = false;
  options()->budget = (struct tagc_budget){TAGC_BUDGET_TIME, TAGC_BUDGET_MOST_NS};
  ok(good && call() == ncclSuccess && has("plain") && tagc_ledger_row(comm->ledger, 0)->residuals_dropped == 1 &&
       call() == ncclSuccess,
     "what a slot could not send before a vote that makes it plain is counted");
  tear_down();

  set_up_with("1us");
  options()->residual = TAGC_RESIDUAL_FP32;
  other_rank = chooses_another;
  good = calls(LOOK) == ncclSuccess;
  comm->slots[0].state.dirty = true;
  comm->slots[0].state.residual_empty = false;
  ok(good && call() == ncclSuccess && has("plain") && !slot()->state.dirty &&
       tagc_ledger_row(comm->ledger, 0)->residuals_dropped == 1 && call() == ncclSuccess,
     "the same where the ranks do not agree");
  tear_down();
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

static void windows(void) {
  int wrong = 0, compressed = 0;
  set_up_with("1us");
  options()->mode = TAGC_MODE_AB;
  options()->ab = 5;
  bool good = calls(VOTE) == ncclSuccess;
  for (int cycle = 3; cycle <= 110; cycle++) {
    const int before = sends;
    good &= call() == ncclSuccess;
    const int greetings = cycle == 34 || cycle == 98;
    wrong += (sends > before + greetings) != ((cycle - 2) / 5 % 2 == 1);
    compressed += sends > before + greetings;
  }
  ok(good && wrong == 0 && compressed > 40 && comm->vote.cycle == 2 && comm->vote.count == 3,
     "TAGC_MODE=ab: windows are counted from the first vote, whatever comes later");
  tear_down();
}

/* ---- a gradient that gets denser --------------------------------------------------------------------------------- */

static struct tagc_codec filled;
static void (*real_decode)(struct tagc_job *job);

static void decode(struct tagc_job *job) {
  real_decode(job);
  job->surplus_seen = true;
}

static void denser(void) {
  float *usual = sent, *rows = calloc((size_t)N * RANKS, sizeof *rows);
  for (int i = 0; i < N * RANKS; i++)
    rows[i] = i % 1000 < 10 ? usual[i] : 0;
  sent = rows;
  set_up_with("1us");
  bool good = calls(VOTE) == ncclSuccess && slot()->reason == TAGC_REASON_compressed && slot()->codec->needs_residual;
  filled = *slot()->codec;
  real_decode = filled.decode;
  filled.decode = decode;
  comm->slots[0].codec = &filled;
  good &= calls(7) == ncclSuccess && slot()->reason == TAGC_REASON_compressed && retune()->next == 34;
  sent = usual;
  ok(good && call() == ncclSuccess && slot()->reason == TAGC_REASON_denser &&
       retune()->next == comm->observed.cycle_number + 2,
     "a gradient that got denser: the next choice comes as soon as it can");
  ok(call() == ncclSuccess && !slot()->state.dirty && slot()->sample.taken && slot()->reason == TAGC_REASON_denser,
     "what was left is sent, and it is looked at");
  ok(call() == ncclSuccess && has("q2") && comm->vote.count == 2, "then it has a codec again");
  ok(retune()->next == comm->observed.cycle_number + 32, "and another choice soon");
  tear_down();
  free(rows);
}

/* ---- what goes wrong --------------------------------------------------------------------------------------------- */

/* The second vote chooses another codec, with a new residual, or without one a new workspace. */
static void begin_change(int residual) {
  set_up_with("1us");
  options()->residual = residual;
  if (calls(LOOK) != ncclSuccess || !has("q2"))
    exit(1);
  options()->budget = (struct tagc_budget){TAGC_BUDGET_ERROR, 10000};
}

static void memory(int residual) {
  bool good = true, failed = true;
  int n = 0, plain = 0;
  for (; failed; n++) {
    begin_change(residual);
    fail_allocation = allocations + n + 1;
    const ncclResult_t status = call();
    failed = allocations >= fail_allocation;
    plain += has("plain");
    good &= status == ncclSuccess ? has(failed ? "plain" : "q8") : status == ncclSystemError;
    good &=
      !has("plain") || (!comm->memory.workspace && !slot()->memory.residual && !slot()->state.dirty && comm->vote.held);
    good &=
      call() == ncclSuccess && retune()->next >= 98 && call() == ncclSuccess && (status == ncclSuccess || has("q8"));
    tear_down();
  }
  ok(good && n == 3 && plain == 1,
     "each of %d allocations of the second vote fails: plain, or the call fails and the next one votes again", n - 1);
}

static void failures(void) {
  begin_change(TAGC_RESIDUAL_FP32);
  int before = ends;
  bool good = call() == ncclSuccess && has("q8");
  const int groups = ends - before;
  tear_down();
  for (int at = 1; at < groups; at++) { /* the last one is that of the call itself */
    begin_change(TAGC_RESIDUAL_FP32);
    fail_at = ends + at;
    good &= call() == ncclSystemError && retune()->next == 34;
    good &= call() == ncclSuccess && has("q8") && slot()->state.dirty && retune()->next >= 98;
    tear_down();
  }
  ok(good && groups >= 3,
     "each of the %d groups of the second vote fails once: the call does, and the next one votes again", groups - 1);
  good = true;
  for (int at = 1; at < groups; at++) {
    begin_change(TAGC_RESIDUAL_FP32);
    aborted = false;
    fail_at = ends + at;
    at_end = abort_inside;
    before = ends;
    good &= call() == ncclInternalError && aborted && ends == before + at;
    tear_down();
  }
  ok(good, "an abort in each of them does not wait, and ends the call");
}

int main(void) {
  begin_votes();
  again();
  others();
  moved();
  residuals();
  windows();
  denser();
  memory(TAGC_RESIDUAL_FP32);
  memory(TAGC_RESIDUAL_AUTO);
  failures();
  return end_votes();
}
