/* SPDX-License-Identifier: BSD-3-Clause
 * An installed program that was linked on a new system starts on an old one, from glibc 2.28 on (see env/glibc.h). The
 * compiler's start file calls __libc_start_main, which has a version of 2.34. The linker turns that call into one of
 * the function below (--wrap, in Makefile.am), which calls the first version. That has the same arguments.
 *
 * Since 2.34 the start file gives no `init`, and libc finds the constructors itself. An older libc does not.
 */
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>

typedef int main_function(int argc, char **argv, char **environment);
typedef void init_function(int argc, char **argv, char **environment);

int tagc_first_libc_start(main_function *main, int argc, char **argv, init_function *init, void (*fini)(void),
                          void (*end_loader)(void), void *stack_end);
#if defined __x86_64__
__asm__(".symver tagc_first_libc_start, __libc_start_main@GLIBC_2.2.5");
#elif defined __aarch64__
__asm__(".symver tagc_first_libc_start, __libc_start_main@GLIBC_2.17");
#endif

/* The linker and the compiler's start files define these. */
extern init_function *const __init_array_start[] __attribute__((visibility("hidden")));
extern init_function *const __init_array_end[] __attribute__((visibility("hidden")));
void _init(void) __attribute__((visibility("hidden")));

static void run_constructors(int argc, char **argv, char **environment) {
  _init();
  for (init_function *const *f = __init_array_start; f < __init_array_end; f++)
    (*f)(argc, argv, environment);
}

int __wrap___libc_start_main(main_function *main, int argc, char **argv, init_function *init, void (*fini)(void),
                             void (*end_loader)(void), void *stack_end);
int __wrap___libc_start_main(main_function *main, int argc, char **argv, init_function *init, void (*fini)(void),
                             void (*end_loader)(void), void *stack_end) {
  return tagc_first_libc_start(main, argc, argv, init ? init : run_constructors, fini, end_loader, stack_end);
}

/* For libelf.a and libjansson.a, which were not compiled with env/glibc.h. Headers from 2.38 on gave them C23's names,
 * which the linker turns into these (--wrap, too). */
int tagc_plain_fstat(int file, struct stat *status) __asm__("fstat") __attribute__((visibility("hidden")));
int tagc_plain_fstat(int file, struct stat *status) { return fstat(file, status); }

long __wrap___isoc23_strtol(const char *text, char **end, int base);
long __wrap___isoc23_strtol(const char *text, char **end, int base) { return strtol(text, end, base); }

long long __wrap___isoc23_strtoll(const char *text, char **end, int base);
long long __wrap___isoc23_strtoll(const char *text, char **end, int base) { return strtoll(text, end, base); }
