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

# The example trainer.
EXTRA_DIST += tests/e2e/trainer_lib.sh
check_PROGRAMS += tests/e2e/trainer_rendezvous
TESTS += tests/e2e/trainer_rendezvous
tests_e2e_trainer_rendezvous_SOURCES = tests/e2e/trainer_rendezvous.c
dist_check_SCRIPTS += tests/e2e/trainer_gradients.test tests/e2e/trainer_options.test tests/e2e/trainer_ranks.test
if HAVE_BLAS
TESTS += tests/e2e/trainer_gradients.test tests/e2e/trainer_options.test tests/e2e/trainer_ranks.test
endif

# The stand-in for NCCL itself.
standin_programs = tests/e2e/standin_collectives tests/e2e/standin_groups tests/e2e/standin_comms tests/e2e/standin_bytes
check_PROGRAMS += $(standin_programs)
dist_check_SCRIPTS += tests/e2e/standin.test tests/e2e/standin_launch.test
TESTS += tests/e2e/standin.test tests/e2e/standin_launch.test
EXTRA_DIST += tests/e2e/standin_check.h tests/e2e/standin_rendezvous.h
tests_e2e_standin_collectives_SOURCES = tests/e2e/standin_collectives.c
tests_e2e_standin_collectives_LDADD = $(STANDIN_LIBS) -lm
tests_e2e_standin_collectives_LDFLAGS = $(AM_LDFLAGS) $(STANDIN_RPATH)
tests_e2e_standin_collectives_DEPENDENCIES = tests/standin/libnccl.so
tests_e2e_standin_groups_SOURCES = tests/e2e/standin_groups.c
tests_e2e_standin_groups_LDADD = $(STANDIN_LIBS) -lm
tests_e2e_standin_groups_LDFLAGS = $(AM_LDFLAGS) $(STANDIN_RPATH)
tests_e2e_standin_groups_DEPENDENCIES = tests/standin/libnccl.so
tests_e2e_standin_comms_SOURCES = tests/e2e/standin_comms.c
tests_e2e_standin_comms_LDADD = $(STANDIN_LIBS) -lm -lpthread
tests_e2e_standin_comms_LDFLAGS = $(AM_LDFLAGS) $(STANDIN_RPATH)
tests_e2e_standin_comms_DEPENDENCIES = tests/standin/libnccl.so
tests_e2e_standin_bytes_SOURCES = tests/e2e/standin_bytes.c
tests_e2e_standin_bytes_LDADD = $(STANDIN_LIBS) -lm
tests_e2e_standin_bytes_LDFLAGS = $(AM_LDFLAGS) $(STANDIN_RPATH)
tests_e2e_standin_bytes_DEPENDENCIES = tests/standin/libnccl.so
