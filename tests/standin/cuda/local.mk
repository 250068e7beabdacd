# SPDX-License-Identifier: BSD-3-Clause
# A stand-in for the CUDA driver, as far as the capture of graphs goes: programs link it under the driver's name.
noinst_PROGRAMS += tests/standin/cuda/libcuda.so.1
tests_standin_cuda_libcuda_so_1_SOURCES = tests/standin/cuda/driver.c tests/standin/cuda/cuda.h
tests_standin_cuda_libcuda_so_1_CFLAGS = $(LIBRARY_CFLAGS)
tests_standin_cuda_libcuda_so_1_LDADD =
tests_standin_cuda_libcuda_so_1_LDFLAGS = $(SANITIZE_CFLAGS) -shared -Wl,-soname,libcuda.so.1
