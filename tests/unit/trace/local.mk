# SPDX-License-Identifier: BSD-3-Clause
# trace/: the writer of traces.
unit_tests += %D%/test_trace
%C%_test_trace_LDADD = libtagc-report.a $(LDADD)
%C%_test_trace_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=write,--wrap=madvise
