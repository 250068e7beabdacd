/* SPDX-License-Identifier: BSD-3-Clause
 * Files of calls: parsed lines, refused ones and their places, and that a written file is read back unchanged.
 */
#include <string.h>

#include "interpose/nccl/abi/nccl.h"
#include "interpose/policy/plan.h"
#include "layermap/cycle/calls.h"
#include "layermap/cycle/evidence.h"
#include "tests/unit/tap.h"

static struct tagc_call_file *parse(const char *text, struct tagc_complaint *complaint) {
  return tagc_calls_parse(text, strlen(text), complaint);
}

static void refuses(const char *text, unsigned line, unsigned column, const char *words) {
  struct tagc_complaint complaint;
  struct tagc_call_file *file = parse(text, &complaint);
  ok(!file && complaint.line == line && complaint.column == column && strstr(complaint.text, words), "%u:%u: %s",
     complaint.line, complaint.column, complaint.text);
  tagc_calls_free(file);
}

static void test_reading(void) {
  struct tagc_complaint complaint;
  struct tagc_call_file *file =
    parse("# recorded\r\n\ttagc-calls 1\r\n\ncommunicator 7 ranks 8 rank 3 # the data\n"
          "reduce-scatter 1771776 float32 avg x12\nall-gather 0 bfloat16\r\n"
          "communicator 18446744073709551615 ranks 1 rank 0\nall-reduce 18446744073709551615 int64 max\n"
          "communicator 7\nbroadcast 5 type255 x1\ncommunicator 7 ranks 8 rank 3",
          &complaint);
  if (!ok(file != NULL, "comments, blanks, CRLF, no last newline: %s", file ? "" : complaint.text))
    return;
  const struct tagc_call_list *a = &file->lists[0], *b = &file->lists[1];
  ok(file->count == 2 && a->communicator == 7 && a->nranks == 8 && a->rank == 3 && a->count == 14,
     "a communicator and its calls");
  ok(b->communicator == UINT64_MAX && b->nranks == 1 && b->rank == 0 && b->count == 1, "and another one between them");
  if (a->count == 14 && b->count == 1) {
    const struct tagc_signature avg = {1771776, TAGC_COLL_REDUCE_SCATTER, ncclFloat32, TAGC_OP_AVG, true},
                                bf16 = {0, TAGC_COLL_ALL_GATHER, ncclBfloat16, 0, true},
                                other = {UINT64_MAX, TAGC_COLL_ALL_REDUCE, ncclInt64, TAGC_OP_OTHER, false},
                                newer = {5, TAGC_COLL_BROADCAST, 255, 0, false};
    ok(tagc_signature_equal(&a->calls[0], &avg) && tagc_signature_equal(&a->calls[11], &avg), "twelve equal ones");
    ok(tagc_signature_equal(&a->calls[12], &bf16), "one without a reduction");
    ok(tagc_signature_equal(&b->calls[0], &other), "max is one of the others");
    ok(tagc_signature_equal(&a->calls[13], &newer), "a type that is newer than NCCL's list");
  }
  tagc_calls_free(file);
  tagc_calls_free(NULL);
}

static void test_refusals(void) {
#define ONE "tagc-calls 1\ncommunicator 0 ranks 2 rank 0\n"
  refuses("", 0, 0, "empty");
  refuses("# nothing\n", 1, 1, "expected is \"tagc-calls 1\"");
  refuses("  calls 1\n", 1, 3, "\"calls\" does not begin such a file; expected is \"tagc-calls 1\"");
  refuses("tagc-calls 2\n", 1, 12, "\"2\" is no version that is known; expected is a number from 1 to 1");
  refuses("tagc-calls 1 1\n", 1, 14, "end of the line");
  refuses("tagc-calls\n", 1, 11, "nothing is no version");
  refuses("tagc-calls 1\nall-gather 1 int8\n", 2, 1, "is on no communicator");
  refuses("tagc-calls 1\ncommunicator x\n", 2, 14, "\"x\" is no communicator");
  refuses("tagc-calls 1\ncommunicator 0\n", 2, 15, "nothing comes behind a new communicator; expected is \"ranks\"");
  refuses("tagc-calls 1\ncommunicator 0 ranks 0 rank 0\n", 2, 22, "expected is a number from 1 to 1048576");
  refuses("tagc-calls 1\ncommunicator 0 ranks 2 rank 2\n", 2, 29, "expected is a number from 0 to 1");
  refuses("tagc-calls 1\ncommunicator 0 ranks 2 who 2\n", 2, 24, "expected is \"rank\"");
  refuses("tagc-calls 1\ncommunicator 0 ranks 2 rank 1 x\n", 2, 31, "end of the line");
  refuses(ONE "communicator 0 ranks 3 rank 0\n", 3, 14, "\"0\" had ranks 2 rank 0 before");
  refuses(ONE "reduce_scatter 5 float32 sum\n", 3, 1, "\"reduce_scatter\" is no call; expected is");
  refuses(ONE "reduce-scatter 18446744073709551616 float32 sum\n", 3, 16, "from 0 to 18446744073709551615");
  refuses(ONE "reduce-scatter 1e6 float32 sum\n", 3, 16, "\"1e6\" is no count");
  refuses(ONE "reduce-scatter 5 float sum\n", 3, 18, "\"float\" is no type");
  refuses(ONE "reduce-scatter 5 type11 sum\n", 3, 22, "\"11\" is no type; expected is a number from 12 to 255");
  refuses(ONE "reduce-scatter 5 float32\n", 3, 25, "nothing is no reduction");
  refuses(ONE "reduce-scatter 5 float32 x2\n", 3, 26, "\"x2\" is no reduction");
  refuses(ONE "all-gather 5 float32 sum\n", 3, 22, "or a repetition, as x12");
  refuses(ONE "all-gather 5 float32 x0\n", 3, 23, "\"0\" is no number of calls");
  refuses(ONE "all-gather 5 float32 x1048577\n", 3, 23, "from 1 to 1048576");
  refuses(ONE "all-gather 5 float32 x2 x2\n", 3, 25, "end of the line");
  refuses(ONE "all-gather 5 float32\nall-gather 5 float32 x1048576\n", 4, 1,
          "too many calls; a file has at most 1048576");
  refuses(ONE "all-gather 5 \033[31m\303\244\n", 3, 14, "\"\\x1b[31m\\xc3\\xa4\" is no type");
  static const char zero[] = ONE "all-gather\0 5 float32\n";
  struct tagc_complaint complaint;
  bool refused = !tagc_calls_parse(zero, sizeof zero - 1, &complaint);
  ok(refused && complaint.line == 3 && complaint.column == 11, "%u:%u: %s", complaint.line, complaint.column,
     complaint.text);
  char line[3000] = "tagc-calls 1\n#";
  memset(line + 14, 'x', 999);
  ok((tagc_calls_free(parse(line, &complaint)), !complaint.text[0]), "a line of 1000 bytes");
  line[1013] = 'x';
  refuses(line, 2, 1001, "a line has at most 1000 bytes");
  char many[64 * 1100] = "tagc-calls 1\n";
  size_t used = strlen(many);
  for (int i = 0; i <= TAGC_CALLS_LISTS; i++)
    used += (size_t)snprintf(many + used, sizeof many - used, "communicator %d ranks 2 rank 0\n", i);
  refuses(many, 1026, 14, "at most 1024 communicators");
}

static void test_writing(void) {
  char line[64], text[200];
  bool same = true;
  for (unsigned collective = TAGC_COLL_REDUCE_SCATTER; collective <= TAGC_COLL_SCATTER; collective++)
    for (unsigned dtype = 0; dtype <= ncclNumTypes; dtype++)
      for (unsigned op = TAGC_OP_SUM; op <= TAGC_OP_OTHER; op++) {
        bool reduces = collective == TAGC_COLL_REDUCE_SCATTER || collective == TAGC_COLL_ALL_REDUCE ||
                       collective == TAGC_COLL_REDUCE;
        bool is_float = dtype == ncclFloat32 || dtype == ncclFloat16 || dtype == ncclBfloat16;
        struct tagc_signature call = {UINT64_MAX - dtype, (uint8_t)collective, (uint8_t)dtype,
                                      reduces ? (uint8_t)op : 0, is_float};
        struct tagc_call_list list = {.communicator = UINT64_MAX, .rank = 1048575, .nranks = 1048576};
        struct tagc_complaint complaint;
        snprintf(text, sizeof text, TAGC_CALLS_VERSION "\n%s\n",
                 tagc_calls_communicator_line(&list, line, sizeof line));
        strcat(strcat(text, tagc_calls_line(&call, line, sizeof line)), "\n");
        struct tagc_call_file *file = parse(text, &complaint);
        same &= file && file->count == 1 && file->lists[0].count == 1 &&
                tagc_signature_equal(&file->lists[0].calls[0], &call) && file->lists[0].nranks == list.nranks &&
                file->lists[0].rank == list.rank;
        tagc_calls_free(file);
      }
  ok(same, "every call is read as it was written");
  struct tagc_complaint complaint;
  ok(!tagc_calls_read("/nowhere/calls", &complaint) && complaint.line == 0 && strstr(complaint.text, "No such file"),
     "%s", complaint.text);
  ok(!tagc_calls_read("/", &complaint) && complaint.line == 0 && strstr(complaint.text, "directory"), "%s",
     complaint.text);
}

int main(void) {
  test_reading();
  test_refusals();
  test_writing();
  return tap_done();
}
