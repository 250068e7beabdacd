# SPDX-License-Identifier: BSD-3-Clause
# profiler/: the plugin that NCCL calls.
unit_tests += %D%/test_plugin
EXTRA_DIST += %D%/nccl_side.h
%C%_test_plugin_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=tagc_trace_add,--wrap=tagc_clock_ns
