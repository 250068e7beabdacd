/* SPDX-License-Identifier: BSD-3-Clause
 * interpose/vote with TAGC_CODEC=auto: the outcome for different wires, with another answer of the other rank, and when
 * the real library fails or loses the communicator during the vote.
 */
#include "tests/unit/vote/rank.h"

/* ---- wires ------------------------------------------------------------------------------------------------------- */

static void wires(void) {
  set_up();
  ok(calls(VOTE - 1) == ncclSuccess && slot()->sample.taken && sampled()->density > 0.9 && meetings == 0,
     "before the vote the gradient is looked at, and nobody is asked");
  bool good =
    call() == ncclSuccess && meetings == 3 && slot()->reason == TAGC_REASON_compressed && !comm->vote.all_to_all;
  ok(good, "plain calls are slow: %s", slot()->codec ? slot()->codec->name : "plain");
  ok(sends > 0 && !unmet, "all ranks begin what is measured behind a plain call of next to nothing");
  int before = sends;
  ok(call() == ncclSuccess && sends == before + 1 && meetings == 3,
     "the next call is compressed, and nobody asks again");
  tear_down();

  set_up();
  plain_ns = 0;
  send_ns = 1000;
  ok(calls(VOTE) == ncclSuccess && meetings == 3 && is_plain(TAGC_REASON_no_faster),
     "messages are slow: all stays plain");
  tear_down();

  set_up();
  nccl.functions[TAGC_ENTRY_ncclAlltoAll] = (void *)&all_to_all;
  all_to_all_ns = 100;
  ok(calls(VOTE) == ncclSuccess && slot()->reason == TAGC_REASON_compressed && !comm->vote.all_to_all &&
       all_to_alls > 0,
     "a slow ncclAlltoAll is tried, and not used");
  tear_down();

  set_up();
  nccl.functions[TAGC_ENTRY_ncclAlltoAll] = (void *)&all_to_all;
  send_ns = 100;
  plain_ns = 300;
  ok(calls(VOTE) == ncclSuccess && slot()->reason == TAGC_REASON_compressed && comm->vote.all_to_all,
     "a fast one is used");
  before = sends;
  int before_all = all_to_alls;
  ok(call() == ncclSuccess && sends == before && all_to_alls == before_all + 1, "once a call");
  tear_down();
}

/* ---- the other rank ---------------------------------------------------------------------------------------------- */

static void lacks_memory(int meeting, int64_t *words) {
  if (meeting == 0)
    words[0] = 0;
}

static void has_not_seen(int meeting, int64_t *words) {
  (void)meeting;
  words[1] = words[2] = 0;
}

static void has_captured(int meeting, int64_t *words) {
  if (meeting == 0)
    words[1] = words[2] = 0, words[3] = -TAGC_REASON_capture;
}

static void would_be_slow(int meeting, int64_t *words) {
  static const double hour = 3.6e12;
  int64_t bits;
  memcpy(&bits, &hour, sizeof bits);
  for (int i = 2; meeting == 1 && i < 6; i++)
    words[i] = -bits;
}

static void chooses_another(int meeting, int64_t *words) {
  if (meeting == 2)
    words[5]--;
}

/* Its driver has refused the kernels. */
static void has_no_kernels(int meeting, int64_t *words) {
  if (meeting == 2)
    words[0] = 0, words[3] = -TAGC_REASON_device;
}

static void others(void) {
  static const struct {
    void (*says)(int, int64_t *);
    enum tagc_reason reason;
    int meetings, calls;
    const char *what;
  } table[] = {
    {lacks_memory, TAGC_REASON_vote, 1, VOTE, "has no memory to probe the wire"},
    {has_not_seen, TAGC_REASON_unseen, 4, LAST_VOTE, "never sees the gradient"},
    {has_captured, TAGC_REASON_capture, 1, VOTE, "has captured a call of it"},
    {would_be_slow, TAGC_REASON_no_faster, 3, VOTE, "sends more slowly"},
    {has_no_kernels, TAGC_REASON_device, 3, VOTE, "cannot do it on its device, and says so"},
    {chooses_another, TAGC_REASON_vote, 3, VOTE, "chooses another codec, which it cannot"},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    set_up();
    nccl.functions[TAGC_ENTRY_ncclAlltoAll] = (void *)&all_to_all;
    other_rank = table[i].says;
    int before = plains;
    bool good =
      calls(table[i].calls) == ncclSuccess && meetings == table[i].meetings && slot()->reason == table[i].reason;
    ok(good && comm->vote.held, "the other rank %s: all stays plain, after %d meetings", table[i].what, meetings);
    if (table[i].meetings < 3)
      ok(plains == before + table[i].calls && sends == 0 && all_to_alls == 0, "and what cannot help is not probed");
    before = plains;
    ok(call() == ncclSuccess && plains == before + 1 && meetings == table[i].meetings,
       "the next call is plain, and nobody asks again");
    tear_down();
  }
}

/* ---- symmetric windows ------------------------------------------------------------------------------------------- */

/* The last word of its sample says so. */
static void lies_in_a_window(int meeting, int64_t *words) {
  if (meeting == 0)
    words[TAGC_MESSAGE_SAMPLE] = 0;
}

static bool is_symmetric_after_vote(void) {
  return calls(VOTE) == ncclSuccess && comm->vote.held && slot()->sample.symmetric;
}

static void windows(void) {
  set_up();
  ok(!is_symmetric_after_vote(), "buffers in no window");
  tear_down();
  set_up();
  other_rank = lies_in_a_window;
  ok(is_symmetric_after_vote(), "in a symmetric window of the other rank: all ranks count with it");
  tear_down();
  set_up();
  tagc_ranges_add(comm->handle, sent, sizeof(float) * N * RANKS, sent);
  ok(!is_symmetric_after_vote(), "in registered memory of this rank");
  tear_down();
  set_up();
  tagc_ranges_add(comm->handle, sent, sizeof(float) * N * RANKS, sent);
  tagc_ranges_are_symmetric(comm->handle, sent);
  ok(is_symmetric_after_vote(), "in a symmetric window of this rank");
  tagc_ranges_forget(comm->handle);
  tear_down();
}

/* ---- steps that are not like the others -------------------------------------------------------------------------- */

/* The other rank met NaN at first, and no codec does well then. */
static void met_nan(int meeting, int64_t *words) {
  static const double nothing = __builtin_inf();
  int64_t bits;
  memcpy(&bits, &nothing, sizeof bits);
  if (meeting > 0)
    return;
  words[2] = 0;
  for (int i = 6; i < 6 + 3 * TAGC_CANDIDATES; i++)
    words[i] = -bits;
}

static void is_dense(int meeting, int64_t *words) {
  static const double one = 1;
  int64_t bits;
  memcpy(&bits, &one, sizeof bits);
  if (meeting == 0)
    words[4] = -bits;
}

static bool is_put_off(uint64_t cycle) { return !comm->vote.held && meetings == 1 && comm->vote.cycle == cycle; }

static void odd_steps(void) {
  float *usual = sent, *odd = malloc(sizeof(float) * N * RANKS);
  memcpy(odd, usual, sizeof(float) * N * RANKS);
  odd[3] = odd[N + 3] = __builtin_nanf("");
  set_up();
  bool good = calls(VOTE - 2) == ncclSuccess;
  sent = odd;
  good &= call() == ncclSuccess;
  sent = usual;
  ok(good && call() == ncclSuccess && is_put_off(4), "NaN in the gradient that was looked at: the vote is put off");
  ok(call() == ncclSuccess && meetings == 1 && call() == ncclSuccess && meetings == 4 &&
       slot()->reason == TAGC_REASON_compressed && !sampled()->exceptions,
     "and held after another look");
  tear_down();

  set_up();
  sent = odd;
  good = calls(LAST_VOTE - 1) == ncclSuccess && !comm->vote.held && meetings == 3;
  ok(good && call() == ncclSuccess && meetings == 6 && slot()->reason == TAGC_REASON_compressed,
     "NaN in every gradient: at last it counts for what it is");
  sent = usual;
  tear_down();

  set_up();
  other_rank = met_nan;
  ok(calls(VOTE) == ncclSuccess && is_put_off(4) && calls(2) == ncclSuccess && slot()->reason == TAGC_REASON_compressed,
     "NaN on the other rank: what it said then is forgotten");
  tear_down();

  memset(odd, 0, sizeof(float) * N * RANKS);
  sent = odd;
  set_up();
  other_rank = is_dense;
  ok(calls(VOTE) == ncclSuccess && meetings == 3 && slot()->reason == TAGC_REASON_compressed,
     "nothing but zeros on this rank alone: what the other one has seen counts");
  tear_down();

  set_up();
  ok(calls(LAST_VOTE) == ncclSuccess && meetings == 4 && is_plain(TAGC_REASON_unseen),
     "on all ranks in all looks: plain for good");
  sent = usual;
  tear_down();
  free(odd);
}

/* ---- gradients that get denser ----------------------------------------------------------------------------------- */

static struct tagc_codec filled;
static void (*real_decode)(struct tagc_job *job);
static bool surplus;

static void decode(struct tagc_job *job) {
  real_decode(job);
  job->surplus_seen = surplus;
}

static void denser(void) {
  float *usual = sent, *rows = calloc((size_t)N * RANKS, sizeof *rows);
  for (int i = 0; i < N * RANKS; i++)
    rows[i] = i % 1000 < 10 ? usual[i] : 0;
  sent = rows;
  set_up();
  send_ns = 200;
  bool good = calls(VOTE) == ncclSuccess && slot()->reason == TAGC_REASON_compressed && slot()->codec->needs_residual;
  filled = *slot()->codec;
  real_decode = filled.decode;
  filled.decode = decode;
  comm->slots[0].codec = &filled;
  surplus = true;
  good &= calls(7) == ncclSuccess;
  surplus = false;
  good &= call() == ncclSuccess;
  surplus = true;
  int before = plains;
  good &= calls(7) == ncclSuccess && slot()->reason == TAGC_REASON_compressed;
  ok(good && plains == before && slot()->state.dirty,
     "seven calls in a row with more values than room: still compressed");
  ok(call() == ncclSuccess && slot()->reason == TAGC_REASON_denser && plains == before, "the eighth is the last one");
  ok(call() == ncclSuccess && plains == before + 1 && plain_from == comm->memory.workspace && !slot()->state.dirty,
     "then goes what was left of them, with the gradient");
  ok(call() == ncclSuccess && plains == before + 2 && plain_from == sent && slot()->reason == TAGC_REASON_denser,
     "and from there on calls are plain");
  tear_down();
  sent = usual;
  free(rows);
}

/* ---- slots of which a part is selected --------------------------------------------------------------------------- */

static void selects_others(int meeting, int64_t *words) {
  if (meeting == 2)
    words[6]--;
}

static bool copy_late(const struct tagc_device *self, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                      size_t width, size_t rows, void *stream) {
  take(20e6);
  return tagc_device_host.copy(self, to, to_pitch, from, from_pitch, width, rows, stream);
}

/* TAGC_SKIP leaves out a fifth of each shard, at its beginning. */
static const struct tagc_parameter parameters[] = {
  {.name = "norm.weight", .kinds = TAGC_KIND_NORM, .rows = N / 5, .columns = RANKS},
  {.name = "mlp.weight", .kinds = TAGC_KIND_MLP, .rows = N / 5 * 4, .columns = RANKS}};
static const struct tagc_member members[] = {{&parameters[0], 0, "block"}, {&parameters[1], 0, "block"}};
static struct tagc_layer layer = {
  .name = "block.0", .members = members, .count = 2, .layout = TAGC_LAYOUT_ZERO3, .element_bytes = 4};
static struct tagc_layers known = {.layers = &layer, .count = 1, .confidence = 100};

static void parts(void) {
  const float usual = sent[N + 7];
  layers = &known;
  set_up_slow_wire(1000);
  sent[N + 7] = __builtin_nanf("");
  ok(calls(VOTE) == ncclSuccess && meetings == 3 && slot()->reason == TAGC_REASON_compressed &&
       slot()->selected.parts && slot()->packed.n == N / 5 * 4 && sampled()->copy_ns > 0,
     "a part of the slot is selected, and looked at: NaN elsewhere is not seen");
  const int before = plains;
  sent[N + 7] = usual;
  ok(call() == ncclSuccess && plains == before + 1 && plain_from != sent,
     "the rest goes by a reduce-scatter of its own");
  tear_down();

  set_up();
  other_rank = selects_others;
  ok(calls(VOTE) == ncclSuccess && is_plain(TAGC_REASON_layers), "the other rank selects something else: plain");
  tear_down();

  for (int i = 0; i < 4; i++) {
    const bool sure = i % 2;
    known.source = i / 2 ? TAGC_LAYER_MAP : TAGC_LAYER_ARITHMETIC;
    known.confidence = (i / 2 ? TAGC_LAYERS_AMBIGUOUS : TAGC_LAYERS_SELECT) - !sure;
    set_up_slow_wire(1000);
    ok(calls(VOTE) == ncclSuccess &&
         (sure ? slot()->reason == TAGC_REASON_compressed : is_plain(TAGC_REASON_unselected)),
       "%s tell with a confidence of %u%% what lies where: %s", i / 2 ? "sizes and a map" : "sizes", known.confidence,
       sure ? "compressed" : "plain");
    tear_down();
  }

  set_up();
  device.copy = copy_late;
  ok(calls(VOTE) == ncclSuccess && is_plain(TAGC_REASON_no_faster), "copies that take long: plain");
  tear_down();

  layer.element_bytes = 4;
  layer.layout = TAGC_LAYOUT_MEGATRON; /* its shards are longer */
  set_up();
  ok(calls(VOTE) == ncclSuccess && is_plain(TAGC_REASON_unselected) && !slot()->selected.parts,
     "members that do not fill the buffer: plain");
  tear_down();

  layer.layout = TAGC_LAYOUT_ZERO3;
  layer.members = members + 1;
  layer.count = 1;
  set_up_slow_wire(1000);
  ok(calls(VOTE) == ncclSuccess && slot()->reason == TAGC_REASON_compressed && !slot()->selected.parts &&
       slot()->packed.n == N,
     "all that is in it is selected: as a whole");
  tear_down();

  layer.members = members;
  set_up();
  ok(calls(VOTE) == ncclSuccess && is_plain(TAGC_REASON_unselected), "nothing is: plain");
  tear_down();
  layer.count = 2;
}

/* ---- what goes wrong here ---------------------------------------------------------------------------------------- */

static void memory(void) {
  int n = 0;
  for (bool failed = true; failed; n++) {
    set_up_slow_wire(300);
    fail_allocation = n + 1;
    ncclResult_t status = calls(VOTE + 1);
    failed = allocations >= fail_allocation;
    if (failed && status == ncclSystemError)
      ok(!comm->vote.held, "allocation %d fails: the call does, for others are waiting", n + 1);
    else if (failed && status == ncclSuccess && !comm->vote.held)
      ok(calls(1) == ncclSuccess && slot()->reason == TAGC_REASON_compressed,
         "allocation %d fails: the look is taken again", n + 1);
    else
      ok(status == ncclSuccess && comm->vote.held && (slot()->reason == TAGC_REASON_compressed) == !failed,
         "allocation %d %s: %s", n + 1, failed ? "fails" : "is never made", tagc_reason_words(slot()->reason));
    tear_down();
  }
  ok(n >= 6, "sample, codecs, words, scratch and workspace have failed");
}

/* ---- calls that no codec can do with, here alone ----------------------------------------------------------------- */

static bool reaches_nothing(const struct tagc_device *self, const void *buffer) {
  (void)self, (void)buffer;
  return false;
}

static void *get_tally(const struct tagc_device *self, void *stream) {
  (void)self, (void)stream;
  return &device;
}

static bool cheap(const struct tagc_device *self, const struct tagc_codec *codec, const struct tagc_shape *shape,
                  struct tagc_gpu_cost *out) {
  (void)self, (void)codec, (void)shape;
  *out = (struct tagc_gpu_cost){0, 0, 0};
  return true;
}

/* The launch takes an hour. */
static bool dear(const struct tagc_device *self, const struct tagc_codec *codec, const struct tagc_shape *shape,
                 struct tagc_gpu_cost *out) {
  (void)self, (void)codec, (void)shape;
  *out = (struct tagc_gpu_cost){0, 0, 3600e9};
  return true;
}

static bool unknown(const struct tagc_device *self, const struct tagc_codec *codec, const struct tagc_shape *shape,
                    struct tagc_gpu_cost *out) {
  (void)self, (void)codec, (void)shape, (void)out;
  return false;
}

/* A GPU, as far as the vote can tell: it adds nothing of its own. */
static void set_up_gpu(void) {
  set_up();
  device.host_reads = false;
  device.cost = cheap;
  device.tally_make = get_tally;
}

static bool no_layout(const struct tagc_device *self, const struct tagc_codec *codec, const struct tagc_shape *shape,
                      struct tagc_layout *out) {
  (void)self, (void)codec, (void)shape, (void)out;
  return false;
}

static void *get_pinned(const struct tagc_device *self, size_t bytes) {
  static int64_t words[4096];
  (void)self;
  return bytes <= sizeof words ? words : NULL;
}

static void barred(void) {
  set_up_gpu();
  bool good = calls(VOTE) == ncclSuccess && slot()->reason == TAGC_REASON_compressed && comm->memory.workspace;
  ok(good && call() == ncclSuccess, "on a GPU, with buffers that it reaches: compressed");
  device.reaches = reaches_nothing;
  ok(call() == ncclInvalidArgument, "buffers that it does not reach any more: the call fails");
  tear_down();

  set_up_gpu();
  device.cost = dear;
  ok(calls(VOTE) == ncclSuccess && is_plain(TAGC_REASON_no_faster),
     "codecs that take long whatever is to be done: plain");
  tear_down();

  set_up_gpu();
  device.cost = unknown;
  ok(calls(VOTE) == ncclSuccess && is_plain(TAGC_REASON_no_faster), "codecs of which nothing is known: plain");
  tear_down();

  set_up_gpu();
  device.reaches = reaches_nothing;
  ok(calls(VOTE) == ncclSuccess && is_plain(TAGC_REASON_memory) && meetings == 1,
     "buffers that it does not reach before the vote: plain");
  tear_down();

  set_up_gpu();
  sent = (float *)((char *)sent + 2);
  ok(calls(VOTE) == ncclSuccess && is_plain(TAGC_REASON_memory), "buffers at an address that no element has: plain");
  sent = (float *)((char *)sent - 2);
  tear_down();

  set_up_gpu();
  hidden = true;
  ok(calls(VOTE) == ncclSuccess && is_plain(TAGC_REASON_scalar), "a scalar in device memory: plain");
  hidden = false;
  tear_down();

  layers = &known;
  set_up_gpu();
  ok(calls(VOTE + 1) == ncclSuccess && slot()->reason == TAGC_REASON_compressed && slot()->selected.parts &&
       sampled()->copy_ns > 0,
     "but a part of the slot is selected: that is looked at, and copies are estimated");
  tear_down();
  layers = NULL;

  set_up_gpu();
  device.layout = no_layout;
  ok(calls(VOTE) == ncclSuccess && is_plain(TAGC_REASON_device) && meetings == 1, "a GPU that runs no codec: plain");
  tear_down();

  set_up_gpu();
  device.alloc_pinned = get_pinned;
  good = calls(VOTE - 1) == ncclSuccess;
  fail_allocation = allocations + 1;
  ok(good && call() == ncclSuccess && slot()->reason == TAGC_REASON_compressed,
     "a GPU without memory for the words of the vote: the host has some");
  tear_down();
}

/* The number of groups in a vote, including those of the call that holds it. */
static int groups_of_a_vote(void) {
  set_up();
  if (calls(VOTE) != ncclSuccess)
    exit(1);
  const int groups = ends;
  tear_down();
  return groups;
}

static void failures(void) {
  const int groups = groups_of_a_vote();
  bool good = true;
  for (int at = 1; at < groups; at++) { /* the last one is that of the call itself */
    set_up();
    fail_at = at;
    plain_ns = 1; /* this vote leads to nothing */
    good &= calls(VOTE) == ncclSystemError && !comm->vote.held && !comm->observed.nonfinite;
    fail_at = 0;
    plain_ns = 40;
    good &= call() == ncclSuccess && slot()->reason == TAGC_REASON_compressed && call() == ncclSuccess;
    tear_down();
  }
  ok(good && groups >= 20, "each of the %d groups of a vote fails once: the call does, and the next one votes again",
     groups - 1);
}

/* Non-blocking: it waits until the call into NCCL has returned. */
static pthread_t other_watchdog;
static void begin_abort(void) { pthread_create(&other_watchdog, NULL, abort_it, NULL); }

static void aborts(void) {
  const int groups = groups_of_a_vote();
  bool good = true;
  for (int at = 1; at < groups; at++) {
    set_up();
    plain_ns = 1; /* any end of the vote will do */
    aborted = false;
    fail_at = at;
    at_end = abort_inside;
    good &= calls(VOTE) == ncclInternalError && aborted && !comm->vote.held && ends == at;
    tear_down();
  }
  ok(good, "an abort in each of the %d groups of a vote does not wait, and ends the call", groups - 1);
  good = true;
  for (int at = 1; at < groups; at += 5) {
    set_up();
    aborted = false;
    if (calls(VOTE - 1) != ncclSuccess)
      exit(1);
    fail_at = at;
    at_end = begin_abort;
    comm->returns_at_once = true; /* the launch stays in this thread: it cannot be observed elsewhere */
    ncclResult_t status = call();
    pthread_join(other_watchdog, NULL);
    good &= (status == ncclInternalError || status == ncclSuccess) && aborted && call() == ncclInternalError;
    tear_down();
  }
  ok(good, "one on a communicator whose calls return at once waits for the call into NCCL, and the next call says so");
}

int main(void) {
  setenv("TAGC_SKIP", "norm", 1);
  setenv("TAGC_LAYERMAP", "infer", 1); /* no meeting about PyTorch */
  begin_votes();
  wires();
  others();
  windows();
  odd_steps();
  denser();
  barred();
  memory();
  parts();
  memory(); /* with a part of the slot selected */
  layers = NULL;
  failures();
  aborts();
  return end_votes();
}
