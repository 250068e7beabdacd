# SPDX-License-Identifier: BSD-3-Clause
# One flat list of TAP programs: unit/ links the convenience library, e2e/ runs the preload library on the stand-in.
TEST_LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
TEST_EXTENSIONS = .test
AM_TESTS_ENVIRONMENT = abs_top_srcdir='$(abs_top_srcdir)'; abs_top_builddir='$(abs_top_builddir)'; \
  export abs_top_srcdir abs_top_builddir;

UNIT_CFLAGS = $(AM_CFLAGS) -ffp-contract=off
UNIT_LDADD = libtagc.a -lm -lpthread
EXTRA_DIST += tests/unit/tap.h
