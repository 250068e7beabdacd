# SPDX-License-Identifier: BSD-3-Clause
# metrics/: formats, files and the thread that writes them.
unit_tests += %D%/test_metrics
%C%_test_metrics_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=write,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=tagc_thread_start
