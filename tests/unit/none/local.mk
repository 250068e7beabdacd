# SPDX-License-Identifier: BSD-3-Clause
# none/: the codecs none and precise.
unit_tests += %D%/test_levels %D%/test_none %D%/test_orders %D%/test_precise
EXTRA_DIST += %D%/families.h
if HAVE_CXX
cuda_tests += %D%/test_cuda %D%/test_levels_cuda
%C%_test_levels_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_test_levels_cuda_LDFLAGS = $(to_driver)
%C%_test_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_test_cuda_LDFLAGS = $(to_driver)
endif
