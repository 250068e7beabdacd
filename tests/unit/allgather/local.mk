# SPDX-License-Identifier: BSD-3-Clause
# allgather/: the codecs of all-gathers.
unit_tests += %D%/test_allgather %D%/test_exact %D%/test_support
EXTRA_DIST += %D%/reference.h
if HAVE_CXX
cuda_tests += %D%/test_cuda
%C%_test_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_test_cuda_LDFLAGS = $(to_driver)
endif
