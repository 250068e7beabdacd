# SPDX-License-Identifier: BSD-3-Clause
# hierarchy/: hosts of several ranks.
e2e_tests += %D%/levels.test %D%/exact_levels.test %D%/two_hosts.test %D%/levels_life.test
check_PROGRAMS += %D%/levels %D%/levels_life %D%/moments.so
EXTRA_DIST += %D%/moments.h
%C%_levels_life_LDADD = %D%/moments.so $(LDADD)
%C%_levels_life_LDFLAGS = $(AM_LDFLAGS) '-Wl,-rpath,$(abs_builddir)/%D%'
%C%_moments_so_SOURCES = %D%/moments.c
%C%_moments_so_CFLAGS = $(of_shared_objects)
%C%_moments_so_LDFLAGS = $(to_shared_objects) -Wl,-soname,moments.so
%C%_moments_so_LDADD = tests/standin/libnccl.so
