# SPDX-License-Identifier: BSD-3-Clause
# A stand-in for the CUDA driver, under its name: streams, events, memory, graphs, and kernels that run on the CPU.
noinst_PROGRAMS += tests/standin/cuda/libcuda.so.1
tests_standin_cuda_libcuda_so_1_SOURCES = \
  tests/standin/cuda/capture.c \
  tests/standin/cuda/context.S \
  tests/standin/cuda/copy.c \
  tests/standin/cuda/cuda.h \
  tests/standin/cuda/device.c \
  tests/standin/cuda/driver.h \
  tests/standin/cuda/emulator.c \
  tests/standin/cuda/emulator.h \
  tests/standin/cuda/event.c \
  tests/standin/cuda/fibre.c \
  tests/standin/cuda/fibre.h \
  tests/standin/cuda/host_kernel.c \
  tests/standin/cuda/memory.c \
  tests/standin/cuda/module.c \
  tests/standin/cuda/order.c \
  tests/standin/cuda/ptx/alu.c \
  tests/standin/cuda/ptx/check.c \
  tests/standin/cuda/ptx/count.c \
  tests/standin/cuda/ptx/lanes.c \
  tests/standin/cuda/ptx/memory.c \
  tests/standin/cuda/ptx/parse.c \
  tests/standin/cuda/ptx/ptx.h \
  tests/standin/cuda/ptx/races.c \
  tests/standin/cuda/ptx/run.c \
  tests/standin/cuda/settings.c \
  tests/standin/cuda/standin.h \
  tests/standin/cuda/strand.h \
  tests/standin/cuda/stream.c \
  tests/standin/cuda/warp.c
tests_standin_cuda_libcuda_so_1_CFLAGS = $(LIBRARY_CFLAGS) -pthread
tests_standin_cuda_libcuda_so_1_LDADD = -lm
tests_standin_cuda_libcuda_so_1_LDFLAGS = $(SANITIZE_CFLAGS) -shared -pthread -Wl,-soname,libcuda.so.1

# Kernels for it: .cu files that are compiled for the host, one shared object each. Only these need a C++ compiler. With
# -O2 it takes twice as long, and with sanitizers -O1 does; tests gain nothing from either.
if SANITIZED
emulate_optimize = -O0
else
emulate_optimize = -O1
endif
emulate_headers = tests/standin/cuda/emulate.h tests/standin/cuda/emulator.h
emulate_cxxflags = -std=c++17 -ffp-contract=off -fno-exceptions -fno-rtti -fPIC $(CXX_WARN_CFLAGS) $(HARDEN_CFLAGS) \
  $(SANITIZE_CFLAGS) -fno-sanitize=thread $(few_checks) $(CXXFLAGS) $(emulate_optimize)
emulate_cxx = $(CXX) -I$(top_srcdir) $(CPPFLAGS) $(emulate_cxxflags) -include tests/standin/cuda/emulate.h -x c++
EXTRA_DIST += $(emulate_headers) tests/standin/cuda/samples.cu tests/standin/cuda/device.h
tests/standin/cuda/samples.so: tests/standin/cuda/samples.cu kernels/cuda/kernel.h $(emulate_headers) tests/standin/cuda/libcuda.so.1
	$(AM_V_GEN)$(emulate_cxx) $(srcdir)/tests/standin/cuda/samples.cu -x none -shared -o $@ $(LDFLAGS) \
	  tests/standin/cuda/libcuda.so.1
CLEANFILES += tests/standin/cuda/samples.so

# The library's own kernels, where the driver looks for them.
tests/standin/cuda/kernels.so: $(cuda_sources) $(cuda_headers) $(emulate_headers) tests/standin/cuda/libcuda.so.1
	$(AM_V_GEN)$(emulate_cxx) $(srcdir)/kernels/device/kernels.cu -x none -shared -o $@ \
	  $(LDFLAGS) tests/standin/cuda/libcuda.so.1
CLEANFILES += tests/standin/cuda/kernels.so
EXTRA_DIST += tests/standin/cuda/README.md

# Their PTX for newer GPUs, which has instructions of its own: the interpreter of ptx/ runs it, too.
if HAVE_NVCC
tests/standin/cuda/compute80.ptx: kernels/kernels.fatbin
	$(AM_V_GEN)cp kernels/compute_80.ptx $@ 2>/dev/null || \
	  $(nvcc_compile) -arch=compute_80 -ptx -o $@ $(srcdir)/kernels/device/kernels.cu
CLEANFILES += tests/standin/cuda/compute80.ptx
check_DATA += tests/standin/cuda/compute80.ptx
endif
