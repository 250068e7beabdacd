# SPDX-License-Identifier: BSD-3-Clause
# broadcast/: broadcasts that repeat (TAGC_BROADCAST).
e2e_tests += %D%/broadcasts.test %D%/broken_broadcasts.test
check_PROGRAMS += %D%/broadcasts %D%/broken_broadcasts
%C%_broken_broadcasts_LDADD = tests/e2e/hierarchy/moments.so $(LDADD)
%C%_broken_broadcasts_LDFLAGS = $(AM_LDFLAGS) '-Wl,-rpath,$(abs_builddir)/tests/e2e/hierarchy'
