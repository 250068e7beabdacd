/* SPDX-License-Identifier: BSD-3-Clause
 * What was built on a new system must run with old C libraries, from glibc 2.28 on (RHEL 8, Ubuntu 20.04,
 * manylinux_2_28). Every object of the library and of the installed programs includes this first and so binds versions
 * from before 2.28 (Makefile.am; not with sanitizers, whose functions have the plain names).
 * tests/e2e/project/hardening.test reports missing lines. Before 2.34 these functions were in libpthread and libdl, so
 * the library and the programs need both by name.
 */
#ifndef ENV_GLIBC_H
#define ENV_GLIBC_H

#include <sys/stat.h>

#if defined __x86_64__
#define BIND(name, old, version) __asm__(".symver " #name ", " #old "@GLIBC_" version)
enum { TAGC_STAT_LAYOUT = 1 };
#elif defined __aarch64__ /* its first version was 2.17 */
#define BIND(name, old, version) __asm__(".symver " #name ", " #old "@GLIBC_2.17")
enum { TAGC_STAT_LAYOUT = 0 };
#endif

BIND(dlclose, dlclose, "2.2.5");
BIND(dlerror, dlerror, "2.2.5");
BIND(dlopen, dlopen, "2.2.5");
BIND(dlsym, dlsym, "2.2.5");
BIND(dlvsym, dlvsym, "2.2.5");
BIND(pthread_condattr_setclock, pthread_condattr_setclock, "2.3.3");
BIND(pthread_create, pthread_create, "2.2.5");
BIND(pthread_key_create, pthread_key_create, "2.2.5");
BIND(pthread_mutex_trylock, pthread_mutex_trylock, "2.2.5");
BIND(pthread_mutexattr_init, pthread_mutexattr_init, "2.2.5");
BIND(pthread_mutexattr_settype, pthread_mutexattr_settype, "2.2.5");
BIND(pthread_once, pthread_once, "2.2.5");
BIND(pthread_rwlock_rdlock, pthread_rwlock_rdlock, "2.2.5");
BIND(pthread_rwlock_unlock, pthread_rwlock_unlock, "2.2.5");
BIND(pthread_rwlock_wrlock, pthread_rwlock_wrlock, "2.2.5");
BIND(pthread_setname_np, pthread_setname_np, "2.12");
BIND(pthread_setspecific, pthread_setspecific, "2.2.5");
BIND(pthread_sigmask, pthread_sigmask, "2.2.5");

/* Headers from 2.38 on use these names for C23's versions. */
BIND(__isoc23_sscanf, __isoc99_sscanf, "2.7");
BIND(__isoc23_strtol, strtol, "2.2.5");
BIND(__isoc23_strtoll, strtoll, "2.2.5");
BIND(__isoc23_strtoull, strtoull, "2.2.5");

/* Programs alone use libm. The versions since 2.29 differ from these in errors, not in results. */
BIND(exp, exp, "2.2.5");
BIND(exp2, exp2, "2.2.5");
BIND(log, log, "2.2.5");
BIND(log2, log2, "2.2.5");
BIND(pow, pow, "2.2.5");

/* Functions since 2.33; earlier headers define them through these. */
int __fxstat(int layout, int file, struct stat *status);
int __lxstat(int layout, const char *path, struct stat *status);
int __xstat(int layout, const char *path, struct stat *status);
#define fstat(file, status) __fxstat(TAGC_STAT_LAYOUT, file, status)
#define lstat(path, status) __lxstat(TAGC_STAT_LAYOUT, path, status)
#define stat(path, status) __xstat(TAGC_STAT_LAYOUT, path, status)

#undef BIND
#endif
