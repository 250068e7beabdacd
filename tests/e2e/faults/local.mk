# SPDX-License-Identifier: BSD-3-Clause
# faults/: dead ranks, broken connections, no memory, no descriptors, signals.
e2e_tests += %D%/broken_calls.test %D%/faults_exact.test %D%/faults_gathers.test %D%/faults_levels.test %D%/faults_memory.test \
  %D%/faults_ranks.test %D%/faults_system.test
check_PROGRAMS += %D%/broken_calls %D%/faults %D%/failing_malloc.so
EXTRA_DIST += %D%/broken.h %D%/faults_lib.sh
%C%_broken_calls_LDADD = tests/e2e/hierarchy/moments.so $(LDADD)
%C%_broken_calls_LDFLAGS = $(AM_LDFLAGS) '-Wl,-rpath,$(abs_builddir)/tests/e2e/hierarchy'
%C%_failing_malloc_so_SOURCES = %D%/failing_malloc.c
%C%_failing_malloc_so_CFLAGS = $(of_shared_objects) -fno-builtin
%C%_failing_malloc_so_LDFLAGS = $(to_shared_objects)
%C%_failing_malloc_so_LDADD =
