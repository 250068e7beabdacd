# SPDX-License-Identifier: BSD-3-Clause
# One flat list of TAP programs: unit/ links the convenience library, e2e/ runs the preload library on the stand-in.
# A program without further lines is made of the one source file of its name, and links what it uses of $(LDADD).
TEST_LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
TEST_EXTENSIONS = .test
AM_TESTS_ENVIRONMENT = abs_top_srcdir='$(abs_top_srcdir)'; abs_top_builddir='$(abs_top_builddir)'; \
  bin_programs='$(bin_PROGRAMS)'; export abs_top_srcdir abs_top_builddir bin_programs;

if FUZZERS
LDADD = libtagc.a $(FUZZ_LIBS) -lm -lpthread
else
LDADD = libtagc.a tests/standin/libnccl.so -lm -lpthread
endif

# -- unit tests --------------------------------------------------------------------------------------------------------
unit_tests = \
  tests/unit/agree/test_agree tests/unit/agree/test_decider \
  tests/unit/codec/test_bits tests/unit/none/test_none \
  tests/unit/cycle/test_cycle tests/unit/cycle/test_follow tests/unit/cycle/test_random \
  tests/unit/lhc/test_exact tests/unit/lhc/test_exceptions tests/unit/lhc/test_layout tests/unit/lhc/test_residual \
  tests/unit/lhc/test_stuck tests/unit/lhc/test_variants \
  tests/unit/env/test_options tests/unit/policy/test_plan tests/unit/model/test_select
unit_tests += tests/unit/env/test_log tests/unit/env/test_log_stderr tests/unit/env/test_options_secure
unit_tests += tests/unit/lhc/test_hostile tests/unit/lhc/test_stream
unit_tests += tests/unit/dense/test_exact tests/unit/dense/test_exceptions tests/unit/dense/test_values
unit_tests += tests/unit/nccl/test_imports
unit_tests += tests/unit/codec/test_residual tests/unit/sparse/test_sparse tests/unit/lhc/test_rows tests/unit/lhc/test_many
unit_tests += tests/unit/allgather/test_allgather tests/unit/codec/test_surplus
unit_tests += tests/unit/nccl/test_linker
unit_tests += tests/unit/budget/test_budget tests/unit/policy/test_choose tests/unit/device/test_survey tests/unit/vote/test_vote tests/unit/exec/test_timing
tests_unit_vote_test_vote_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=tagc_clock_ms
if SANITIZED
tests_unit_nccl_test_linker_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dlvsym
else
# The library asks for an old version of it (env/glibc.h): only the dynamic linker takes the program's for that.
tests_unit_nccl_test_linker_LDFLAGS = $(AM_LDFLAGS) -Wl,--export-dynamic,--defsym=dlvsym=__wrap_dlvsym
endif
# Which instruction set runs.
unit_tests += tests/unit/codec/test_variant
EXTRA_DIST += tests/unit/codec/variants.h
# Every codec: its bytes against a slow reference, and what must hold of all of them.
unit_tests += tests/unit/codec/test_exceptions tests/unit/codec/test_payloads tests/unit/codec/test_properties tests/unit/codec/test_residuals
unit_tests += tests/unit/codec/test_cost
unit_tests += tests/unit/policy/test_topology tests/unit/vote/test_budget tests/unit/vote/test_hosts tests/unit/vote/test_message tests/unit/cycle/test_gathers
tests_unit_vote_test_budget_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=tagc_clock_ms,--wrap=tagc_clock_ns
unit_tests += tests/unit/cycle/test_calls tests/unit/cycle/test_activations
unit_tests += tests/unit/model/test_mapfile
# Models, their layouts and families.
unit_tests += tests/unit/model/test_families tests/unit/model/test_layout tests/unit/model/test_model
EXTRA_DIST += tests/unit/model/architectures.h
# Sequences of calls of real programs.
unit_tests += tests/unit/cycle/test_sequences tests/unit/stats/test_layers_log
EXTRA_DIST += tests/fixtures
# The table at exit.
unit_tests += tests/unit/stats/test_exit_report
# Registered memory.
unit_tests += tests/unit/policy/test_registered_memory
if HAVE_JANSSON
unit_tests += tests/unit/tagc-map/test_config tests/unit/tagc-map/test_safetensors
tests_unit_tagc_map_test_config_LDADD = libtagc-map.a $(LDADD) $(JANSSON_LIBS)
tests_unit_tagc_map_test_safetensors_LDADD = libtagc-map.a $(LDADD) $(JANSSON_LIBS)
endif
# What of them is found out again from the sizes of calls.
unit_tests += tests/unit/infer/test_layers tests/unit/infer/test_solve
EXTRA_DIST += tests/unit/infer/solve_slots.h
tests_unit_infer_test_layers_SOURCES = tests/unit/infer/test_layers.c examples/gpt/units.c
tests_unit_infer_test_layers_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
EXTRA_DIST += tests/unit/codec/reference.h tests/unit/codec/cases.h tests/unit/allgather/reference.h
EXTRA_DIST += tests/unit/dense/reference.h
EXTRA_DIST += tests/unit/tap.h tests/unit/self.h tests/unit/fake_nccl.h tests/unit/vote/rank.h tests/unit/codec/sim.h tests/unit/cycle/tape.h tests/unit/watch.h

# Traces.
EXTRA_DIST += tests/unit/tagc-report/make.h
unit_tests += tests/unit/tagc-report/test_read
tests_unit_tagc_report_test_read_LDADD = libtagc-report.a $(LDADD)
unit_tests += tests/unit/tagc-report/test_page
tests_unit_tagc_report_test_page_LDADD = libtagc-report.a $(LDADD)
unit_tests += tests/unit/tagc-report/test_summary
tests_unit_tagc_report_test_summary_LDADD = libtagc-report.a $(LDADD)

# The trainer's.
unit_tests += tests/unit/examples/test_vocabulary
tests_unit_examples_test_vocabulary_SOURCES = tests/unit/examples/test_vocabulary.c examples/gpt/vocabulary.c

# Slots of which a part is compressed.
unit_tests += tests/unit/comm/test_chunking tests/unit/device/test_lane tests/unit/model/test_parts tests/unit/codec/test_pieces tests/unit/comm/test_partial

# What is known of NCCL's versions.
unit_tests += tests/unit/nccl/test_versions

# The limited link of the stand-in for NCCL.
unit_tests += tests/unit/standin/test_link
tests_unit_standin_test_link_SOURCES = tests/unit/standin/test_link.c tests/standin/link.c

# Calls that fail, on the stand-in for NCCL.
unit_tests += tests/unit/comm/test_failed_calls

# Who writes them.
unit_tests += tests/unit/trace/test_trace
tests_unit_trace_test_trace_LDADD = libtagc-report.a $(LDADD)
tests_unit_trace_test_trace_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=write,--wrap=madvise
# What traces are judged by.
unit_tests += tests/unit/tagc-report/test_ab_compare
tests_unit_tagc_report_test_ab_compare_LDADD = libtagc-report.a $(LDADD)
unit_tests += tests/unit/tagc-report/test_volume
tests_unit_tagc_report_test_volume_LDADD = libtagc-report.a $(LDADD)
unit_tests += tests/unit/tagc-report/test_stragglers
tests_unit_tagc_report_test_stragglers_LDADD = libtagc-report.a $(LDADD)
unit_tests += tests/unit/tagc-report/test_text
tests_unit_tagc_report_test_text_LDADD = libtagc-report.a $(LDADD)
EXTRA_DIST += tests/unit/tagc-report/jobs.h tests/unit/tagc-report/runs.h

# The stand-in for the CUDA driver, and kernels that run on it.
EXTRA_DIST += tests/unit/device/cuda_child.h
if HAVE_CXX
cuda_tests = tests/unit/standin/test_cuda_driver tests/unit/standin/test_cuda_kernels tests/unit/standin/test_cuda_streams
tsan_cuda_tests = tests/unit/standin/test_cuda_streams
check_DATA += tests/standin/cuda/samples.so
unit_tests += $(cuda_tests)
to_driver = $(AM_LDFLAGS) '-Wl,-rpath,$(abs_builddir)/tests/standin/cuda'
tests_unit_standin_test_cuda_driver_LDADD = tests/standin/cuda/libcuda.so.1
tests_unit_standin_test_cuda_driver_LDFLAGS = $(to_driver)
tests_unit_standin_test_cuda_kernels_LDADD = tests/standin/cuda/libcuda.so.1 -lm
tests_unit_standin_test_cuda_kernels_LDFLAGS = $(to_driver)
tests_unit_standin_test_cuda_streams_LDADD = tests/standin/cuda/libcuda.so.1 -lpthread
tests_unit_standin_test_cuda_streams_LDFLAGS = $(to_driver)

# GPU kernels against the host.
cuda_tests += tests/unit/dense/test_cuda
check_DATA += tests/standin/cuda/kernels.so
tests_unit_dense_test_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
tests_unit_dense_test_cuda_LDFLAGS = $(to_driver)
cuda_tests += tests/unit/lhc/test_cuda
tests_unit_lhc_test_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
tests_unit_lhc_test_cuda_LDFLAGS = $(to_driver)
cuda_tests += tests/unit/sparse/test_choose_cuda
tests_unit_sparse_test_choose_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
tests_unit_sparse_test_choose_cuda_LDFLAGS = $(to_driver)
cuda_tests += tests/unit/device/test_survey_cuda
tests_unit_device_test_survey_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
tests_unit_device_test_survey_cuda_LDFLAGS = $(to_driver)
cuda_tests += tests/unit/sparse/test_cuda
tests_unit_sparse_test_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
tests_unit_sparse_test_cuda_LDFLAGS = $(to_driver)
cuda_tests += tests/unit/allgather/test_cuda
tests_unit_allgather_test_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
tests_unit_allgather_test_cuda_LDFLAGS = $(to_driver)
cuda_tests += tests/unit/device/test_grids_cuda
tests_unit_device_test_grids_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
tests_unit_device_test_grids_cuda_LDFLAGS = $(to_driver)

# The table of a CUDA device.
cuda_tests += tests/unit/device/test_cuda tests/unit/device/test_cuda_faults tests/unit/device/test_cuda_threads
tsan_cuda_tests += tests/unit/device/test_cuda_threads
tests_unit_device_test_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
tests_unit_device_test_cuda_LDFLAGS = $(to_driver)
tests_unit_device_test_cuda_faults_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
tests_unit_device_test_cuda_faults_LDFLAGS = $(to_driver)
tests_unit_device_test_cuda_threads_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
tests_unit_device_test_cuda_threads_LDFLAGS = $(to_driver)
cuda_tests += tests/unit/device/test_lane_cuda
tsan_cuda_tests += tests/unit/device/test_lane_cuda
tests_unit_device_test_lane_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
tests_unit_device_test_lane_cuda_LDFLAGS = $(to_driver)

# Calls in two parts, on device memory.
cuda_tests += tests/unit/comm/test_partial_cuda
tests_unit_comm_test_partial_cuda_SOURCES = tests/unit/comm/test_partial.c
tests_unit_comm_test_partial_cuda_CFLAGS = $(AM_CFLAGS) -DON_DEVICE
tests_unit_comm_test_partial_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
tests_unit_comm_test_partial_cuda_LDFLAGS = $(to_driver)
endif
unit_tests += tests/unit/device/test_none
unit_tests += tests/unit/device/test_proof
EXTRA_DIST += tests/unit/device/cuda_codec.h tests/unit/device/cuda_rank.h tests/unit/device/life.h

# The same on a real GPU, where there is one, and what else only such a one shows: tests/gpu/run is a command of its own. Its
# programs are linked with the stand-ins, and find the real libraries by LD_LIBRARY_PATH.
dist_check_SCRIPTS += tests/gpu/run tests/e2e/kernel_info.test
TESTS += tests/gpu/run tests/e2e/kernel_info.test
EXTRA_DIST += tests/gpu/RESULTS.md
if HAVE_CXX
dist_check_SCRIPTS += tests/e2e/gpu_programs.test
TESTS += tests/e2e/gpu_programs.test
gpu_programs = tests/gpu/goal tests/gpu/ranks tests/gpu/speed
check_PROGRAMS += $(gpu_programs)
tests_gpu_ranks_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
tests_gpu_ranks_LDFLAGS = $(to_driver)
tests_gpu_goal_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
tests_gpu_goal_LDFLAGS = $(to_driver)
tests_gpu_speed_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
tests_gpu_speed_LDFLAGS = $(to_driver)
endif
# All that it needs of a build, and that in a folder of its own, without what is for debuggers, to be taken to another machine.
gpu_needs = libtagc-preload.so $(gpu_programs) $(cuda_tests) tests/bench/overhead tests/e2e/on_device \
  tests/standin/launch tests/standin/libnccl.so.2
gpu-programs: all $(gpu_needs)
gpu-kit: gpu-programs
	@rm -rf $@
	@for file in $(gpu_needs); do \
	  $(MKDIR_P) $@/`dirname $$file` && cp $$file $@/$$file || exit 1; strip -g $@/$$file 2>/dev/null; done; :
.PHONY: gpu-programs gpu-kit

# Our own NCCL header against the real one.
EXTRA_DIST += tests/unit/nccl/abi_table.h
if REAL_NCCL_H
unit_tests += tests/unit/nccl/test_abi
tests_unit_nccl_test_abi_SOURCES = tests/unit/nccl/test_abi.c tests/unit/nccl/abi_ours.c
endif

check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)

# -- end-to-end tests: the preload library in front of programs on the stand-in ------------------------------------------
e2e_scripts = \
  tests/e2e/agreement.test tests/e2e/agreement_hosts.test \
  tests/e2e/dlsym.test tests/e2e/manual.test tests/e2e/passthrough.test tests/e2e/preload.test \
  tests/e2e/all_reduce.test tests/e2e/reduce_scatter.test tests/e2e/return_codes.test \
  tests/e2e/source_rules.test tests/e2e/steps.test tests/e2e/threads.test
e2e_scripts += tests/e2e/hardening.test tests/e2e/memcheck.test
e2e_scripts += tests/e2e/aarch64.test tests/e2e/beside.test tests/e2e/copies.test tests/e2e/ctypes.test
e2e_scripts += tests/e2e/little.test
e2e_scripts += tests/e2e/doctor.test
if HAVE_JANSSON
e2e_scripts += tests/e2e/tagc_map.test
endif
e2e_scripts += tests/e2e/install.test tests/e2e/tarball.test
dist_check_SCRIPTS += $(e2e_scripts)
TESTS += $(e2e_scripts)
EXTRA_DIST += tests/e2e/reach_lib.sh tests/e2e/ctypes_user.py
EXTRA_DIST += tests/e2e/lib.sh tests/e2e/harness.h

check_PROGRAMS += tests/e2e/agreement
check_PROGRAMS += tests/e2e/dlsym_user tests/e2e/no_nccl tests/e2e/all_reduce tests/e2e/reduce_scatter tests/e2e/return_codes \
  tests/e2e/steps tests/e2e/threads

# TAGC_CODEC=auto.
dist_check_SCRIPTS += tests/e2e/auto.test tests/e2e/budget.test
TESTS += tests/e2e/auto.test tests/e2e/budget.test
check_PROGRAMS += tests/e2e/auto tests/e2e/budget tests/e2e/played_time.so
tests_e2e_played_time_so_SOURCES = tests/e2e/played_time.c
tests_e2e_played_time_so_CFLAGS = $(of_shared_objects)
tests_e2e_played_time_so_LDFLAGS = $(to_shared_objects)
tests_e2e_played_time_so_LDADD = tests/standin/libnccl.so

# Two levels.
dist_check_SCRIPTS += tests/e2e/levels.test
TESTS += tests/e2e/levels.test
check_PROGRAMS += tests/e2e/levels

# All-gathers of parameters.
dist_check_SCRIPTS += tests/e2e/gathers.test
TESTS += tests/e2e/gathers.test
check_PROGRAMS += tests/e2e/gathers

# Activations that look like parameters and gradients.
dist_check_SCRIPTS += tests/e2e/activations.test
TESTS += tests/e2e/activations.test
check_PROGRAMS += tests/e2e/activations

# Parameters that are selected beside others, in the layouts of sharded training.
dist_check_SCRIPTS += tests/e2e/layouts.test
TESTS += tests/e2e/layouts.test
check_PROGRAMS += tests/e2e/layouts

# On GPUs, as far as the stand-ins play them.
if HAVE_CXX
dist_check_SCRIPTS += tests/e2e/on_device.test tests/e2e/on_device_gathers.test tests/e2e/old_driver.test
TESTS += tests/e2e/on_device.test tests/e2e/on_device_gathers.test tests/e2e/old_driver.test
check_PROGRAMS += tests/e2e/on_device_gathers
EXTRA_DIST += tests/e2e/either_memory.h
check_PROGRAMS += tests/e2e/on_device
dist_check_SCRIPTS += tests/e2e/trace_times.test
TESTS += tests/e2e/trace_times.test
check_PROGRAMS += tests/e2e/trace_times
tests_e2e_trace_times_LDADD = libtagc-report.a
# What programs may do there, and what goes wrong.
device_scripts = tests/e2e/device_cases.test
dist_check_SCRIPTS += $(device_scripts)
TESTS += $(device_scripts)
check_PROGRAMS += tests/e2e/device_cases
tests_e2e_device_cases_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
tests_e2e_device_cases_LDFLAGS = $(to_driver)
endif

# Other versions of NCCL.
dist_check_SCRIPTS += tests/e2e/newer.test tests/e2e/versions.test
TESTS += tests/e2e/newer.test tests/e2e/versions.test
check_PROGRAMS += tests/e2e/versions
# Its references to NCCL are weak, and would not make the linker keep the library.
tests_e2e_versions_LDFLAGS = $(AM_LDFLAGS) -Wl,--no-as-needed
check_PROGRAMS += tests/e2e/first_calls

# Shared objects of the tests: a plugin that is linked with NCCL, and libraries that are preloaded beside ours.
check_PROGRAMS += tests/e2e/nccl_plugin.so tests/e2e/nccl_wrapper.so tests/e2e/dlsym_hook.so
of_shared_objects = $(LIBRARY_CFLAGS) -O2
to_shared_objects = $(SANITIZE_CFLAGS) -shared -Wl,--as-needed '-Wl,-rpath,$(abs_builddir)/tests/standin'
tests_e2e_nccl_plugin_so_SOURCES = tests/e2e/nccl_plugin.c
tests_e2e_nccl_plugin_so_CFLAGS = $(of_shared_objects)
tests_e2e_nccl_plugin_so_LDFLAGS = $(to_shared_objects)
tests_e2e_nccl_plugin_so_LDADD = tests/standin/libnccl.so
tests_e2e_nccl_wrapper_so_SOURCES = tests/e2e/nccl_wrapper.c
tests_e2e_nccl_wrapper_so_CFLAGS = $(of_shared_objects)
tests_e2e_nccl_wrapper_so_LDFLAGS = $(to_shared_objects)
tests_e2e_nccl_wrapper_so_LDADD =
tests_e2e_dlsym_hook_so_SOURCES = tests/e2e/dlsym_hook.c
tests_e2e_dlsym_hook_so_CFLAGS = $(of_shared_objects)
tests_e2e_dlsym_hook_so_LDFLAGS = $(to_shared_objects)
tests_e2e_dlsym_hook_so_LDADD =

# Little NCCLs that say which of them was called, plugins that are bound to them, and programs that open all that.
check_PROGRAMS += tests/e2e/little_user tests/e2e/little_nccl_user
check_PROGRAMS += tests/e2e/little_nccl_a.so tests/e2e/little_nccl_b.so tests/e2e/little_plugin.so tests/e2e/little_outer.so
tests_e2e_little_user_LDADD =
tests_e2e_little_nccl_user_SOURCES = tests/e2e/little_user.c tests/e2e/little_nccl.c
tests_e2e_little_nccl_user_CFLAGS = $(AM_CFLAGS) -DCOPY='"program"'
tests_e2e_little_nccl_user_LDFLAGS = $(AM_LDFLAGS) -Wl,--export-dynamic
tests_e2e_little_nccl_user_LDADD =
tests_e2e_little_nccl_a_so_SOURCES = tests/e2e/little_nccl.c
tests_e2e_little_nccl_a_so_CFLAGS = $(of_shared_objects) -DCOPY='"a"'
tests_e2e_little_nccl_a_so_LDFLAGS = $(to_shared_objects) -Wl,-soname,little_nccl_a.so
tests_e2e_little_nccl_a_so_LDADD =
tests_e2e_little_nccl_b_so_SOURCES = tests/e2e/little_nccl.c
tests_e2e_little_nccl_b_so_CFLAGS = $(of_shared_objects) -DCOPY='"b"'
tests_e2e_little_nccl_b_so_LDFLAGS = $(to_shared_objects) -Wl,-soname,little_nccl_b.so
tests_e2e_little_nccl_b_so_LDADD =
tests_e2e_little_plugin_so_SOURCES = tests/e2e/little_plugin.c
tests_e2e_little_plugin_so_CFLAGS = $(of_shared_objects)
tests_e2e_little_plugin_so_LDFLAGS = $(to_shared_objects) -Wl,-soname,little_plugin.so -Wl,-z,now
tests_e2e_little_plugin_so_LDADD = tests/e2e/little_nccl_b.so
tests_e2e_little_outer_so_SOURCES = tests/e2e/little_plugin.c
tests_e2e_little_outer_so_CFLAGS = $(of_shared_objects) -DOUTER
tests_e2e_little_outer_so_LDFLAGS = $(to_shared_objects) -Wl,-z,now -Wl,--allow-shlib-undefined
tests_e2e_little_outer_so_LDADD = tests/e2e/little_nccl_a.so tests/e2e/little_plugin.so

# One source, the program and the library that it opens.
check_PROGRAMS += tests/e2e/dlopen_user tests/e2e/dlopen_user.so
tests_e2e_dlopen_user_LDFLAGS = $(AM_LDFLAGS) -Wl,--export-dynamic
tests_e2e_dlopen_user_LDADD =
tests_e2e_dlopen_user_so_SOURCES = tests/e2e/dlopen_user.c
tests_e2e_dlopen_user_so_CFLAGS = $(AM_CFLAGS) -fPIC -fsemantic-interposition -DLIBRARY
tests_e2e_dlopen_user_so_LDFLAGS = $(to_shared_objects)
tests_e2e_dlopen_user_so_LDADD =

# Calls in pieces.
dist_check_SCRIPTS += tests/e2e/depth.test
TESTS += tests/e2e/depth.test
check_PROGRAMS += tests/e2e/depth

# Dumps of gradients, and the program that reads them.
dist_check_SCRIPTS += tests/e2e/bench.test tests/e2e/dump.test
TESTS += tests/e2e/bench.test tests/e2e/dump.test
check_PROGRAMS += tests/e2e/dump

# Changed steps, with gradients that say whose they are.
dist_check_SCRIPTS += tests/e2e/signatures.test
TESTS += tests/e2e/signatures.test
check_PROGRAMS += tests/e2e/signatures

# What it costs to follow a program: a benchmark.
check_PROGRAMS += tests/bench/observe

# Registered memory.
dist_check_SCRIPTS += tests/e2e/homes.test
TESTS += tests/e2e/homes.test
check_PROGRAMS += tests/e2e/homes
# What is told while it runs.
dist_check_SCRIPTS += tests/e2e/live.test
TESTS += tests/e2e/live.test

# Files of the calls that a program makes.
dist_check_SCRIPTS += tests/e2e/calls.test
TESTS += tests/e2e/calls.test
check_PROGRAMS += tests/e2e/calls tests/e2e/many_calls

# tagc-run.
dist_check_SCRIPTS += tests/e2e/tagc_run.test tests/e2e/completion.test
TESTS += tests/e2e/tagc_run.test tests/e2e/completion.test

# Hosts that this machine plays.
dist_check_SCRIPTS += tests/e2e/two_hosts.test
TESTS += tests/e2e/two_hosts.test

# What is said of launchers.
dist_check_SCRIPTS += tests/e2e/launchers.test
TESTS += tests/e2e/launchers.test

# Traces.
dist_check_SCRIPTS += tests/e2e/trace.test
TESTS += tests/e2e/trace.test
check_PROGRAMS += tests/e2e/trace
tests_e2e_trace_LDADD = libtagc-report.a $(LDADD)

# The rules of NCCL, and what programs may do under them.
rules_scripts = tests/e2e/capture.test tests/e2e/exits.test tests/e2e/groups.test tests/e2e/nonblocking.test
rules_programs = tests/e2e/capture tests/e2e/exits tests/e2e/groups tests/e2e/nonblocking
tests_e2e_capture_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
tests_e2e_capture_LDFLAGS = $(AM_LDFLAGS) '-Wl,-rpath,$(abs_builddir)/tests/standin/cuda'
dist_check_SCRIPTS += $(rules_scripts)
TESTS += $(rules_scripts)
check_PROGRAMS += $(rules_programs)
EXTRA_DIST += tests/e2e/inprocess.h

# Random programs of several communicators.
dist_check_SCRIPTS += tests/e2e/random_programs.test
TESTS += tests/e2e/random_programs.test
EXTRA_DIST += tests/e2e/random_program.h
check_PROGRAMS += tests/e2e/random_programs
tests_e2e_random_programs_SOURCES = tests/e2e/random_programs.c tests/e2e/random_make.c tests/e2e/random_run.c

# Sub-communicators: their birth, their ends, and all that fails meanwhile.
dist_check_SCRIPTS += tests/e2e/levels_life.test
TESTS += tests/e2e/levels_life.test
EXTRA_DIST += tests/e2e/moments.h
check_PROGRAMS += tests/e2e/levels_life tests/e2e/moments.so
tests_e2e_levels_life_LDADD = tests/e2e/moments.so $(LDADD)
tests_e2e_levels_life_LDFLAGS = $(AM_LDFLAGS) '-Wl,-rpath,$(abs_builddir)/tests/e2e'
tests_e2e_moments_so_SOURCES = tests/e2e/moments.c
tests_e2e_moments_so_CFLAGS = $(of_shared_objects)
tests_e2e_moments_so_LDFLAGS = $(to_shared_objects) -Wl,-soname,moments.so
tests_e2e_moments_so_LDADD = tests/standin/libnccl.so

# Compressed calls that break off in the middle.
dist_check_SCRIPTS += tests/e2e/broken_calls.test
TESTS += tests/e2e/broken_calls.test
check_PROGRAMS += tests/e2e/broken_calls
tests_e2e_broken_calls_LDADD = tests/e2e/moments.so $(LDADD)
tests_e2e_broken_calls_LDFLAGS = $(AM_LDFLAGS) '-Wl,-rpath,$(abs_builddir)/tests/e2e'

# Faults: dead ranks, broken connections, no memory, no descriptors, signals.
faults_scripts = tests/e2e/faults_gathers.test tests/e2e/faults_levels.test tests/e2e/faults_memory.test tests/e2e/faults_ranks.test \
  tests/e2e/faults_system.test
dist_check_SCRIPTS += $(faults_scripts)
TESTS += $(faults_scripts)
EXTRA_DIST += tests/e2e/faults_lib.sh
check_PROGRAMS += tests/e2e/faults tests/e2e/failing_malloc.so
tests_e2e_failing_malloc_so_SOURCES = tests/e2e/failing_malloc.c
tests_e2e_failing_malloc_so_CFLAGS = $(of_shared_objects) -fno-builtin
tests_e2e_failing_malloc_so_LDFLAGS = $(to_shared_objects)
tests_e2e_failing_malloc_so_LDADD =

# The stand-in for NCCL itself.
standin_scripts = tests/e2e/standin.test tests/e2e/standin_hosts.test tests/e2e/standin_launch.test \
  tests/e2e/standin_network.test
dist_check_SCRIPTS += $(standin_scripts)
TESTS += $(standin_scripts)
check_PROGRAMS += tests/e2e/standin_bytes tests/e2e/standin_collectives tests/e2e/standin_comms tests/e2e/standin_groups
check_PROGRAMS += tests/e2e/standin_network
# On device memory.
dist_check_SCRIPTS += tests/e2e/standin_cuda.test
TESTS += tests/e2e/standin_cuda.test
check_PROGRAMS += tests/e2e/standin_cuda
tests_e2e_standin_cuda_LDADD = tests/standin/cuda/libcuda.so.1 tests/standin/libnccl.so -lpthread
tests_e2e_standin_cuda_LDFLAGS = $(AM_LDFLAGS) '-Wl,-rpath,$(abs_builddir)/tests/standin/cuda'
EXTRA_DIST += tests/e2e/standin_check.h tests/e2e/standin_rendezvous.h

# The example trainer.
EXTRA_DIST += tests/e2e/trainer_lib.sh
trainer_scripts = tests/e2e/trainer_gradients.test tests/e2e/trainer_options.test tests/e2e/trainer_ranks.test
trainer_scripts += tests/e2e/trainer_gathers.test tests/e2e/trainer_levels.test
trainer_scripts += tests/e2e/parts.test
dist_check_SCRIPTS += $(trainer_scripts)
check_PROGRAMS += tests/e2e/trainer_rendezvous
TESTS += tests/e2e/trainer_rendezvous
if HAVE_BLAS
TESTS += $(trainer_scripts)
endif

# The soak: a command of its own (./quickstart soak), and a short one.
dist_check_SCRIPTS += tests/e2e/soak.test
EXTRA_DIST += tests/soak.sh tests/coverage.sh tests/RELIABILITY.md
if HAVE_BLAS
TESTS += tests/e2e/soak.test
endif

# Reports of traces.
dist_check_SCRIPTS += tests/e2e/tagc_report.test
dist_check_SCRIPTS += tests/e2e/tagc_report_page.test
if HAVE_BLAS
TESTS += tests/e2e/tagc_report.test
TESTS += tests/e2e/tagc_report_page.test
endif

# The measurement of fidelity: a command of its own (./quickstart fidelity), and a short one.
dist_check_SCRIPTS += tests/e2e/fidelity.test
if HAVE_BLAS
TESTS += tests/e2e/fidelity.test
endif
dist_check_SCRIPTS += tests/e2e/demo.test
TESTS += tests/e2e/demo.test

# What traces of the trainer are judged to be.
dist_check_SCRIPTS += tests/e2e/trace_volumes.test
check_PROGRAMS += tests/e2e/trace_judge
tests_e2e_trace_judge_LDADD = libtagc-report.a $(LDADD)
if HAVE_BLAS
TESTS += tests/e2e/trace_volumes.test
endif

# The example in PyTorch, which tests/gpu/run trains.
dist_check_SCRIPTS += tests/e2e/train_fsdp.test
TESTS += tests/e2e/train_fsdp.test

# Other processors, and a bare Debian: ./quickstart portable, never part of a test.
EXTRA_DIST += tests/portable/debian.sh tests/portable/qemu.sh tests/README.md

# -- benchmarks: commands of their own, never part of a test -------------------------------------------------------------
check_PROGRAMS += tests/bench/overhead
EXTRA_DIST += tests/bench/overhead.sh tests/bench/overhead_lib.sh tests/bench/traced.sh tests/bench/RESULTS.md
check_PROGRAMS += tests/bench/exchange
# Without NCCL: how long the search for an architecture takes.
check_PROGRAMS += tests/bench/solve
tests_bench_solve_LDADD = libtagc.a -lm -lpthread
# Traces of a long run, for tagc-report.
check_PROGRAMS += tests/bench/traces
tests_bench_traces_LDADD =
EXTRA_DIST += tests/bench/simulate.sh tests/bench/depth.sh tests/bench/hosts.sh tests/bench/exchange_lib.sh

# -- fuzz targets: `./quickstart fuzz` builds them in a folder of their own (clang) ----------------------------------------
# One line a target: its source is tests/fuzz/NAME.c, and it links $(LDADD); what else it needs goes into
# tests_fuzz_NAME_SOURCES and tests_fuzz_NAME_LDADD, as for any program.
fuzz_targets =
fuzz_targets += tests/fuzz/agree
fuzz_targets += tests/fuzz/calls
fuzz_targets += tests/fuzz/cycle
if HAVE_LIBELF
fuzz_targets += tests/fuzz/elf
tests_fuzz_elf_SOURCES = tests/fuzz/elf.c interpose/tagc-doctor/elf.c
tests_fuzz_elf_LDADD = $(FUZZ_LIBS) $(LIBELF_LIBS)
endif
fuzz_targets += tests/fuzz/gather
fuzz_targets += tests/fuzz/imports
fuzz_targets += tests/fuzz/mapfile
tests_fuzz_mapfile_SOURCES = tests/fuzz/mapfile.c layermap/tagc-map/table.c layermap/tagc-map/svg.c env/markup.c
if HAVE_JANSSON
fuzz_targets += tests/fuzz/models
tests_fuzz_models_LDADD = libtagc-map.a $(LDADD) $(JANSSON_LIBS)
endif
fuzz_targets += tests/fuzz/options
fuzz_targets += tests/fuzz/payload
fuzz_targets += tests/fuzz/plan
fuzz_targets += tests/fuzz/select
fuzz_targets += tests/fuzz/trace
tests_fuzz_trace_SOURCES = tests/fuzz/trace.c interpose/tagc-report/show/report.c interpose/tagc-report/show/text.c \
  interpose/tagc-report/show/text_comms.c interpose/tagc-report/show/json.c
tests_fuzz_trace_LDADD = libtagc-report.a $(LDADD)

EXTRA_PROGRAMS += $(fuzz_targets)
EXTRA_DIST += tests/fuzz/input.h tests/fuzz/complaint.h tests/fuzz/run tests/fuzz/corpus tests/fuzz/README.md
CLEANFILES += $(fuzz_targets)
FUZZ_SECONDS = 20
FUZZ_TARGETS = $(fuzz_targets)
fuzz-programs: $(FUZZ_TARGETS)
if FUZZERS
fuzz: fuzz-programs
	@$(srcdir)/tests/fuzz/run $(FUZZ_SECONDS) $(FUZZ_TARGETS)
fuzz-same: fuzz-programs
	@$(srcdir)/tests/fuzz/run same $(FUZZ_TARGETS)
else
fuzz fuzz-same:
	@echo "make $@ needs ../configure CC=clang --enable-fuzzers; ./quickstart fuzz does that" >&2; exit 1
endif
.PHONY: fuzz fuzz-programs fuzz-same

# -- which tests run in which of the builds of `./quickstart check` --------------------------------------------------------
# All of them with gcc. The others take what their build could break, and find.
# clang: arithmetic, whose bits another compiler may change, and how symbols are bound. That build has the project's own ABI header, too,
# which tests/unit/nccl/test_abi compares with the real one.
tests_clang = \
  tests/e2e/dlsym.test \
  tests/e2e/preload.test \
  tests/e2e/steps.test \
  tests/unit/allgather/test_allgather \
  tests/unit/codec/test_bits \
  tests/unit/codec/test_exceptions \
  tests/unit/none/test_none \
  tests/unit/codec/test_payloads \
  tests/unit/codec/test_properties \
  tests/unit/codec/test_residuals \
  tests/unit/sparse/test_sparse \
  tests/unit/codec/test_surplus \
  tests/unit/codec/test_cost \
  tests/unit/cycle/test_cycle \
  tests/unit/dense/test_exact \
  tests/unit/dense/test_exceptions \
  tests/unit/dense/test_values \
  tests/unit/nccl/test_imports \
  tests/unit/lhc/test_exact \
  tests/unit/lhc/test_exceptions \
  tests/unit/lhc/test_hostile \
  tests/unit/lhc/test_layout \
  tests/unit/lhc/test_many \
  tests/unit/lhc/test_residual \
  tests/unit/lhc/test_rows \
  tests/unit/lhc/test_stream \
  tests/unit/lhc/test_stuck \
  tests/unit/lhc/test_variants \
  tests/unit/nccl/test_linker \
  tests/unit/codec/test_pieces \
  tests/unit/device/test_proof \
  tests/unit/codec/test_residual \
  tests/unit/comm/test_partial \
  tests/unit/device/test_survey \
  tests/unit/codec/test_variant \
  tests/unit/nccl/test_versions
# Daily work: what says most in a few minutes.
tests_fast = $(unit_tests) \
  tests/e2e/agreement.test \
  tests/e2e/auto.test \
  tests/e2e/dlsym.test \
  tests/e2e/doctor.test \
  tests/e2e/groups.test \
  tests/e2e/manual.test \
  tests/e2e/nonblocking.test \
  tests/e2e/on_device.test \
  tests/e2e/passthrough.test \
  tests/e2e/preload.test \
  tests/e2e/reduce_scatter.test \
  tests/e2e/return_codes.test \
  tests/e2e/source_rules.test \
  tests/e2e/steps.test \
  tests/e2e/tagc_map.test \
  tests/e2e/tagc_run.test \
  tests/e2e/threads.test \
  tests/e2e/trace.test
# Address and undefined behaviour: all but what compares numbers alone; the memory of codecs is what the fuzzers look at, which are built
# with the same sanitizers.
not_asan = \
  tests/unit/allgather/test_allgather \
  tests/unit/sparse/test_choose_cuda \
  tests/unit/codec/test_exceptions \
  tests/unit/codec/test_payloads \
  tests/unit/codec/test_residuals \
  tests/unit/codec/test_surplus \
  tests/unit/dense/test_exact \
  tests/unit/device/test_grids_cuda \
  tests/unit/lhc/test_exact \
  tests/unit/lhc/test_many \
  tests/unit/infer/test_solve \
  tests/unit/comm/test_partial_cuda
tests_asan = $(unit_tests) $(rules_scripts) $(device_scripts) \
  tests/e2e/agreement.test \
  tests/e2e/beside.test \
  tests/e2e/copies.test \
  tests/e2e/bench.test \
  tests/e2e/ctypes.test \
  tests/e2e/dlsym.test \
  tests/e2e/doctor.test \
  tests/e2e/calls.test \
  tests/e2e/signatures.test \
  tests/e2e/dump.test \
  tests/e2e/faults_system.test \
  tests/e2e/layouts.test \
  tests/e2e/homes.test \
  tests/e2e/levels.test \
  tests/e2e/levels_life.test \
  tests/e2e/little.test \
  tests/e2e/reduce_scatter.test \
  tests/e2e/standin_cuda.test \
  tests/e2e/steps.test \
  tests/e2e/tagc_map.test \
  tests/e2e/tagc_run.test \
  tests/e2e/threads.test \
  tests/e2e/trace.test \
  tests/e2e/versions.test
# Not exits.test: the report at exit reads what other threads still count.
tests_tsan = \
  tests/e2e/agreement.test \
  tests/e2e/capture.test \
  tests/e2e/copies.test \
  tests/e2e/depth.test \
  tests/e2e/groups.test \
  tests/e2e/levels_life.test \
  tests/e2e/nonblocking.test \
  tests/e2e/steps.test \
  tests/e2e/threads.test \
  tests/e2e/trace.test \
  $(tsan_cuda_tests) \
  tests/unit/comm/test_failed_calls \
  tests/unit/device/test_lane \
  tests/unit/env/test_options \
  tests/unit/policy/test_registered_memory \
  tests/unit/trace/test_trace \
  tests/unit/vote/test_vote \
  tests/unit/vote/test_budget \
  tests/unit/vote/test_hosts
# They take longest, and begin first: what is short fills both cores at the end.
tests_long = tests/e2e/memcheck.test tests/e2e/levels.test tests/e2e/all_reduce.test tests/e2e/soak.test \
  tests/e2e/random_programs.test tests/e2e/faults_ranks.test tests/e2e/faults_levels.test tests/e2e/auto.test tests/e2e/budget.test tests/e2e/depth.test \
  tests/e2e/fidelity.test tests/e2e/trainer_ranks.test tests/unit/lhc/test_cuda tests/unit/infer/test_solve tests/unit/codec/test_pieces \
  tests/unit/codec/test_payloads
# What runs with instruction sets, once more with some of them hidden: as on a processor that lacks them.
tests_simd = tests/unit/allgather/test_allgather tests/unit/codec/test_exceptions tests/unit/none/test_none tests/unit/codec/test_payloads \
  tests/unit/codec/test_properties tests/unit/codec/test_residuals tests/unit/sparse/test_sparse tests/unit/codec/test_surplus \
  tests/unit/dense/test_exact tests/unit/dense/test_exceptions tests/unit/dense/test_values tests/unit/lhc/test_exact \
  tests/unit/lhc/test_exceptions tests/unit/lhc/test_hostile tests/unit/lhc/test_many tests/unit/lhc/test_residual \
  tests/unit/lhc/test_rows tests/unit/lhc/test_stream tests/unit/lhc/test_stuck tests/unit/lhc/test_variants tests/unit/device/test_proof \
  tests/unit/codec/test_residual tests/unit/device/test_survey tests/unit/codec/test_variant
print-programs: ; @echo $(check_PROGRAMS)
print-tests: ; @echo $(TESTS)
print-tests-long: ; @echo $(tests_long)
print-tests-clang: ; @echo $(tests_clang)
# Nothing that takes as long as all others together.
print-tests-fast: ; @echo $(tests_fast) | tr ' ' '\n' | grep -v lhc/test_cuda
print-tests-asan: ; @for test in $(tests_asan); do case ' $(not_asan) ' in *" $$test "*) ;; *) echo $$test ;; esac; done
print-tests-tsan: ; @echo $(tests_tsan)
print-tests-simd: ; @echo $(tests_simd)
.PHONY: print-programs print-tests print-tests-long print-tests-clang print-tests-fast print-tests-asan print-tests-tsan print-tests-simd
