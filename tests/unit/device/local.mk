# SPDX-License-Identifier: BSD-3-Clause
# device/: hosts and CUDA devices.
unit_tests += %D%/test_survey %D%/test_lane %D%/test_none %D%/test_self_test
EXTRA_DIST += %D%/cuda_child.h %D%/cuda_codec.h %D%/cuda_rank.h %D%/life.h
if HAVE_CXX
cuda_tests += %D%/test_survey_cuda %D%/test_grids_cuda %D%/test_cuda %D%/test_cuda_faults %D%/test_cuda_threads \
  %D%/test_lane_cuda
tsan_cuda_tests += %D%/test_cuda_threads %D%/test_lane_cuda
%C%_test_survey_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_test_survey_cuda_LDFLAGS = $(to_driver)
%C%_test_grids_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_test_grids_cuda_LDFLAGS = $(to_driver)
%C%_test_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_test_cuda_LDFLAGS = $(to_driver)
%C%_test_cuda_faults_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_test_cuda_faults_LDFLAGS = $(to_driver)
%C%_test_cuda_threads_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_test_cuda_threads_LDFLAGS = $(to_driver)
%C%_test_lane_cuda_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_test_lane_cuda_LDFLAGS = $(to_driver)
endif
