# SPDX-License-Identifier: BSD-3-Clause
# One flat list of TAP programs: unit/ links the convenience library, e2e/ runs the preload library on the stand-in.
# A program without further lines has one source file with its name, and links $(LDADD) as needed. Tests send signals to
# each other. nohup, a shell's background and Python ignore some of them, and programs would inherit that.
TEST_LOG_DRIVER = env $(ENV_DEFAULT_SIGNAL) AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
LOG_DRIVER = $(TEST_LOG_DRIVER)
TEST_EXTENSIONS = .test
AM_TESTS_ENVIRONMENT = abs_top_srcdir='$(abs_top_srcdir)'; abs_top_builddir='$(abs_top_builddir)'; \
  bin_programs='$(bin_PROGRAMS)'; export abs_top_srcdir abs_top_builddir bin_programs; \
  case $$f in %D%/gpu/run) ;; *) . '$(abs_top_srcdir)/%D%/environment.sh' ;; esac;

# The sanitizer of undefined behaviour costs half of a compiler's time for its checks of each address, and a third of a
# second a file. Fuzzers have these checks, and kernels as plain C that of alignment; elsewhere the sanitizer of addresses
# finds what matters. The code of tests, stand-ins and the trainer itself has no checks of undefined behaviour: what it
# includes of the library is checked there.
few_checks =
plain_checks =
test_checks =
if SANITIZED
if !FUZZERS
plain_checks += -fno-sanitize=null,object-size,pointer-overflow
few_checks += $(plain_checks) -fno-sanitize=alignment
env/%.o interpose/%.o layermap/%.o: SANITIZE_CFLAGS += $(few_checks)
examples/%.o tests/standin/%.o: SANITIZE_CFLAGS += -fno-sanitize=undefined
# These touch no memory of the library: the kernels that they run do. The interpreter of PTX checks each access itself.
# Each runs on one thread, and so do kernels: the driver's order.c finds those that meet other work on their memory.
tests/standin/cuda/ptx/%.o tests/standin/cuda/libcuda_so_1-emulator.o tests/standin/cuda/libcuda_so_1-fibre.o \
  tests/standin/cuda/libcuda_so_1-warp.o: SANITIZE_CFLAGS += -fno-sanitize=address -fno-sanitize=thread
endif
test_checks += -fno-sanitize=undefined
endif

# quickstart sets TEST_CFLAGS, for the code of tests alone: most of a compiler's time goes into optimisation. Programs that
# calculate for longer than a compiler optimises them are optimised all the same, and so is one that needs tail calls.
tests/unit/%.o tests/e2e/%.o: CFLAGS += $(test_checks) $(TEST_CFLAGS)
tests/e2e/calls/layouts.o tests/e2e/calls/reduce_scatter.o tests/e2e/calls/signatures.o \
  tests/e2e/faults/faults.o tests/e2e/hierarchy/levels.o tests/e2e/hierarchy/levels_life.o \
  tests/e2e/nccl/nccl_plugin_so-nccl_plugin.o tests/e2e/trace/trace.o tests/unit/allgather/test_exact.o \
  tests/unit/codec/test_residual.o tests/unit/lhc/test_exceptions.o tests/unit/lhc/test_variants.o \
  tests/unit/none/test_levels.o tests/unit/sparse/test_sparse.o: CFLAGS += $(if $(TEST_CFLAGS),-O1)
tests/e2e/calls/all_reduce.o tests/e2e/calls/averages.o tests/e2e/calls/contents.o tests/e2e/calls/depth.o tests/e2e/calls/gathers.o \
  tests/e2e/calls/steps.o tests/e2e/standin/standin_collectives.o tests/e2e/vote/auto.o tests/e2e/vote/budget.o \
  tests/unit/codec/test_chunks.o tests/unit/codec/test_exceptions.o tests/unit/lhc/test_exact.o \
  tests/unit/none/test_precise.o: CFLAGS += $(if $(TEST_CFLAGS),-O2)

# libFuzzer has a main() for fuzz targets; without it fuzz/replay.c has one, which no other program takes.
if FUZZERS
main_of_fuzz_target = $(FUZZ_LIBS)
LDADD = libtagc.a $(main_of_fuzz_target) -lm -lpthread
else
main_of_fuzz_target = tests/fuzz/libreplay.a
LDADD = libtagc.a tests/standin/libnccl.so $(main_of_fuzz_target) -lm -lpthread
endif

# -- unit tests: each room tests the room of the same name -------------------------------------------------------------
unit_tests =
cuda_tests =
tsan_cuda_tests =
to_driver = $(AM_LDFLAGS) '-Wl,-rpath,$(abs_builddir)/tests/standin/cuda'
EXTRA_DIST += %D%/fixtures %D%/unit/fixtures.h %D%/unit/tap.h %D%/unit/self.h %D%/unit/fake_nccl.h %D%/unit/watch.h \
  %D%/unit/disk.h
include $(srcdir)/%D%/unit/ab/local.mk
include $(srcdir)/%D%/unit/agree/local.mk
include $(srcdir)/%D%/unit/allgather/local.mk
include $(srcdir)/%D%/unit/broadcast/local.mk
include $(srcdir)/%D%/unit/budget/local.mk
include $(srcdir)/%D%/unit/codec/local.mk
include $(srcdir)/%D%/unit/comm/local.mk
include $(srcdir)/%D%/unit/cycle/local.mk
include $(srcdir)/%D%/unit/dense/local.mk
include $(srcdir)/%D%/unit/device/local.mk
include $(srcdir)/%D%/unit/env/local.mk
include $(srcdir)/%D%/unit/examples/local.mk
include $(srcdir)/%D%/unit/exec/local.mk
include $(srcdir)/%D%/unit/infer/local.mk
include $(srcdir)/%D%/unit/lhc/local.mk
include $(srcdir)/%D%/unit/metrics/local.mk
include $(srcdir)/%D%/unit/model/local.mk
include $(srcdir)/%D%/unit/nccl/local.mk
include $(srcdir)/%D%/unit/none/local.mk
include $(srcdir)/%D%/unit/policy/local.mk
include $(srcdir)/%D%/unit/profiler/local.mk
include $(srcdir)/%D%/unit/program/local.mk
include $(srcdir)/%D%/unit/sparse/local.mk
include $(srcdir)/%D%/unit/standin/local.mk
include $(srcdir)/%D%/unit/stats/local.mk
include $(srcdir)/%D%/unit/tagc-bench/local.mk
include $(srcdir)/%D%/unit/tagc-map/local.mk
include $(srcdir)/%D%/unit/tagc-report/local.mk
include $(srcdir)/%D%/unit/torch/local.mk
include $(srcdir)/%D%/unit/trace/local.mk
include $(srcdir)/%D%/unit/vote/local.mk
if HAVE_CXX
check_DATA += tests/standin/cuda/samples.so tests/standin/cuda/kernels.so
unit_tests += $(cuda_tests)
endif
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)

# -- end-to-end tests: the preload library in front of programs on the stand-in ----------------------------------------
e2e_tests =
# Shared objects of the tests.
of_shared_objects = $(LIBRARY_CFLAGS) -O2
to_shared_objects = $(SANITIZE_CFLAGS) -shared -Wl,--as-needed '-Wl,-rpath,$(abs_builddir)/tests/standin'
EXTRA_DIST += %D%/tap.sh %D%/environment.sh %D%/e2e/lib.sh %D%/e2e/harness.h
include $(srcdir)/%D%/e2e/broadcast/local.mk
include $(srcdir)/%D%/e2e/calls/local.mk
include $(srcdir)/%D%/e2e/api/local.mk
include $(srcdir)/%D%/e2e/vote/local.mk
include $(srcdir)/%D%/e2e/hierarchy/local.mk
include $(srcdir)/%D%/e2e/faults/local.mk
include $(srcdir)/%D%/e2e/nccl/local.mk
include $(srcdir)/%D%/e2e/torch/local.mk
include $(srcdir)/%D%/e2e/device/local.mk
include $(srcdir)/%D%/e2e/standin/local.mk
include $(srcdir)/%D%/e2e/trace/local.mk
include $(srcdir)/%D%/e2e/trainer/local.mk
include $(srcdir)/%D%/e2e/programs/local.mk
include $(srcdir)/%D%/e2e/project/local.mk
dist_check_SCRIPTS += $(e2e_tests)
TESTS += $(e2e_tests)
EXTRA_DIST += %D%/soak.sh %D%/coverage.sh %D%/RELIABILITY.md %D%/README.md
# Other processors, and a bare Debian: ./quickstart portable runs them, never a test.
EXTRA_DIST += %D%/portable/build_recipe.py %D%/portable/debian.sh %D%/portable/packages.sh %D%/portable/qemu.sh %D%/portable/try_package.sh
# Real PyTorch under the library: e2e/torch/programs.test runs a part of it where PyTorch is.
EXTRA_DIST += %D%/torch/README.md %D%/torch/run %D%/torch/own_tests %D%/torch/train.py %D%/torch/on_host/host_operators.py \
  %D%/torch/on_host/sitecustomize.py

# The host code of NVIDIA's NCCL: nccl-host/run builds it from its sources, which are not here.
EXTRA_DIST += %D%/nccl-host/README.md %D%/nccl-host/run %D%/nccl-host/device.mk %D%/nccl-host/kernels.cc \
  %D%/nccl-host/nccl.conf
check_PROGRAMS += %D%/nccl-host/communicators
%C%_nccl_host_communicators_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD) -lpthread
%C%_nccl_host_communicators_LDFLAGS = $(to_driver)

# -- tests on a real GPU: %D%/gpu/run is a separate command ------------------------------------------------------------
# Its programs are linked with the stand-ins, and find the real libraries by LD_LIBRARY_PATH.
dist_check_SCRIPTS += %D%/gpu/run
TESTS += %D%/gpu/run
EXTRA_DIST += %D%/gpu/RESULTS.md %D%/gpu/mutate %D%/gpu/forecast %D%/gpu/counts %D%/gpu/counts.txt
if HAVE_CXX
gpu_programs = %D%/gpu/goal %D%/gpu/ranks %D%/gpu/speed
check_PROGRAMS += $(gpu_programs)
%C%_gpu_ranks_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_gpu_ranks_LDFLAGS = $(to_driver)
%C%_gpu_goal_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_gpu_goal_LDFLAGS = $(to_driver)
%C%_gpu_speed_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_gpu_speed_LDFLAGS = $(to_driver)
endif
# The parts of a build that it needs. gpu-kit copies them, stripped, to a folder for another machine.
gpu_needs = libtagc-preload.so tagc-report $(gpu_programs) $(cuda_tests) tests/bench/overhead \
  tests/e2e/device/on_device tests/e2e/device/on_device_gathers tests/e2e/broadcast/broadcasts tests/e2e/trace/trace_times \
  tests/standin/launch tests/standin/libnccl.so.2
gpu-programs: all
	@$(MAKE) $(AM_MAKEFLAGS) $(gpu_needs)
gpu-kit: gpu-programs
	@rm -rf $@
	@for file in $(gpu_needs); do \
	  $(MKDIR_P) $@/`dirname $$file` && cp $$file $@/$$file || exit 1; strip -g $@/$$file 2>/dev/null; done; :
.PHONY: gpu-programs gpu-kit
clean_folders += gpu-kit

# -- benchmarks: separate commands, never part of a test ---------------------------------------------------------------
# The cost of following a program.
check_PROGRAMS += tests/bench/observe
check_PROGRAMS += tests/bench/overhead
EXTRA_DIST += tests/bench/overhead.sh tests/bench/overhead_lib.sh tests/bench/traced.sh tests/bench/RESULTS.md tests/bench/PAPERS.md
check_PROGRAMS += tests/bench/exchange
# The time of the search for an architecture; without NCCL.
check_PROGRAMS += tests/bench/solve
tests_bench_solve_LDADD = libtagc.a -lm -lpthread
# The codecs beside a training, each with an optimiser of its own.
if HAVE_BLAS
check_PROGRAMS += tests/bench/progress
endif
tests_bench_progress_LDADD = examples/libgpt.a libtagc.a $(BLAS_LIBS) -lm -lpthread
# How many counters the sketch of lhc needs.
check_PROGRAMS += tests/bench/peeling
tests_bench_peeling_LDADD =
# Traces of a long run, for tagc-report.
check_PROGRAMS += tests/bench/traces
tests_bench_traces_LDADD =
EXTRA_DIST += tests/bench/simulate.sh tests/bench/depth.sh tests/bench/hosts.sh tests/bench/exchange_lib.sh \
  tests/bench/exact.sh tests/bench/broadcast.sh

# -- fuzz targets ----------------------------------------------------------------------------------------------------------
include $(srcdir)/%D%/fuzz/local.mk

# -- the tests of each build of `./quickstart check` -------------------------------------------------------------------
# gcc runs all of them. The other builds run the tests in which they can break something, or find a fault.
# Daily work: the most important tests, a few minutes in all.
tests_fast = $(unit_tests) \
  tests/e2e/vote/agreement.test \
  tests/e2e/vote/auto.test \
  tests/e2e/broadcast/broadcasts.test \
  tests/e2e/nccl/dlsym.test \
  tests/e2e/programs/doctor.test \
  tests/e2e/api/groups.test \
  tests/e2e/project/manual.test \
  tests/e2e/api/nonblocking.test \
  tests/e2e/device/on_device.test \
  tests/e2e/nccl/passthrough.test \
  tests/e2e/nccl/preload.test \
  tests/e2e/calls/reduce_scatter.test \
  tests/e2e/api/return_codes.test \
  tests/e2e/project/source_rules.test \
  tests/e2e/calls/steps.test \
  tests/e2e/programs/tagc_map.test \
  tests/e2e/programs/tagc_run.test \
  tests/e2e/calls/threads.test \
  tests/e2e/trace/trace.test
# Address and undefined behaviour, in clang's build, so that another compiler's arithmetic is compared, too. All except
# tests of kernels where the interpreter of PTX looks at each access, tests of numbers alone, and longer ones that reach
# no more of the library than the others (by gcov, a test at a time). The corpora of the fuzzers check the memory of
# codecs. It has the project's own ABI header; tests/unit/nccl/test_abi compares that with the real one.
tests_kernels = tests/unit/allgather/test_cuda tests/unit/dense/test_cuda tests/unit/lhc/test_cuda tests/unit/none/test_cuda \
  tests/unit/none/test_levels_cuda tests/unit/sparse/test_cuda
not_asan = $(tests_kernels) tests/unit/allgather/test_allgather tests/unit/allgather/test_exact \
  tests/unit/codec/test_chunks tests/unit/codec/test_exceptions tests/unit/codec/test_payloads \
  tests/unit/codec/test_residual tests/unit/codec/test_residuals tests/unit/codec/test_surplus \
  tests/unit/comm/test_partial_cuda tests/unit/cycle/test_random tests/unit/cycle/test_sequences \
  tests/unit/dense/test_exact tests/unit/device/test_grids_cuda tests/unit/infer/test_solve \
  tests/unit/infer/test_twins tests/unit/infer/test_zoo tests/unit/lhc/test_exact tests/unit/lhc/test_exceptions \
  tests/unit/lhc/test_many tests/unit/lhc/test_measure tests/unit/lhc/test_residual tests/unit/lhc/test_rows \
  tests/unit/lhc/test_variants tests/unit/none/test_orders tests/unit/none/test_precise \
  tests/unit/sparse/test_choose_cuda tests/unit/tagc-report/test_ab_compare
tests_asan = $(unit_tests) tests/fuzz/corpus.test \
  tests/e2e/api/capture.test tests/e2e/api/exits.test tests/e2e/api/groups.test \
  tests/e2e/broadcast/broken_broadcasts.test tests/e2e/calls/dump.test tests/e2e/calls/homes.test \
  tests/e2e/calls/layouts.test tests/e2e/calls/threads.test tests/e2e/device/device_cases.test \
  tests/e2e/hierarchy/levels.test tests/e2e/hierarchy/levels_life.test tests/e2e/nccl/beside.test \
  tests/e2e/nccl/copies.test tests/e2e/nccl/ctypes.test tests/e2e/nccl/dlsym.test tests/e2e/nccl/little.test \
  tests/e2e/programs/bench.test tests/e2e/programs/doctor.test tests/e2e/programs/tagc_map.test \
  tests/e2e/programs/tagc_run.test tests/e2e/torch/torch.test tests/e2e/trace/calls.test tests/e2e/trace/trace.test
# Not exits.test: the report at exit reads counters that other threads still change. depth.test runs the steps of
# steps.test, with more threads.
tests_tsan = \
  tests/e2e/vote/agreement.test \
  tests/e2e/api/capture.test \
  tests/e2e/broadcast/broken_broadcasts.test \
  tests/e2e/nccl/copies.test \
  tests/e2e/calls/depth.test \
  tests/e2e/api/groups.test \
  tests/e2e/hierarchy/levels_life.test \
  tests/e2e/api/nonblocking.test \
  tests/e2e/calls/threads.test \
  $(tsan_cuda_tests) \
  tests/unit/comm/test_failed_calls \
  tests/unit/device/test_side_stream \
  tests/unit/env/test_options \
  tests/unit/metrics/test_metrics \
  tests/unit/policy/test_registered_memory \
  tests/unit/profiler/test_plugin \
  tests/unit/trace/test_trace \
  tests/unit/vote/test_vote \
  tests/unit/vote/test_budget \
  tests/unit/vote/test_hosts
# These take longest, so they begin first; short tests then fill both cores at the end.
tests_long = tests/e2e/project/memcheck.test tests/e2e/torch/tutorial.test tests/e2e/device/ptx.test tests/e2e/hierarchy/levels.test tests/e2e/calls/all_reduce.test tests/e2e/trainer/soak.test \
  tests/e2e/calls/random_programs.test tests/e2e/faults/faults_ranks.test tests/e2e/faults/faults_levels.test tests/e2e/vote/auto.test tests/e2e/vote/budget.test tests/e2e/calls/depth.test \
  tests/e2e/trainer/fidelity.test tests/e2e/trainer/trainer_ranks.test tests/unit/lhc/test_cuda tests/unit/infer/test_solve tests/unit/codec/test_chunks \
  tests/unit/codec/test_payloads
# Tests with cases that run with the set that the processor chooses; they run once more with some sets hidden, as on a
# processor that lacks them. Tests that force each set in turn in all their cases would repeat what they compared.
tests_simd = tests/unit/codec/test_properties tests/unit/codec/test_variant tests/unit/dense/test_exceptions \
  tests/unit/device/test_gradient_stats tests/unit/device/test_self_test tests/unit/lhc/test_stuck tests/unit/sparse/test_sparse
print-programs: ; @echo $(check_PROGRAMS)
print-tests: ; @echo $(TESTS)
print-tests-long: ; @echo $(tests_long)
# Leaves out the longest: every kernel on its own (on_device.test runs them), and the cuts of every codec into chunks.
print-tests-fast: ; @echo $(tests_fast) | tr ' ' '\n' | \
  grep -v -e allgather/test_cuda -e dense/test_cuda -e lhc/test_cuda -e sparse/test_cuda -e test_cuda_faults -e test_chunks
print-tests-asan: ; @for test in $(tests_asan); do case ' $(not_asan) ' in *" $$test "*) ;; *) echo $$test ;; esac; done
if HAVE_NVCC
print-tests-kernels: ;
else
print-tests-kernels: ; @echo $(tests_kernels)
endif
print-tests-tsan: ; @echo $(tests_tsan)
print-tests-simd: ; @echo $(tests_simd)
.PHONY: print-programs print-tests print-tests-long print-tests-fast print-tests-asan print-tests-kernels print-tests-tsan print-tests-simd
