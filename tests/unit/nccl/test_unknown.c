/* SPDX-License-Identifier: BSD-3-Clause
 * Functions of an NCCL that the library does not know: which names are, their list, and the exports among which they
 * are found.
 */
#include "interpose/nccl/unknown.h"

#include <stdio.h>
#include <string.h>

#include "interpose/nccl/linker.h"
#include "tests/unit/tap.h"

static void test_names(void) {
  static const char *const known[] = {
    "ncclAllReduce",    "ncclAllReduceConfig", "ncclCommCount", "ncclCommMemStats",
    "ncclParamGetU128", "ncclTeamNew",         "ncclGetNew",    "pncclAllGatherV",
    "nccl_private",     "ncclprivate",         "nccl",          "malloc",
  };
  static const char *const unknown[] = {"ncclAllGatherV", "ncclAllReduceV2", "ncclCommNew", "ncclAllReduceConfigV2"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    ok(!tagc_unknown_is(known[i]), "%s is not unknown", known[i]);
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
    ok(tagc_unknown_is(unknown[i]), "%s is unknown", unknown[i]);
}

static void test_list(void) {
  struct tagc_unknown_list list = {.used = 0};
  ok(!*list.text, "an empty list is an empty text");
  tagc_unknown_add(&list, "ncclOne");
  tagc_unknown_add(&list, "ncclTwo");
  ok(strcmp(list.text, "ncclOne, ncclTwo") == 0, "two: %s", list.text);
  char name[200];
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  tagc_unknown_add(&list, name);
  tagc_unknown_add(&list, name);
  tagc_unknown_add(&list, "ncclFive");
  ok(strcmp(list.text + list.used, " and 2 more") == 0 && strlen(list.text) < sizeof list.text,
     "what does not fit is counted:%s", list.text + list.used);
}

struct search {
  const char *name;
  unsigned seen, all;
};

static void count_name(const char *name, void *search_) {
  struct search *search = search_;
  search->all++;
  search->seen += strcmp(name, search->name) == 0;
}

static void test_exports(void) {
  struct tagc_object libc;
  struct search search = {.name = "fputs"}, other = {.name = "no such function"};
  const bool found = tagc_linker_find((const void *)&fputs, &libc);
  ok(found, "the C library is found");
  if (!found)
    return;
  tagc_linker_visit_exports(&libc, count_name, &search);
  tagc_linker_visit_exports(&libc, count_name, &other);
  ok(search.seen == 1 && search.all > 1000, "its exports are visited, %u of them, and fputs %u time(s)", search.all,
     search.seen);
  ok(other.seen == 0 && other.all == search.all, "each time the same");
  libc.dynamic = NULL;
  search.all = 0;
  tagc_linker_visit_exports(&libc, count_name, &search);
  ok(search.all == 0, "an object without a dynamic section exports nothing");
}

int main(void) {
  test_names();
  test_list();
  test_exports();
  return tap_done();
}
