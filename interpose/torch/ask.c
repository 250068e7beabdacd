/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/torch/ask.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "env/thread.h"
#include "interpose/nccl/linker.h"

/* The lines of modules.py. */
static const char *const lines[] = {
#include "interpose/torch/modules.inc"
};
enum { LINES = sizeof lines / sizeof *lines };

/* ---- the interpreter --------------------------------------------------------------------------------------------- */

typedef struct object object; /* PyObject */
enum { FILE_INPUT = 257 };    /* Py_file_input: statements */

/* Its functions, of any version of Python 3. */
#define PYTHON(FUNCTION) \
  FUNCTION(int, Py_IsInitialized, (void)) \
  FUNCTION(int, PyGILState_Ensure, (void)) \
  FUNCTION(void, PyGILState_Release, (int)) \
  FUNCTION(void *, PyGILState_GetThisThreadState, (void)) \
  FUNCTION(object *, PyDict_New, (void)) \
  FUNCTION(int, PyDict_SetItemString, (object *, const char *, object *)) \
  FUNCTION(object *, PyDict_GetItemString, (object *, const char *)) \
  FUNCTION(object *, PyEval_GetBuiltins, (void)) \
  FUNCTION(object *, PyLong_FromLong, (long)) \
  FUNCTION(object *, PyRun_String, (const char *, int, object *, object *)) \
  FUNCTION(const char *, PyUnicode_AsUTF8AndSize, (object *, ptrdiff_t *)) \
  FUNCTION(void, PyErr_Clear, (void)) \
  FUNCTION(void, PyErr_Fetch, (object **, object **, object **)) \
  FUNCTION(void, PyErr_Restore, (object *, object *, object *)) \
  FUNCTION(void, Py_DecRef, (object *))

#define MEMBER(type, name, arguments) type(*name) arguments;
struct python {
  PYTHON(MEMBER)
  void *(*current_state)(void); /* may be NULL */
  int (*is_finalizing)(void);   /* may be NULL */
  int (*is_collecting)(void);   /* may be NULL, before Python 3.10 */
};

/* The function in the global scope, where an interpreter is: the program or its libpython. */
static bool find_function(const char *name, void *function) {
  void *address = tagc_linker_dlsym()(RTLD_DEFAULT, name);
  memcpy(function, &address, sizeof address);
  return address != NULL;
}

static bool find_python(struct python *python) {
  bool good = true;
#define FIND(type, name, arguments) good = good && find_function(#name, &python->name);
  PYTHON(FIND)
  if (!good)
    return false;
  if (!find_function("PyThreadState_GetUnchecked", &python->current_state))
    find_function("_PyThreadState_UncheckedGet", &python->current_state);
  if (!find_function("Py_IsFinalizing", &python->is_finalizing))
    find_function("_Py_IsFinalizing", &python->is_finalizing);
  find_function("PyGC_IsEnabled", &python->is_collecting);
  return python->Py_IsInitialized() && !(python->is_finalizing && python->is_finalizing());
}

/* As PyGILState_Check(), which says yes to everybody once there were sub-interpreters. */
static bool holds_lock(const struct python *python) {
  const void *own = python->PyGILState_GetThisThreadState();
  return own && python->current_state && python->current_state() == own;
}

/* ---- the question ------------------------------------------------------------------------------------------------ */

/* Shared by the caller and the thread; the last one frees it. */
struct question {
  struct python python;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  char *text, *answer;
  int nranks, users;
  bool looks_everywhere, may_wait, answered, abandoned;
};

static char *join_lines(void) {
  size_t bytes = 1;
  for (size_t i = 0; i < LINES; i++)
    bytes += strlen(lines[i]);
  char *text = malloc(bytes), *at = text;
  for (size_t i = 0; i < LINES && text; i++)
    at = stpcpy(at, lines[i]);
  return text;
}

/* The question pauses the garbage collector, and another thread may get the lock and fork then. */
static atomic_int pauses;

/* The question that waits for DDP, one in a process, and then its answer. It keeps a use for us. */
static pthread_mutex_t ddp_lock = PTHREAD_MUTEX_INITIALIZER;
static struct question *of_ddp;

/* A thread that asks is not in the child. The memory of its question stays. */
static void recover_in_child(void) {
  int (*enable)(void);
  of_ddp = NULL;
  pthread_mutex_init(&ddp_lock, NULL);
  if (atomic_exchange(&pauses, 0) && find_function("PyGC_Enable", &enable))
    enable();
}

/* pthread_atfork() of glibc, whose static part asks for the C runtime's start files: the library has none. */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);
static void register_fork(void) { __register_atfork(NULL, NULL, recover_in_child, NULL); }

/* Runs the question with the interpreter's lock. Returns its answer; NULL: no memory, or no answer. */
static char *run_question(const struct question *q) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const struct python *python = &q->python;
  object *type, *value, *trace, *names = NULL, *ranks = NULL, *looks = NULL, *waits = NULL, *result = NULL;
  char *answer = NULL;
  python->PyErr_Fetch(&type, &value, &trace);
  object *builtins = python->PyEval_GetBuiltins();
  names = builtins ? python->PyDict_New() : NULL;
  ranks = names ? python->PyLong_FromLong(q->nranks) : NULL;
  looks = ranks ? python->PyLong_FromLong(q->looks_everywhere) : NULL;
  waits = looks ? python->PyLong_FromLong(q->may_wait) : NULL;
  pthread_once(&once, register_fork);
  const bool collects = !q->may_wait && python->is_collecting && python->is_collecting();
  atomic_fetch_add(&pauses, collects);
  if (waits && python->PyDict_SetItemString(names, "__builtins__", builtins) == 0 &&
      python->PyDict_SetItemString(names, "ranks", ranks) == 0 &&
      python->PyDict_SetItemString(names, "looks_everywhere", looks) == 0 &&
      python->PyDict_SetItemString(names, "may_wait", waits) == 0)
    result = python->PyRun_String(q->text, FILE_INPUT, names, names);
  object *said = result ? python->PyDict_GetItemString(names, "answer") : NULL;
  const char *words = said ? python->PyUnicode_AsUTF8AndSize(said, NULL) : NULL;
  if (words)
    answer = strdup(words);
  if (result)
    python->Py_DecRef(result);
  atomic_fetch_sub(&pauses, collects);
  if (waits)
    python->Py_DecRef(waits);
  if (looks)
    python->Py_DecRef(looks);
  if (ranks)
    python->Py_DecRef(ranks);
  if (names)
    python->Py_DecRef(names);
  python->PyErr_Clear();
  python->PyErr_Restore(type, value, trace);
  return answer;
}

/* ---- a thread that asks ------------------------------------------------------------------------------------------ */

static void leave_question(struct question *q) {
  const bool last = --q->users == 0;
  pthread_mutex_unlock(&q->lock);
  if (!last)
    return;
  pthread_mutex_destroy(&q->lock);
  pthread_cond_destroy(&q->changed);
  free(q->text);
  free(q->answer);
  free(q);
}

static void *ask_with_lock(void *q_) {
  struct question *q = q_;
  const int state = q->python.PyGILState_Ensure();
  pthread_mutex_lock(&q->lock);
  const bool abandoned = q->abandoned;
  pthread_mutex_unlock(&q->lock);
  char *answer = abandoned ? NULL : run_question(q);
  q->python.PyGILState_Release(state);
  pthread_mutex_lock(&q->lock);
  q->answer = answer;
  q->answered = true;
  pthread_cond_signal(&q->changed);
  leave_question(q);
  return NULL;
}

static struct question *make_question(const struct python *python, int nranks, bool looks_everywhere, bool may_wait) {
  struct question *q = calloc(1, sizeof *q);
  pthread_condattr_t attributes;
  if (!q)
    return NULL;
  q->python = *python;
  q->nranks = nranks;
  q->looks_everywhere = looks_everywhere;
  q->may_wait = may_wait;
  q->users = 1;
  q->text = join_lines();
  pthread_mutex_init(&q->lock, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&q->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  if (q->text)
    return q;
  pthread_mutex_lock(&q->lock);
  leave_question(q);
  return NULL;
}

/* Waits for the thread. Returns its answer; NULL: none in time, or none. */
static char *await_answer(struct question *q, uint64_t seconds, bool *is_late) {
  struct timespec end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_sec += (time_t)seconds;
  pthread_mutex_lock(&q->lock);
  while (!q->answered && pthread_cond_timedwait(&q->changed, &q->lock, &end) == 0)
    ;
  *is_late = q->abandoned = !q->answered;
  char *answer = q->answer;
  q->answer = NULL;
  leave_question(q);
  return answer;
}

/* Asks in a thread of its own. */
static char *ask_beside(struct question *q, uint64_t seconds, bool *is_late, char why[TAGC_TORCH_WHY]) {
  q->users++;
  if (tagc_thread_start(ask_with_lock, q))
    return await_answer(q, seconds, is_late);
  snprintf(why, TAGC_TORCH_WHY, "no thread can ask: %s", strerror(errno));
  q->users--;
  pthread_mutex_lock(&q->lock);
  leave_question(q);
  return NULL;
}

static char *ask_here(struct question *q) {
  char *answer = run_question(q);
  pthread_mutex_lock(&q->lock);
  leave_question(q);
  return answer;
}

static atomic_bool was_late;
bool tagc_torch_was_late(void) { return atomic_load(&was_late); }

/* The answer of the interpreter, in time; NULL: none, and *why. */
static char *ask_now(const struct python *python, int nranks, bool looks_everywhere, uint64_t seconds,
                     char why[TAGC_TORCH_WHY]) {
  bool is_late = false;
  struct question *q = make_question(python, nranks, looks_everywhere, false);
  snprintf(why, TAGC_TORCH_WHY, "no memory");
  if (!q)
    return NULL;
  char *answer = holds_lock(python) ? ask_here(q) : ask_beside(q, seconds, &is_late, why);
  if (is_late) {
    atomic_store(&was_late, true);
    snprintf(why, TAGC_TORCH_WHY, "the interpreter was busy for %d seconds (TAGC_TORCH_TIMEOUT)", (int)seconds);
  }
  return answer;
}

static void drop_question_of_ddp(void) {
  struct question *q = of_ddp;
  of_ddp = NULL;
  if (!q)
    return;
  pthread_mutex_lock(&q->lock);
  q->abandoned = true;
  leave_question(q);
}

static void begin_asking_ddp(const struct python *python, int nranks) {
  drop_question_of_ddp(); /* that of another communicator */
  struct question *q = make_question(python, nranks, true, true);
  if (!q)
    return;
  q->users++;
  of_ddp = q;
  if (tagc_thread_start(ask_with_lock, q))
    return;
  q->users--;
  drop_question_of_ddp();
}

/* Has DDP been asked about so many ranks? Then sets *answer to a copy of what it says, NULL: nothing yet. */
static bool is_ddp_asked(int nranks, char **answer) {
  struct question *q = of_ddp;
  *answer = NULL;
  if (!q || q->nranks != nranks)
    return false;
  pthread_mutex_lock(&q->lock);
  if (q->answered)
    *answer = strdup(q->answer ? q->answer : "!DDP does not tell its buckets");
  pthread_mutex_unlock(&q->lock);
  return true;
}

void tagc_torch_settled(int nranks) {
  pthread_mutex_lock(&ddp_lock);
  if (of_ddp && of_ddp->nranks == nranks)
    drop_question_of_ddp();
  pthread_mutex_unlock(&ddp_lock);
}

struct tagc_model *tagc_torch_ask(int nranks, bool looks_everywhere, uint64_t seconds, uint64_t *digest, bool *later,
                                  char why[TAGC_TORCH_WHY]) {
  struct python python;
  *digest = 0;
  *later = false;
  if (atomic_load(&was_late)) {
    snprintf(why, TAGC_TORCH_WHY, "the interpreter was busy too long before");
    return NULL;
  }
  if (!find_python(&python)) {
    snprintf(why, TAGC_TORCH_WHY, "this process runs no Python, or none that other libraries can reach");
    return NULL;
  }
  char *answer;
  pthread_mutex_lock(&ddp_lock);
  *later = is_ddp_asked(nranks, &answer) && !answer;
  pthread_mutex_unlock(&ddp_lock);
  if (!answer && !*later)
    answer = ask_now(&python, nranks, looks_everywhere, seconds, why);
  if (answer && strcmp(answer, "?") == 0) {
    pthread_mutex_lock(&ddp_lock);
    begin_asking_ddp(&python, nranks);
    *later = of_ddp != NULL;
    pthread_mutex_unlock(&ddp_lock);
    free(answer);
    answer = NULL;
    snprintf(why, TAGC_TORCH_WHY, "no thread can ask DDP");
  }
  struct tagc_model *model = answer ? tagc_torch_read(answer, digest, why) : NULL;
  free(answer);
  return model;
}
