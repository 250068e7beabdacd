# SPDX-License-Identifier: BSD-3-Clause
# dense/: the codecs bf16, q8, q4, q3 and q2.
unit_tests += %D%/test_exact %D%/test_exceptions %D%/test_values
EXTRA_DIST += %D%/reference.h
if HAVE_CXX
cuda_tests += %D%/test_cuda
%C%_test_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_test_cuda_LDFLAGS = $(to_driver)
endif
