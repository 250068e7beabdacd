# SPDX-License-Identifier: BSD-3-Clause
# One flat list of TAP programs: unit/ links the convenience library, e2e/ runs the preload library on the stand-in.
# A program without further lines is made of the one source file of its name, and links what it uses of $(LDADD).
TEST_LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
TEST_EXTENSIONS = .test
AM_TESTS_ENVIRONMENT = abs_top_srcdir='$(abs_top_srcdir)'; abs_top_builddir='$(abs_top_builddir)'; \
  export abs_top_srcdir abs_top_builddir;

LDADD = libtagc.a tests/standin/libnccl.so -lm -lpthread

# -- unit tests --------------------------------------------------------------------------------------------------------
unit_tests = \
  tests/unit/test_codec_bits tests/unit/test_codec_none \
  tests/unit/test_cycle tests/unit/test_cycle_follow tests/unit/test_cycle_random \
  tests/unit/test_lhc_exact tests/unit/test_lhc_exceptions tests/unit/test_lhc_layout tests/unit/test_lhc_residual \
  tests/unit/test_lhc_stuck tests/unit/test_lhc_variants \
  tests/unit/test_options tests/unit/test_plan tests/unit/test_select
EXTRA_DIST += tests/unit/tap.h tests/unit/codec_sim.h tests/unit/tape.h tests/unit/watch.h

# Our own NCCL header against the real one.
EXTRA_DIST += tests/unit/abi_table.h
if REAL_NCCL_H
unit_tests += tests/unit/test_abi
tests_unit_test_abi_SOURCES = tests/unit/test_abi.c tests/unit/abi_ours.c
endif

check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)

# -- end-to-end tests: the preload library in front of programs on the stand-in ------------------------------------------
e2e_scripts = \
  tests/e2e/dlsym.test tests/e2e/manual.test tests/e2e/passthrough.test tests/e2e/preload.test \
  tests/e2e/reduce_scatter.test tests/e2e/return_codes.test \
  tests/e2e/source_rules.test tests/e2e/steps.test tests/e2e/threads.test
e2e_scripts += tests/e2e/doctor.test
dist_check_SCRIPTS += $(e2e_scripts)
TESTS += $(e2e_scripts)
EXTRA_DIST += tests/e2e/lib.sh tests/e2e/harness.h

check_PROGRAMS += tests/e2e/dlsym_user tests/e2e/no_nccl tests/e2e/reduce_scatter tests/e2e/return_codes \
  tests/e2e/steps tests/e2e/threads

# The stand-in for NCCL itself.
standin_scripts = tests/e2e/standin.test tests/e2e/standin_launch.test
dist_check_SCRIPTS += $(standin_scripts)
TESTS += $(standin_scripts)
check_PROGRAMS += tests/e2e/standin_bytes tests/e2e/standin_collectives tests/e2e/standin_comms tests/e2e/standin_groups
EXTRA_DIST += tests/e2e/standin_check.h tests/e2e/standin_rendezvous.h

# The example trainer.
EXTRA_DIST += tests/e2e/trainer_lib.sh
trainer_scripts = tests/e2e/trainer_gradients.test tests/e2e/trainer_options.test tests/e2e/trainer_ranks.test
dist_check_SCRIPTS += $(trainer_scripts)
check_PROGRAMS += tests/e2e/trainer_rendezvous
TESTS += tests/e2e/trainer_rendezvous
if HAVE_BLAS
TESTS += $(trainer_scripts)
endif

# -- benchmarks: commands of their own, never part of a test -------------------------------------------------------------
check_PROGRAMS += tests/bench/overhead
EXTRA_DIST += tests/bench/overhead.sh tests/bench/RESULTS.md

# -- the fuzzer (clang) ----------------------------------------------------------------------------------------------------
EXTRA_DIST += tests/fuzz/options.c
FUZZ_SECONDS = 20
fuzz: tests/fuzz/options
	tests/fuzz/options -max_total_time=$(FUZZ_SECONDS) -max_len=512 -print_final_stats=1 \
	  -artifact_prefix=tests/fuzz/ >tests/fuzz/options.log 2>&1 || { tail -n 40 tests/fuzz/options.log; exit 1; }
	@grep -E 'number_of_executed_units' tests/fuzz/options.log
tests/fuzz/options: tests/fuzz/options.c env/options.c env/options.def layermap/select.c
	$(AM_V_CCLD)$(MKDIR_P) tests/fuzz && $(CC) $(DEFS) $(AM_CPPFLAGS) -std=gnu11 -g -O1 \
	  -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -o $@ $(srcdir)/tests/fuzz/options.c \
	  $(srcdir)/env/options.c $(srcdir)/env/log.c $(srcdir)/layermap/select.c
CLEANFILES += tests/fuzz/options tests/fuzz/options.log
.PHONY: fuzz

# The reader of ELF images (libelf), from small images of both hash tables, stripped and not.
elf_fuzz_files = $(srcdir)/tests/fuzz/elf.c $(srcdir)/interpose/doctor_elf.c
elf_seed_flags = -DELF_SEED -Os -fPIC -shared -nostdlib -fno-asynchronous-unwind-tables -Wl,--build-id=none \
  -Wl,-z,noseparate-code -Wl,--unresolved-symbols=ignore-all -Wl,-rpath,'$$ORIGIN'
EXTRA_DIST += tests/fuzz/elf.c
fuzz-elf: tests/fuzz/elf
	rm -rf tests/fuzz/elf.corpus && $(MKDIR_P) tests/fuzz/elf.corpus
	$(CC) $(elf_seed_flags) -Wl,-soname,libnccl.so.2 -o tests/fuzz/elf.corpus/gnu $(srcdir)/tests/fuzz/elf.c
	$(CC) $(elf_seed_flags) -s -Wl,--hash-style=sysv -o tests/fuzz/elf.corpus/sysv $(srcdir)/tests/fuzz/elf.c
	tests/fuzz/elf -max_total_time=$(FUZZ_SECONDS) -max_len=16384 -print_final_stats=1 -artifact_prefix=tests/fuzz/ \
	  tests/fuzz/elf.corpus >tests/fuzz/elf.log 2>&1 || { tail -n 40 tests/fuzz/elf.log; exit 1; }
	@grep -E 'number_of_executed_units' tests/fuzz/elf.log
tests/fuzz/elf: $(elf_fuzz_files) interpose/doctor_elf.h interpose/entries.def
	$(AM_V_CCLD)$(MKDIR_P) tests/fuzz && $(CC) $(DEFS) $(AM_CPPFLAGS) -std=gnu11 -g -O1 \
	  -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -o $@ $(elf_fuzz_files) $(LIBELF_LIBS)
CLEANFILES += tests/fuzz/elf tests/fuzz/elf.log
clean-local:
	rm -rf tests/fuzz/elf.corpus
.PHONY: fuzz-elf

# -- which tests run in which of the builds of `./quickstart check` --------------------------------------------------------
# All of them with gcc. The others take what their build could break.
print-tests-abi: ; @echo $(unit_tests) tests/e2e/return_codes.test tests/e2e/preload.test
print-tests-clang: ; @echo $(unit_tests) tests/e2e/steps.test tests/e2e/doctor.test
print-tests-asan: ; @echo $(unit_tests) tests/e2e/dlsym.test tests/e2e/reduce_scatter.test tests/e2e/steps.test \
  tests/e2e/threads.test tests/e2e/doctor.test
print-tests-tsan: ; @echo tests/unit/test_options tests/e2e/steps.test tests/e2e/threads.test
.PHONY: print-tests-abi print-tests-clang print-tests-asan print-tests-tsan
