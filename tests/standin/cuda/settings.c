/* SPDX-License-Identifier: BSD-3-Clause
 * The settings of the driver, from the environment. An invalid one ends the process: the test would show nothing.
 *
 *   CUDA_STANDIN_DEVICES=N           devices (1)
 *   CUDA_STANDIN_DRIVER=N            cuDriverGetVersion (13000); older ones refuse binaries, and newer PTX than theirs
 *   CUDA_STANDIN_CAPABILITY=N        of the devices (80: 8.0)
 *   CUDA_STANDIN_MULTIPROCESSORS=N   of each device (4)
 *   CUDA_STANDIN_MEMORY=MIB          of each device (8192)
 *   CUDA_STANDIN_KERNELS=PATH:...    shared objects with kernels, opened at the first module (kernels.so beside the
 *   driver)
 *   CUDA_STANDIN_DELAY=US            every piece of work waits for up to that many microseconds before it runs (0)
 *   CUDA_STANDIN_LAZY=1              work waits until something waits for it or queries it (0)
 *   CUDA_STANDIN_SEED=N              of the delays, and of the order in which the threads of kernels begin (0: natural)
 *   CUDA_STANDIN_CODE=CODE           how kernels run: as the host's code (host), as PTX for sm_75 (sm75), or as PTX for
 *                                    compute_80 (compute80, which CUDA_STANDIN_PTX names). A device that runs PTX
 *                                    refuses binaries. (host)
 *   CUDA_STANDIN_PTX=FILE            the PTX of every module, whatever is loaded
 *   CUDA_STANDIN_SCHEDULE=SEED       parts of warps, warps and blocks of PTX take turns at random (0: they do not)
 *   CUDA_STANDIN_STOP=1              the first finding in PTX ends the process (0)
 *   CUDA_STANDIN_COUNTS=FILE         what each kernel cost as PTX is added to it at the end
 *   CUDA_STANDIN_ORDER=0             the order of work on the same memory is not checked (1)
 *   CUDA_STANDIN_SELF_TEST=1         the library runs its self-test of the kernels (0)
 *   CUDA_STANDIN_POOLS=0             the devices have no memory pools (1)
 *   CUDA_STANDIN_PITCH=BYTES         the largest pitch of copied rows (2147483647)
 *   CUDA_STANDIN_FAULT=CALL:N[+][=ERROR],...
 *                                    the Nth call (with +: from the Nth on) returns ERROR, a number. CALL is one of
 *                                    alloc, context (retain), copy (and memset), event (create, record), free (in
 *                                    stream order), function, launch, module, pointer (attributes), pool (create,
 *                                    access), stream (create), sync, wait (for an event), and run: the Nth piece of
 *                                    work fails instead of running, and its context with it.
 */
#include "tests/standin/cuda/driver.h"
#include "tests/standin/cuda/standin.h"

#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fault {
  uint64_t nth; /* 0: none */
  bool and_on;
  CUresult error;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct standin_settings settings;
static struct fault faults[CALLS];
static atomic_uint_fast64_t calls[CALLS];

static const struct {
  const char *name;
  CUresult error; /* if the fault names none */
} known_calls[CALLS] = {
  [CALL_ALLOC] = {"alloc", CUDA_ERROR_OUT_OF_MEMORY},
  [CALL_CONTEXT] = {"context", CUDA_ERROR_OUT_OF_MEMORY},
  [CALL_COPY] = {"copy", CUDA_ERROR_UNKNOWN},
  [CALL_EVENT] = {"event", CUDA_ERROR_OUT_OF_MEMORY},
  [CALL_FREE] = {"free", CUDA_ERROR_INVALID_VALUE},
  [CALL_FUNCTION] = {"function", CUDA_ERROR_NOT_FOUND},
  [CALL_LAUNCH] = {"launch", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES},
  [CALL_MODULE] = {"module", CUDA_ERROR_NO_BINARY_FOR_GPU},
  [CALL_POINTER] = {"pointer", CUDA_ERROR_INVALID_VALUE},
  [CALL_POOL] = {"pool", CUDA_ERROR_NOT_SUPPORTED},
  [CALL_RUN] = {"run", CUDA_ERROR_ILLEGAL_ADDRESS},
  [CALL_STREAM] = {"stream", CUDA_ERROR_OUT_OF_MEMORY},
  [CALL_SYNC] = {"sync", CUDA_ERROR_LAUNCH_FAILED},
  [CALL_WAIT] = {"wait", CUDA_ERROR_INVALID_HANDLE},
};

void standin_die(const char *format, ...) {
  char text[4096] = "CUDA stand-in: ";
  size_t length = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + length, sizeof text - length - 1, format, arguments);
  va_end(arguments);
  length = strlen(text);
  text[length++] = '\n';
  if (write(STDERR_FILENO, text, length) < 0)
    _exit(2);
  abort();
}

uint64_t standin_mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static _Noreturn void not_understood(const char *name, const char *value) {
  fprintf(stderr, "CUDA stand-in: %s=%s is not understood\n", name, value);
  _exit(2);
}

static long number(const char *name, long otherwise, long least, long most) {
  const char *text = getenv(name);
  if (!text || !*text)
    return otherwise;
  char *end;
  long value = strtol(text, &end, 10);
  if (*end || value < least || value > most)
    not_understood(name, text);
  return value;
}

static bool plays_ptx(void) {
  const char *code = getenv("CUDA_STANDIN_CODE");
  if (!code || !*code || strcmp(code, "host") == 0)
    return false;
  if (strcmp(code, "sm75") != 0 && (strcmp(code, "compute80") != 0 || !getenv("CUDA_STANDIN_PTX")))
    not_understood("CUDA_STANDIN_CODE", code);
  return true;
}

/* Parses one fault of the list; false if it is malformed. */
static bool parse_fault(const char *text) {
  char name[16], more[2] = "";
  unsigned long long nth;
  int used = 0, error = 0;
  if (sscanf(text, "%15[a-z]:%llu%n%1[+]%n", name, &nth, &used, more, &used) < 2 || nth == 0)
    return false;
  if (text[used] == '=') {
    int digits = 0;
    if (sscanf(text + used + 1, "%d%n", &error, &digits) != 1 || error <= 0)
      return false;
    used += 1 + digits;
  }
  for (int i = 0; i < CALLS; i++)
    if (strcmp(name, known_calls[i].name) == 0) {
      faults[i] = (struct fault){nth, more[0] == '+', error ? error : known_calls[i].error};
      return text[used] == '\0';
    }
  return false;
}

static void setup(void) {
  settings = (struct standin_settings){
    .devices = number("CUDA_STANDIN_DEVICES", 1, 0, DEVICES),
    .driver = number("CUDA_STANDIN_DRIVER", 13000, 1, INT_MAX),
    .capability = number("CUDA_STANDIN_CAPABILITY", 80, 10, 999),
    .multiprocessors = number("CUDA_STANDIN_MULTIPROCESSORS", 4, 1, 1024),
    .memory = (size_t)number("CUDA_STANDIN_MEMORY", 8192, 1, 1 << 20) << 20,
    .delay_us = number("CUDA_STANDIN_DELAY", 0, 0, 1000000),
    .seed = number("CUDA_STANDIN_SEED", 0, 0, LONG_MAX),
    .lazy = number("CUDA_STANDIN_LAZY", 0, 0, 1),
    .order = number("CUDA_STANDIN_ORDER", 1, 0, 1),
    .pools = number("CUDA_STANDIN_POOLS", 1, 0, 1),
    .self_test = number("CUDA_STANDIN_SELF_TEST", 0, 0, 1),
    .pitch = number("CUDA_STANDIN_PITCH", INT_MAX, 1, INT_MAX),
    .kernels = getenv("CUDA_STANDIN_KERNELS"),
    .plays_ptx = plays_ptx(),
    .counts = getenv("CUDA_STANDIN_COUNTS"),
    .ptx = getenv("CUDA_STANDIN_PTX"),
    .stops = number("CUDA_STANDIN_STOP", 0, 0, 1),
    .schedule = number("CUDA_STANDIN_SCHEDULE", 0, 0, LONG_MAX),
  };
  const char *list = getenv("CUDA_STANDIN_FAULT");
  char *copy = list ? strdup(list) : NULL, *rest = copy;
  for (char *one = copy; one && *one; one = rest) {
    rest = one + strcspn(one, ",");
    if (*rest)
      *rest++ = '\0';
    if (!parse_fault(one))
      not_understood("CUDA_STANDIN_FAULT", list);
  }
  free(copy);
}

const struct standin_settings *standin_settings(void) {
  pthread_once(&once, setup);
  return &settings;
}

CUresult standin_fault(enum standin_call call) {
  pthread_once(&once, setup);
  const struct fault *fault = &faults[call];
  if (!fault->nth)
    return CUDA_SUCCESS;
  uint64_t now = atomic_fetch_add(&calls[call], 1) + 1;
  return now == fault->nth || (fault->and_on && now > fault->nth) ? fault->error : CUDA_SUCCESS;
}

CUDA_API int standin_cuda_wants_self_test(void) { return standin_settings()->self_test; }
