# SPDX-License-Identifier: BSD-3-Clause
# device/: hosts and CUDA devices.
unit_tests += %D%/test_gradient_stats %D%/test_parameter_stats %D%/test_side_stream %D%/test_none %D%/test_self_test
EXTRA_DIST += %D%/cuda_child.h %D%/cuda_codec.h %D%/cuda_rank.h %D%/life.h
if HAVE_CXX
cuda_tests += %D%/test_gradient_stats_cuda %D%/test_grids_cuda %D%/test_cuda %D%/test_cuda_faults %D%/test_cuda_threads \
  %D%/test_side_stream_cuda
tsan_cuda_tests += %D%/test_cuda_threads %D%/test_side_stream_cuda
%C%_test_gradient_stats_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_test_gradient_stats_cuda_LDFLAGS = $(to_driver)
%C%_test_grids_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_test_grids_cuda_LDFLAGS = $(to_driver)
%C%_test_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_test_cuda_LDFLAGS = $(to_driver)
%C%_test_cuda_faults_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_test_cuda_faults_LDFLAGS = $(to_driver)
%C%_test_cuda_threads_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_test_cuda_threads_LDFLAGS = $(to_driver)
%C%_test_side_stream_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_test_side_stream_cuda_LDFLAGS = $(to_driver)
endif
