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

# Cycles and selections.
EXTRA_DIST += tests/unit/tape.h tests/unit/watch.h
check_PROGRAMS += tests/unit/test_cycle
TESTS += tests/unit/test_cycle
tests_unit_test_cycle_SOURCES = tests/unit/test_cycle.c
tests_unit_test_cycle_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_cycle_LDADD = $(UNIT_LIBS)
check_PROGRAMS += tests/unit/test_cycle_follow
TESTS += tests/unit/test_cycle_follow
tests_unit_test_cycle_follow_SOURCES = tests/unit/test_cycle_follow.c
tests_unit_test_cycle_follow_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_cycle_follow_LDADD = $(UNIT_LIBS)
check_PROGRAMS += tests/unit/test_cycle_random
TESTS += tests/unit/test_cycle_random
tests_unit_test_cycle_random_SOURCES = tests/unit/test_cycle_random.c
tests_unit_test_cycle_random_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_cycle_random_LDADD = $(UNIT_LIBS)
check_PROGRAMS += tests/unit/test_select
TESTS += tests/unit/test_select
tests_unit_test_select_SOURCES = tests/unit/test_select.c
tests_unit_test_select_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_select_LDADD = $(UNIT_LIBS)

# -- unit tests ------------------------------------------------------------------------------------------------------
unit_tests = tests/unit/test_options tests/unit/test_plan
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)

tests_unit_test_options_SOURCES = tests/unit/test_options.c
tests_unit_test_options_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_options_LDADD = $(UNIT_LIBS)

tests_unit_test_plan_SOURCES = tests/unit/test_plan.c
tests_unit_test_plan_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_plan_LDADD = $(UNIT_LIBS)

# -- end-to-end tests: the preload library in front of programs on the stand-in -------------------------------------------
e2e_scripts = tests/e2e/dlsym.test tests/e2e/preload.test tests/e2e/reduce_scatter.test tests/e2e/source_rules.test tests/e2e/steps.test
dist_check_SCRIPTS += $(e2e_scripts)
TESTS += $(e2e_scripts)
EXTRA_DIST += tests/e2e/lib.sh tests/e2e/harness.h
E2E_LIBS = -Ltests/standin -lnccl -lm
E2E_LINK = $(AM_LDFLAGS) -Wl,-rpath,'$$ORIGIN/../standin'

e2e_programs = tests/e2e/dlsym_user tests/e2e/no_nccl tests/e2e/reduce_scatter tests/e2e/steps
check_PROGRAMS += $(e2e_programs)

tests_e2e_dlsym_user_SOURCES = tests/e2e/dlsym_user.c
tests_e2e_no_nccl_SOURCES = tests/e2e/no_nccl.c

tests_e2e_reduce_scatter_SOURCES = tests/e2e/reduce_scatter.c
tests_e2e_reduce_scatter_LDADD = libtagc.a $(E2E_LIBS)
tests_e2e_reduce_scatter_LDFLAGS = $(E2E_LINK)
tests_e2e_reduce_scatter_DEPENDENCIES = libtagc.a tests/standin/libnccl.so.2

tests_e2e_steps_SOURCES = tests/e2e/steps.c
tests_e2e_steps_LDADD = $(E2E_LIBS)
tests_e2e_steps_LDFLAGS = $(E2E_LINK)
tests_e2e_steps_DEPENDENCIES = tests/standin/libnccl.so.2

# -- benchmarks: commands of their own, never part of a test ---------------------------------------------------------------
check_PROGRAMS += tests/bench/overhead
tests_bench_overhead_SOURCES = tests/bench/overhead.c
tests_bench_overhead_LDADD = $(E2E_LIBS)
tests_bench_overhead_LDFLAGS = $(E2E_LINK)
tests_bench_overhead_DEPENDENCIES = tests/standin/libnccl.so.2
EXTRA_DIST += tests/bench/overhead.sh

# -- the fuzzer (clang) ----------------------------------------------------------------------------------------------------
EXTRA_DIST += tests/fuzz/options.c
FUZZ_SECONDS = 20
fuzz: tests/fuzz/options
	tests/fuzz/options -max_total_time=$(FUZZ_SECONDS) -max_len=512 -print_final_stats=1 \
	  -artifact_prefix=tests/fuzz/ 2>&1 | tail -n 8
tests/fuzz/options: $(srcdir)/tests/fuzz/options.c $(srcdir)/env/options.c $(srcdir)/env/options.def
	$(MKDIR_P) tests/fuzz
	$(CC) $(DEFS) $(AM_CPPFLAGS) -std=gnu11 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -o $@ \
	  $(srcdir)/tests/fuzz/options.c $(srcdir)/env/options.c $(srcdir)/env/log.c $(srcdir)/layermap/select.c
CLEANFILES += tests/fuzz/options
.PHONY: fuzz
