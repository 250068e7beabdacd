# SPDX-License-Identifier: BSD-3-Clause
# tagc-bench/: tagc-bench.
unit_tests += %D%/test_median
%C%_test_median_SOURCES = %D%/test_median.c kernels/tagc-bench/median.c
