# SPDX-License-Identifier: BSD-3-Clause
# A stand-in for CUDA's runtime, on that for the driver: PyTorch's CUDA build runs on both (tests/torch/README.md).
noinst_PROGRAMS += tests/standin/cudart/libcudart.so.13
tests_standin_cudart_libcudart_so_13_SOURCES = \
  tests/standin/cudart/cudart.h \
  tests/standin/cudart/device.c \
  tests/standin/cudart/kernel.c \
  tests/standin/cudart/memory.c \
  tests/standin/cudart/played.c \
  tests/standin/cudart/refused.c \
  tests/standin/cudart/runtime.h \
  tests/standin/cudart/stream.c
tests_standin_cudart_libcudart_so_13_CFLAGS = $(LIBRARY_CFLAGS) -pthread
tests_standin_cudart_libcudart_so_13_LDADD = tests/standin/cuda/libcuda.so.1
tests_standin_cudart_libcudart_so_13_DEPENDENCIES = tests/standin/cuda/libcuda.so.1 tests/standin/cudart/libcudart.map
tests_standin_cudart_libcudart_so_13_LDFLAGS = $(SANITIZE_CFLAGS) -shared -pthread -Wl,-soname,libcudart.so.13 \
  -Wl,--version-script=$(srcdir)/tests/standin/cudart/libcudart.map '-Wl,-rpath,$(abs_builddir)/tests/standin/cuda'
EXTRA_DIST += tests/standin/cudart/README.md tests/standin/cudart/libcudart.map
