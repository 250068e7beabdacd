# SPDX-License-Identifier: BSD-3-Clause
# comm/: communicators.
unit_tests += %D%/test_chunking %D%/test_partial %D%/test_failed_calls
if HAVE_CXX
cuda_tests += %D%/test_partial_cuda
%C%_test_partial_cuda_SOURCES = %D%/test_partial.c
%C%_test_partial_cuda_CFLAGS = $(AM_CFLAGS) -DON_DEVICE
%C%_test_partial_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_test_partial_cuda_LDFLAGS = $(to_driver)
endif
