/* SPDX-License-Identifier: BSD-3-Clause
 * interpose/policy/topology against its definitions and in use: interpose/exec/hierarchy runs the first level for all
 * ranks of every placement. A fake NCCL notes the calls and adds up, and every shard must reach its owner.
 */
#include <string.h>

#include "interpose/comm/comm.h"
#include "interpose/exec/hierarchy.h"
#include "tests/unit/tap.h"

enum { MOST_RANKS = 64, MOST_CALLS = MOST_RANKS };

/* splitmix64 */
static uint64_t random_state = 1;
static uint32_t random_below(uint32_t limit) {
  uint64_t x = random_state += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)((x ^ x >> 31) >> 32) % limit;
}

/* ---- the definitions --------------------------------------------------------------------------------------------- */

static int local_of(const uint32_t *host_of, int r) {
  int lower = 0;
  for (int other = 0; other < r; other++)
    lower += host_of[other] == host_of[r];
  return lower;
}

static int ranks_on(const uint32_t *host_of, int nranks, uint32_t host) {
  int count = 0;
  for (int r = 0; r < nranks; r++)
    count += host_of[r] == host;
  return count;
}

/* True if `count` ranks from `from` on share a host; differ(): if all are on different ones. */
static bool share(const uint32_t *host_of, int from, int count) {
  return ranks_on(host_of + from, count, host_of[from]) == count;
}

static bool differ(const uint32_t *host_of, int from, int count) {
  for (int r = from; r < from + count; r++)
    if (ranks_on(host_of + from, count, host_of[r]) != 1)
      return false;
  return true;
}

static enum tagc_placement placement_of(const uint32_t *host_of, int hosts, int local) {
  bool blocks = true, stripes = true;
  for (int h = 0; h < hosts; h++)
    blocks &= share(host_of, h * local, local);
  for (int l = 0; l < local; l++)
    stripes &= differ(host_of, l * hosts, hosts);
  return blocks ? TAGC_BLOCKS : stripes ? TAGC_STRIPES : TAGC_SCATTERED;
}

static bool is_right(const struct tagc_topology *t, const uint32_t *host_of, int nranks, int rank) {
  int hosts = 0, met[MOST_RANKS] = {0};
  bool even = true, good = true;
  for (int r = 0; r < nranks; r++) {
    const int local = local_of(host_of, r);
    good &= t->local[r] == local && t->place[r] == met[local]++;
    hosts += local == 0;
    even &= ranks_on(host_of, nranks, host_of[r]) == ranks_on(host_of, nranks, host_of[0]);
  }
  good &= t->hosts.nranks == nranks && t->hosts.hosts == hosts && t->even == even;
  good &= t->hosts.local == ranks_on(host_of, nranks, host_of[rank]);
  return good && (!even || t->placement == placement_of(host_of, hosts, t->hosts.local));
}

/* ---- an NCCL that adds up ---------------------------------------------------------------------------------------- */

static struct noted {
  const float *send;
  float *to;
  size_t count;
  int op, root; /* root: -1 for a reduce-scatter */
} noted[MOST_RANKS][MOST_CALLS];
static size_t counts[MOST_RANKS];
static int playing;               /* the rank that calls */
static float scalars[MOST_RANKS]; /* of its operator; 0: none exists */
static int made[MOST_RANKS];
static bool misused;

static ncclComm_t handle_of(int rank) { return (ncclComm_t)(uintptr_t)(rank + 1); }

static ncclResult_t note_call(const void *send, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                              ncclComm_t on) {
  misused |= on != handle_of(playing) || type != ncclFloat32 || (op >= ncclNumOps && scalars[playing] == 0);
  noted[playing][counts[playing]++] = (struct noted){send, to, count, (int)op, root};
  return ncclSuccess;
}

static ncclResult_t reduce_scatter(const void *send, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                   ncclComm_t on, cudaStream_t stream) {
  (void)stream;
  return note_call(send, to, count, type, op, -1, on);
}

static ncclResult_t reduce(const void *send, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                           ncclComm_t on, cudaStream_t stream) {
  (void)stream;
  return note_call(send, to, count, type, op, root, on);
}

static ncclResult_t create_op(ncclRedOp_t *op, void *scalar, ncclDataType_t type, ncclScalarResidence_t where,
                              ncclComm_t on) {
  misused |=
    on != handle_of(playing) || type != ncclFloat32 || where != ncclScalarHostImmediate || scalars[playing] != 0;
  memcpy(&scalars[playing], scalar, sizeof scalars[playing]);
  made[playing]++;
  *op = ncclNumOps;
  return ncclSuccess;
}

static ncclResult_t destroy_op(ncclRedOp_t op, ncclComm_t on) {
  misused |= op != ncclNumOps || on != handle_of(playing);
  scalars[playing] = 0;
  return ncclSuccess;
}

static const struct tagc_nccl_group real = {
  .reduce_scatter = reduce_scatter, .reduce = reduce, .create_op = create_op, .destroy_op = destroy_op};

/* Executes the calls of a host's ranks, which must be the same. */
static bool add_up(const int *members, int local) {
  bool same = true;
  for (int m = 1; m < local; m++)
    same &= counts[members[m]] == counts[members[0]];
  for (size_t c = 0; c < counts[members[0]] && same; c++) {
    const struct noted *first = &noted[members[0]][c];
    for (int m = 0; m < local; m++) {
      const struct noted *mine = &noted[members[m]][c];
      same &= mine->count == first->count && mine->op == first->op && mine->root == first->root;
      const size_t from = mine->root < 0 ? (size_t)m * mine->count : 0;
      for (size_t i = 0; i < mine->count && (mine->root < 0 || mine->root == m); i++) {
        mine->to[i] = 0;
        for (int n = 0; n < local; n++)
          mine->to[i] += noted[members[n]][c].send[from + i];
      }
    }
  }
  return same;
}

/* ---- the first level --------------------------------------------------------------------------------------------- */

enum { N = 3 };

static float send_buffers[MOST_RANKS][MOST_RANKS * N], sums[MOST_RANKS][MOST_RANKS * N];

/* Element i in a rank's input for a shard's owner; sums over ranks are exact. */
static float value(int rank, int owner, int i) { return (float)((rank + 1) * 256 + owner * 4 + i); }

static void ask(const struct tagc_topology *t, int rank, enum tagc_op op, float scale) {
  struct tagc_slot slot = {.packed = {N, t->hosts.hosts, TAGC_FLOAT32, 0, TAGC_STORAGE_NONE, 0}};
  struct tagc_comm comm = {
    .hierarchy.topology = *t, .slots = &slot, .slot_count = 1, .rank = rank, .nranks = t->hosts.nranks};
  atomic_store(&comm.hierarchy.comm[TAGC_LEVEL_INTRA_NODE], handle_of(rank));
  struct tagc_call call = {
    .comm = &comm, .send = send_buffers[rank], .count = N, .type = ncclFloat32, .op_kind = op, .scale = scale};
  playing = rank;
  counts[rank] = 0;
  for (int owner = 0; owner < t->hosts.nranks; owner++)
    for (int i = 0; i < N; i++)
      send_buffers[rank][owner * N + i] = value(rank, owner, i);
  misused |= tagc_hierarchy_sum(&real, &call, &slot.packed, (uint8_t *)sums[rank]) != ncclSuccess || scalars[rank] != 0;
}

/* Runs the first level of all ranks, then the second: the ranks of a local index in rank order each get their piece
 * from all of them. */
static bool ends_where_it_belongs(const struct tagc_topology *t, const uint32_t *host_of) {
  const int nranks = t->hosts.nranks, local = t->hosts.local;
  bool good = true;
  for (int r = 0; r < nranks; r++)
    ask(t, r, TAGC_OP_SUM, 1);
  for (int first = 0; first < nranks; first++) {
    int members[MOST_RANKS], count = 0;
    for (int r = first; r < nranks && t->local[first] == 0; r++)
      if (host_of[r] == host_of[first])
        members[count++] = r;
    good &= !count || add_up(members, local);
  }
  for (int owner = 0; owner < nranks; owner++)
    for (int i = 0; i < N; i++) {
      float got = 0, want = 0;
      int party = 0, place = -1;
      for (int r = 0; r < nranks; r++) {
        want += value(r, owner, i);
        if (t->local[r] != t->local[owner])
          continue;
        place = r == owner ? party : place;
        party++;
      }
      for (int r = 0; r < nranks; r++)
        if (t->local[r] == t->local[owner])
          got += sums[r][place * N + i];
      good &= got == want && place == t->place[owner] && party == t->hosts.hosts;
    }
  return good;
}

/* ---- placements -------------------------------------------------------------------------------------------------- */

static long placements[3], unevens, played;

static bool holds(const uint32_t *host_of, int nranks) {
  bool good = true;
  const int step = nranks > 8 ? nranks - 1 : 1; /* any rank gives the same */
  for (int rank = 0; rank < nranks; rank += step) {
    struct tagc_topology t;
    if (!tagc_topology_make(&t, host_of, nranks, rank))
      return false;
    good &= is_right(&t, host_of, nranks, rank);
    if (rank == 0 && t.even) {
      good &= ends_where_it_belongs(&t, host_of);
      played++;
      placements[t.placement]++;
    }
    unevens += rank == 0 && !t.even;
    tagc_topology_free(&t);
  }
  return good && !misused;
}

/* All lists of hosts for up to six ranks. */
static void all_of_six(void) {
  for (int nranks = 1; nranks <= 6; nranks++) {
    uint32_t host_of[6] = {0};
    bool good = true;
    long lists = 0;
    for (int at = 0; at < nranks;) {
      good &= holds(host_of, nranks);
      lists++;
      for (at = 0; at < nranks && ++host_of[at] == (uint32_t)nranks; at++)
        host_of[at] = 0;
    }
    ok(good, "all %ld placements of %d ranks", lists, nranks);
  }
}

static void shuffle(uint32_t *list, int count) {
  for (int i = count - 1; i > 0; i--) {
    const uint32_t at = random_below((uint32_t)i + 1), kept = list[i];
    list[i] = list[at];
    list[at] = kept;
  }
}

/* Placements of every number of ranks: blocks, stripes, permuted stripes, random, one rank moved; numbers with gaps. */
static void all_shapes(void) {
  long shapes = 0;
  bool good = true;
  for (int nranks = 1; nranks <= MOST_RANKS; nranks++)
    for (int hosts = 1; hosts <= nranks; hosts++) {
      if (nranks % hosts)
        continue;
      uint32_t numbers[MOST_RANKS], host_of[MOST_RANKS];
      for (int h = 0; h < hosts; h++)
        numbers[h] = (uint32_t)h * 50 + random_below(50);
      shuffle(numbers, hosts);
      for (int r = 0; r < nranks; r++)
        host_of[r] = numbers[r / (nranks / hosts)];
      good &= holds(host_of, nranks);
      for (int r = 0; r < nranks; r++)
        host_of[r] = numbers[r % hosts];
      good &= holds(host_of, nranks);
      for (int l = 0; l < nranks; l += hosts)
        shuffle(host_of + l, hosts);
      good &= holds(host_of, nranks);
      shuffle(host_of, nranks);
      good &= holds(host_of, nranks);
      host_of[random_below((uint32_t)nranks)] = numbers[random_below((uint32_t)hosts)];
      good &= holds(host_of, nranks);
      shapes++;
    }
  ok(good, "%ld shapes of up to %d ranks, placed in five ways each", shapes, MOST_RANKS);
  ok(placements[TAGC_BLOCKS] > 100 && placements[TAGC_STRIPES] > 100 && placements[TAGC_SCATTERED] > 100 &&
       unevens > 100,
     "%ld in blocks, %ld in stripes, %ld scattered, %ld uneven", placements[TAGC_BLOCKS], placements[TAGC_STRIPES],
     placements[TAGC_SCATTERED], unevens);
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */

/* NCCL chooses its algorithm by the operator: ranks that multiply by one must not take another than the others. */
static void operators(void) {
  static const uint32_t host_of[] = {0, 0, 1, 1};
  static const float factors[] = {1, 0.5f, -3, 1};
  struct tagc_topology t;
  bool good = tagc_topology_make(&t, host_of, 4, 0);
  for (int r = 0; r < 4 && good; r++) {
    ask(&t, r, TAGC_OP_PREMULSUM, factors[r]);
    good &= made[r] == 1 && counts[r] == 2 && noted[r][0].op == ncclNumOps && noted[r][1].op == ncclNumOps;
  }
  ok(good && !misused,
     "a pre-multiplied sum is one inside each host, whatever its ranks multiply by; the operator is given back");
  ask(&t, 0, TAGC_OP_AVG, 1);
  ok(noted[0][0].op == ncclAvg && made[0] == 1, "a mean is one inside each host");
  ask(&t, 0, TAGC_OP_SUM, 1);
  ok(noted[0][0].op == ncclSum && noted[0][0].count == N && noted[0][0].root == -1 && counts[0] == 2,
     "blocks: a reduce-scatter for each host");
  tagc_topology_free(&t);
  ok(!t.local && !t.place, "nothing is left of a topology that is freed");
}

int main(void) {
  all_of_six();
  all_shapes();
  operators();
  return tap_done();
}
