# SPDX-License-Identifier: BSD-3-Clause
# A stand-in for NVML, on that for the driver: NVIDIA's NCCL looks for it in its init.
noinst_PROGRAMS += tests/standin/nvml/libnvidia-ml.so.1
tests_standin_nvml_libnvidia_ml_so_1_SOURCES = tests/standin/nvml/nvml.c tests/standin/nvml/nvml.h
tests_standin_nvml_libnvidia_ml_so_1_CFLAGS = $(LIBRARY_CFLAGS) -pthread
tests_standin_nvml_libnvidia_ml_so_1_LDADD = tests/standin/cuda/libcuda.so.1
tests_standin_nvml_libnvidia_ml_so_1_LDFLAGS = $(SANITIZE_CFLAGS) -shared -pthread -Wl,-soname,libnvidia-ml.so.1 \
  '-Wl,-rpath,$(abs_builddir)/tests/standin/cuda'
