# SPDX-License-Identifier: BSD-3-Clause
# standin/: the stand-ins for NCCL and for the CUDA driver.
unit_tests += %D%/test_link
%C%_test_link_SOURCES = %D%/test_link.c tests/standin/net/link.c
unit_tests += %D%/test_cudart
%C%_test_cudart_SOURCES = %D%/test_cudart.c %D%/cudart_table.h %D%/cudart_theirs.c
%C%_test_cudart_LDADD = tests/standin/cudart/libcudart.so.13 tests/standin/cuda/libcuda.so.1 -lpthread
%C%_test_cudart_LDFLAGS = $(to_driver) '-Wl,-rpath,$(abs_builddir)/tests/standin/cudart'
unit_tests += %D%/test_nvml
%C%_test_nvml_LDADD = tests/standin/nvml/libnvidia-ml.so.1 tests/standin/cuda/libcuda.so.1
%C%_test_nvml_LDFLAGS = $(to_driver) '-Wl,-rpath,$(abs_builddir)/tests/standin/nvml'
if HAVE_CXX
cuda_tests += %D%/test_cuda_driver %D%/test_cuda_kernels %D%/test_cuda_streams
tsan_cuda_tests += %D%/test_cuda_streams
%C%_test_cuda_driver_LDADD = tests/standin/cuda/libcuda.so.1
%C%_test_cuda_driver_LDFLAGS = $(to_driver)
%C%_test_cuda_kernels_LDADD = tests/standin/cuda/libcuda.so.1 -lm
%C%_test_cuda_kernels_LDFLAGS = $(to_driver)
%C%_test_cuda_streams_LDADD = tests/standin/cuda/libcuda.so.1 -lpthread
%C%_test_cuda_streams_LDFLAGS = $(to_driver)
endif
