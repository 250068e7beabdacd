# SPDX-License-Identifier: BSD-3-Clause
# One flat list of TAP programs: unit/ links the convenience library, e2e/ runs the preload library on the stand-in.
TEST_LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
TEST_EXTENSIONS = .test
AM_TESTS_ENVIRONMENT = abs_top_srcdir='$(abs_top_srcdir)'; abs_top_builddir='$(abs_top_builddir)'; \
  export abs_top_srcdir abs_top_builddir;

UNIT_CFLAGS = $(AM_CFLAGS) -ffp-contract=off
UNIT_LIBS = libtagc.a -lm -lpthread
EXTRA_DIST += tests/unit/tap.h

# Our own NCCL header against the real one.
EXTRA_DIST += tests/unit/abi_table.h interpose/abi/nccl.h interpose/nccl_newer.h
if REAL_NCCL_H
check_PROGRAMS += tests/unit/test_abi
TESTS += tests/unit/test_abi
tests_unit_test_abi_SOURCES = tests/unit/test_abi.c tests/unit/abi_ours.c
endif

# Codecs.
EXTRA_DIST += tests/unit/codec_sim.h
check_PROGRAMS += tests/unit/test_codec_none
TESTS += tests/unit/test_codec_none
tests_unit_test_codec_none_SOURCES = tests/unit/test_codec_none.c
tests_unit_test_codec_none_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_codec_none_LDADD = $(UNIT_LIBS)
check_PROGRAMS += tests/unit/test_codec_bits
TESTS += tests/unit/test_codec_bits
tests_unit_test_codec_bits_SOURCES = tests/unit/test_codec_bits.c
tests_unit_test_codec_bits_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_codec_bits_LDADD = $(UNIT_LIBS)
check_PROGRAMS += tests/unit/test_lhc_exact
TESTS += tests/unit/test_lhc_exact
tests_unit_test_lhc_exact_SOURCES = tests/unit/test_lhc_exact.c
tests_unit_test_lhc_exact_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_lhc_exact_LDADD = $(UNIT_LIBS)
check_PROGRAMS += tests/unit/test_lhc_residual
TESTS += tests/unit/test_lhc_residual
tests_unit_test_lhc_residual_SOURCES = tests/unit/test_lhc_residual.c
tests_unit_test_lhc_residual_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_lhc_residual_LDADD = $(UNIT_LIBS)
check_PROGRAMS += tests/unit/test_lhc_exceptions
TESTS += tests/unit/test_lhc_exceptions
tests_unit_test_lhc_exceptions_SOURCES = tests/unit/test_lhc_exceptions.c
tests_unit_test_lhc_exceptions_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_lhc_exceptions_LDADD = $(UNIT_LIBS)
check_PROGRAMS += tests/unit/test_lhc_layout
TESTS += tests/unit/test_lhc_layout
tests_unit_test_lhc_layout_SOURCES = tests/unit/test_lhc_layout.c
tests_unit_test_lhc_layout_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_lhc_layout_LDADD = $(UNIT_LIBS)
check_PROGRAMS += tests/unit/test_lhc_stuck
TESTS += tests/unit/test_lhc_stuck
tests_unit_test_lhc_stuck_SOURCES = tests/unit/test_lhc_stuck.c
tests_unit_test_lhc_stuck_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_lhc_stuck_LDADD = $(UNIT_LIBS)
check_PROGRAMS += tests/unit/test_lhc_variants
TESTS += tests/unit/test_lhc_variants
tests_unit_test_lhc_variants_SOURCES = tests/unit/test_lhc_variants.c
tests_unit_test_lhc_variants_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_lhc_variants_LDADD = $(UNIT_LIBS)
