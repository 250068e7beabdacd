# SPDX-License-Identifier: BSD-3-Clause
# trace/: traces, files of calls, and tagc-report.
e2e_tests += %D%/profiler.test %D%/characterise.test
check_PROGRAMS += %D%/other_profiler.so %D%/trace_times %D%/calls %D%/many_calls %D%/trace %D%/trace_judge %D%/parallel_job
%C%_trace_LDADD = libtagc-report.a $(LDADD)
%C%_other_profiler_so_SOURCES = %D%/other_profiler.c
%C%_other_profiler_so_CFLAGS = $(of_shared_objects)
%C%_other_profiler_so_LDFLAGS = $(to_shared_objects)
%C%_other_profiler_so_LDADD =
%C%_trace_times_LDADD = libtagc-report.a
%C%_trace_judge_LDADD = libtagc-report.a $(LDADD)
if HAVE_BLAS
e2e_tests += %D%/live.test %D%/live_screen.test %D%/metrics.test %D%/calls.test %D%/trace.test %D%/tagc_report.test \
  %D%/tagc_report_page.test %D%/trace_volumes.test
endif
if HAVE_CXX
e2e_tests += %D%/trace_times.test
endif
