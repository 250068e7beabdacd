/* SPDX-License-Identifier: BSD-3-Clause
 * CUDA graphs: captured calls become part of their graph unchanged, and do not disturb the steps around them.
 */
#include "tests/e2e/api/inprocess.h"
#include "tests/standin/cuda/device.h"

static bool begin(CUstream *streams) {
  bool good = true;
  for (int i = 0; i < RANKS; i++)
    good &= cuStreamBeginCapture_v2(streams[i], CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS;
  return good;
}

static bool end(CUstream *streams, CUgraph *graphs) {
  bool good = true;
  for (int i = 0; i < RANKS; i++)
    good &= cuStreamEndCapture(streams[i], &graphs[i]) == CUDA_SUCCESS;
  return good;
}

/* A call of half the size of the steps' calls. If the library observed it, the cycle would be lost. */
static ncclResult_t half_group(void) {
  ncclResult_t status = ncclGroupStart();
  for (int i = 0; i < RANKS && status == ncclSuccess; i++)
    status = ncclReduceScatter(ranks[i].send, ranks[i].out, N / 2, ncclFloat, ncclSum, ranks[i].comm, ranks[i].stream);
  ncclResult_t ended = ncclGroupEnd();
  return status == ncclSuccess ? ended : status;
}

static bool halves_are_sums(int step) {
  for (int i = 0; i < RANKS; i++)
    for (size_t k = 0; k < N / 2; k++) {
      size_t at = (size_t)i * N / 2 + k;
      if (ranks[i].out[k] != value(0, step, at) + value(1, step, at))
        return false;
    }
  return true;
}

static void fill_all(int step) {
  for (int i = 0; i < RANKS; i++)
    fill(&ranks[i], step);
}

static void captured(CUstream *streams, ncclResult_t (*calls)(void), bool (*are_sums)(int), const char *what) {
  CUgraph graphs[RANKS];
  CUgraphExec execs[RANKS];
  bool good = begin(streams);
  fill_all(20);
  good &= calls() == ncclSuccess && all_untouched();
  good &= end(streams, graphs);
  ok(good && all_untouched(), "%s: captured, nothing runs yet", what);
  for (int i = 0; i < RANKS; i++)
    good &= cuGraphInstantiateWithFlags(&execs[i], graphs[i], 0) == CUDA_SUCCESS;
  for (int step = 21; step < 24; step++) {
    fill_all(step);
    for (int i = 0; i < RANKS; i++)
      good &= cuGraphLaunch(execs[i], streams[i]) == CUDA_SUCCESS;
    for (int i = 0; i < RANKS; i++)
      good &= cuStreamSynchronize(streams[i]) == CUDA_SUCCESS;
    good &= are_sums(step);
  }
  for (int i = 0; i < RANKS; i++) {
    cuGraphExecDestroy(execs[i]);
    cuGraphDestroy(graphs[i]);
  }
  ok(good, "%s: every launch of the graph gives the sums of what is there then", what);
}

static ncclResult_t whole_group(void) {
  ncclResult_t status = ncclGroupStart();
  for (int i = 0; i < RANKS && status == ncclSuccess; i++)
    status = reduce_scatter(&ranks[i]);
  ncclResult_t ended = ncclGroupEnd();
  return status == ncclSuccess ? ended : status;
}

static bool all_are_sums(int step) { return is_sum(&ranks[0], step) && is_sum(&ranks[1], step); }

/* Captures a stream that synchronises with the legacy stream. The driver then hides the state of the legacy stream. */
static void legacy_stream(void) {
  CUstream blocking;
  CUgraph graph;
  bool good = cuStreamCreate(&blocking, CU_STREAM_DEFAULT) == CUDA_SUCCESS &&
              cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS;
  cudaStream_t before[RANKS];
  for (int i = 0; i < RANKS; i++) {
    before[i] = ranks[i].stream;
    ranks[i].stream = NULL;
  }
  fill_all(30);
  good &= half_group() == ncclSuccess && halves_are_sums(30);
  for (int i = 0; i < RANKS; i++)
    ranks[i].stream = before[i];
  good &= cuStreamEndCapture(blocking, &graph) == CUDA_SUCCESS;
  cuGraphDestroy(graph);
  cuStreamDestroy_v2(blocking);
  ok(good, "a call on the legacy stream meanwhile passes");
}

static void refused(CUstream *streams) {
  CUgraph graph;
  bool good = cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS;
  fill_all(40);
  good &= half_group() == ncclInvalidUsage && all_untouched();
  good &= cuStreamEndCapture(streams[0], &graph) == CUDA_SUCCESS;
  cuGraphDestroy(graph);
  ok(good, "a group that is captured in part is refused as NCCL does");
}

int main(void) {
  CUstream streams[RANKS];
  device_open(0);
  bool good = start(0);
  for (int i = 0; i < RANKS; i++) {
    good &= cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS;
    ranks[i].stream = (cudaStream_t)streams[i];
  }
  ok(good && run_groups(0, STEPS), "steps on streams that are not captured");
  captured(streams, half_group, halves_are_sums, "a call that is not part of the steps");
  ok(run_groups(STEPS, STEPS + 2), "the steps go on");
  captured(streams, whole_group, all_are_sums, "the call that the steps make");
  ok(run_groups(STEPS + 2, STEPS + 4), "the steps go on");
  legacy_stream();
  ok(run_groups(STEPS + 4, STEPS + 6), "the steps go on");
  finish();
  good = start(0);
  refused(streams);
  finish();
  for (int i = 0; i < RANKS; i++)
    cuStreamDestroy_v2(streams[i]);
  return done();
}
