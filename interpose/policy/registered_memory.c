/* SPDX-License-Identifier: BSD-3-Clause
 * Registered memory; see registered_memory.h. The ranges of a communicator, and those of the process, are a treap (Aragon, Seidel
 * 1989) each: a tree that is ordered by where they begin, and as a heap by numbers drawn from those of the
 * registrations, which keep it as flat as random ones do. Every node knows where the last range below it ends, so that
 * branches without the buffer are not entered.
 */
#include "interpose/policy/registered_memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "env/units.h"

#define HASH_NONFATAL_OOM 1        /* uthash must not end the host program */
#define uthash_nonfatal_oom(element) ((element)->unhashed = true)
#include <uthash.h>

/* A registration. */
struct node {
  uintptr_t begin, end, last;       /* last: the highest `end` in this branch */
  uint64_t number, weight;
  const void *handle;
  struct node *left, *right;
  struct node *older;               /* of the communicator */
};

/* Those of a communicator, or, under NULL, of the process. */
struct registry {
  ncclComm_t comm;
  struct node *root, *newest;
  uint64_t numbers;
  bool unhashed;
  UT_hash_handle hh;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct registry *registries;
static atomic_size_t living;        /* ranges */
static atomic_uint_least64_t changes;

/* splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t mix(uint64_t x)
{
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static void update(struct node *n)
{
  n->last = n->end;
  if (n->left && n->left->last > n->last)
    n->last = n->left->last;
  if (n->right && n->right->last > n->last)
    n->last = n->right->last;
}

static bool is_before(const struct node *a, const struct node *b)
{
  return a->begin != b->begin ? a->begin < b->begin : a->number < b->number;
}

static struct node *merge(struct node *left, struct node *right)
{
  if (!left || !right)
    return left ? left : right;
  struct node *top = left->weight > right->weight ? left : right;
  if (top == left)
    left->right = merge(left->right, right);
  else
    right->left = merge(left, right->left);
  update(top);
  return top;
}

/* Parts the tree in those before `at` and the others. */
static void split_tree(struct node *tree, const struct node *at, struct node **before, struct node **others)
{
  if (!tree) {
    *before = *others = NULL;
  } else if (is_before(tree, at)) {
    split_tree(tree->right, at, &tree->right, others);
    *before = tree;
    update(tree);
  } else {
    split_tree(tree->left, at, before, &tree->left);
    *others = tree;
    update(tree);
  }
}

static struct node *insert(struct node *tree, struct node *node)
{
  struct node *before, *others;
  split_tree(tree, node, &before, &others);
  return merge(merge(before, node), others);
}

static struct node *take_out(struct node *tree, const struct node *node)
{
  if (tree == node)
    return merge(tree->left, tree->right);
  if (is_before(node, tree))
    tree->left = take_out(tree->left, node);
  else
    tree->right = take_out(tree->right, node);
  update(tree);
  return tree;
}

/* The oldest range of the tree that holds all of [begin, end), or `found`. */
static const struct node *find_node(const struct node *tree, uintptr_t begin, uintptr_t end, const struct node *found)
{
  for (; tree && tree->last >= end; tree = tree->right) {
    found = find_node(tree->left, begin, end, found);
    if (tree->begin > begin)
      break;
    if (tree->end >= end && (!found || tree->number < found->number))
      found = tree;
  }
  return found;
}

static uintptr_t end_of(const void *memory, size_t size)
{
  const uintptr_t begin = (uintptr_t)memory;
  return size > UINTPTR_MAX - begin ? UINTPTR_MAX : begin + size;
}

static struct registry *registry_of(ncclComm_t comm)
{
  struct registry *r;
  HASH_FIND_PTR(registries, &comm, r);
  return r;
}

static struct registry *make_registry(ncclComm_t comm)
{
  struct registry *r = registry_of(comm);
  if (r || !(r = calloc(1, sizeof *r)))
    return r;
  r->comm = comm;
  HASH_ADD_PTR(registries, comm, r);
  if (!r->unhashed)
    return r;
  free(r);
  return NULL;
}

void tagc_ranges_add(ncclComm_t comm, const void *memory, size_t size, const void *handle)
{
  struct node *node = memory && size ? calloc(1, sizeof *node) : NULL;
  if (!node)
    return;
  pthread_mutex_lock(&lock);
  struct registry *r = make_registry(comm);
  if (r) {
    *node = (struct node){.begin = (uintptr_t)memory, .end = end_of(memory, size), .number = ++r->numbers, .handle = handle,
                          .older = r->newest};
    node->weight = mix(node->number);
    update(node);
    r->newest = node;
    r->root = insert(r->root, node);
    atomic_fetch_add(&living, 1);
    atomic_fetch_add(&changes, 1);
  }
  pthread_mutex_unlock(&lock);
  if (!r)
    free(node);
}

void tagc_ranges_remove(ncclComm_t comm, const void *handle)
{
  if (!handle || atomic_load_explicit(&living, memory_order_relaxed) == 0)
    return;
  pthread_mutex_lock(&lock);
  struct registry *r = registry_of(comm);
  struct node **at = r ? &r->newest : NULL;
  while (at && *at && (*at)->handle != handle)
    at = &(*at)->older;
  if (at && *at) {
    struct node *node = *at;
    *at = node->older;
    r->root = take_out(r->root, node);
    free(node);
    atomic_fetch_sub(&living, 1);
    atomic_fetch_add(&changes, 1);
  }
  pthread_mutex_unlock(&lock);
}

void tagc_ranges_forget(ncclComm_t comm)
{
  if (!comm)
    return;
  pthread_mutex_lock(&lock);
  struct registry *r = registry_of(comm);
  if (r) {
    HASH_DEL(registries, r);
    for (struct node *node = r->newest, *older; node; node = older) {
      older = node->older;
      free(node);
      atomic_fetch_sub(&living, 1);
    }
    free(r);
    atomic_fetch_add(&changes, 1);
  }
  pthread_mutex_unlock(&lock);
}

bool tagc_ranges_find(ncclComm_t comm, const void *buffer, size_t size, struct tagc_range *found)
{
  if (atomic_load_explicit(&living, memory_order_relaxed) == 0 || !buffer)
    return false;
  const uintptr_t begin = (uintptr_t)buffer, end = end_of(buffer, size);
  const struct node *node = NULL;
  pthread_mutex_lock(&lock);
  for (int of_process = 0; of_process < 2 && !node; of_process++) {
    const struct registry *r = registry_of(of_process ? NULL : comm);
    node = r ? find_node(r->root, begin, end, NULL) : NULL;
    if (node)
      *found = (struct tagc_range){node->number, begin - node->begin, of_process};
  }
  pthread_mutex_unlock(&lock);
  return node != NULL;
}

const char *tagc_range_text(const struct tagc_range *range, char text[48])
{
  char offset[16];
  snprintf(text, 48, "%s %llu + %s", range->of_process ? "allocated" : "registered", (unsigned long long)range->number,
           tagc_units_bytes(range->offset, offset));
  return text;
}

/* ---- homes ------------------------------------------------------------------------------------------------------- */

/* So many calls in a row at one place are not by chance. */
enum { SETTLED = 3 };

static bool is_same(const struct tagc_range *a, const struct tagc_range *b)
{
  return a->number == b->number && a->offset == b->offset && a->of_process == b->of_process;
}

bool tagc_home_see(struct tagc_home *home, ncclComm_t comm, const void *buffer, size_t size)
{
  if (home->calls == 0 && atomic_load_explicit(&living, memory_order_relaxed) == 0)
    return false;
  const uint64_t now = atomic_load_explicit(&changes, memory_order_acquire);
  if (home->calls >= SETTLED && home->buffer == buffer && home->changes == now)
    return true;
  struct tagc_range place;
  const bool found = tagc_ranges_find(comm, buffer, size, &place);
  if (!found)
    home->calls = 0;
  else if (home->calls == 0 || !is_same(&place, &home->place))
    home->calls = 1;
  else if (home->calls < SETTLED)
    home->calls++;
  if (found)
    home->place = place;
  home->buffer = buffer;
  home->changes = now;
  return home->calls >= SETTLED;
}
