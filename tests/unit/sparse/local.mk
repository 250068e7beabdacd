# SPDX-License-Identifier: BSD-3-Clause
# sparse/: the codec sparse.
unit_tests += %D%/test_full_list %D%/test_sparse
if HAVE_CXX
cuda_tests += %D%/test_choose_cuda %D%/test_cuda
%C%_test_choose_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_test_choose_cuda_LDFLAGS = $(to_driver)
%C%_test_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_test_cuda_LDFLAGS = $(to_driver)
endif
