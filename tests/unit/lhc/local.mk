# SPDX-License-Identifier: BSD-3-Clause
# lhc/: the codec lhc.
unit_tests += %D%/test_exact %D%/test_exceptions %D%/test_layout %D%/test_residual %D%/test_stuck %D%/test_variants \
  %D%/test_hostile %D%/test_stream %D%/test_rows %D%/test_many %D%/test_measure
if HAVE_CXX
cuda_tests += %D%/test_cuda
%C%_test_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_test_cuda_LDFLAGS = $(to_driver)
endif
