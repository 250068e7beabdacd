# SPDX-License-Identifier: BSD-3-Clause
# kernels/: codecs, and the devices they run on. From the bottom to the top.

# The warning is about vectors that are passed to functions. Those of simd/vector_plain.h never are: they are inlined.
libtagc_a_CFLAGS += -Wno-psabi

# Hot functions are compiled once per instruction set (codec/instruction_set.h), with its flags, into the one library.
# They need no thread sanitizer: they share nothing between threads, and gcc 12 loses the upper halves of 512-bit values
# around its calls. Nor checks of each address ($(few_checks), tests/local.mk): the plain functions check
# alignment.
AVX512_CFLAGS = -fno-sanitize=thread $(few_checks) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mf16c -mbmi -mbmi2 -mpopcnt
AVX2_CFLAGS = $(few_checks) -mavx2 -mf16c -mbmi -mbmi2 -mpopcnt
simd_sources =
noinst_LIBRARIES += libtagc_plain.a
libtagc_plain_a_SOURCES = $(simd_sources)
libtagc_plain_a_CFLAGS = $(LIBRARY_CFLAGS) $(plain_checks) -Wno-psabi -DTAGC_SIMD=plain
libtagc_a_LIBADD += $(libtagc_plain_a_OBJECTS)
EXTRA_libtagc_a_DEPENDENCIES = $(libtagc_plain_a_OBJECTS)
if X86_64
noinst_LIBRARIES += libtagc_avx2.a libtagc_avx512.a
libtagc_avx2_a_SOURCES = $(simd_sources)
libtagc_avx2_a_CFLAGS = $(LIBRARY_CFLAGS) $(AVX2_CFLAGS) -DTAGC_SIMD=avx2
libtagc_avx512_a_SOURCES = $(simd_sources)
libtagc_avx512_a_CFLAGS = $(LIBRARY_CFLAGS) $(AVX512_CFLAGS) -DTAGC_SIMD=avx512
libtagc_a_LIBADD += $(libtagc_avx2_a_OBJECTS) $(libtagc_avx512_a_OBJECTS)
EXTRA_libtagc_a_DEPENDENCIES += $(libtagc_avx2_a_OBJECTS) $(libtagc_avx512_a_OBJECTS)
endif

cuda_sources =
include $(srcdir)/%D%/codec/local.mk
include $(srcdir)/%D%/simd/local.mk
include $(srcdir)/%D%/cuda/local.mk
include $(srcdir)/%D%/none/local.mk
include $(srcdir)/%D%/dense/local.mk
include $(srcdir)/%D%/sparse/local.mk
include $(srcdir)/%D%/lhc/local.mk
include $(srcdir)/%D%/allgather/local.mk
include $(srcdir)/%D%/device/local.mk
include $(srcdir)/%D%/tagc-bench/local.mk

# GPU kernels: one module, embedded in the library as a file. The newest drivers get machine code for their GPU, older
# ones PTX. The PTX is for the oldest GPU and readable by drivers from CUDA 10 on; ptxas checks that.
cuda_headers = \
  kernels/allgather/cuda.h kernels/allgather/exact.h kernels/allgather/exact_steps.h kernels/allgather/steps.h kernels/allgather/support.h \
  kernels/codec/allgather.h kernels/codec/bits.h \
  kernels/codec/blocks.h kernels/codec/codec.h kernels/codec/device.h kernels/codec/exceptions.h kernels/codec/lossless.h \
  kernels/codec/residual.h kernels/codec/residual_blocks.h kernels/codec/rotate.h kernels/cuda/call.h \
  kernels/cuda/codecs.h kernels/cuda/kernel.h kernels/cuda/kernels.h kernels/dense/cuda.h kernels/dense/dense.h \
  kernels/lhc/codec.h kernels/lhc/cuda.h kernels/none/cuda.h kernels/none/exact.h kernels/none/levels.h kernels/sparse/cuda.h kernels/sparse/sparsify_bits.h \
  kernels/sparse/sparsify_cuda.h
EXTRA_DIST += $(cuda_sources)
if HAVE_NVCC
nodist_libtagc_a_SOURCES = kernels/device/fatbin.c
kernels/device/libtagc_a-fatbin.$(OBJEXT): kernels/kernels.fatbin kernels/kernels.ptx
nvcc_compile = $(NVCC) -std=c++17 -I$(top_srcdir) -fmad=false -ftz=false -prec-div=true -prec-sqrt=true $(NVCC_WARN_FLAGS)
# One run makes all: it keeps the PTX of the oldest GPU, whose file has the short name where there is no newer one, and
# if that is among the targets the one of sm_80, which tests run, too.
kernels/kernels.fatbin: $(cuda_sources) $(cuda_headers)
	$(AM_V_GEN)rm -rf kernels/kept kernels/compute_80.ptx && $(MKDIR_P) kernels/kept && $(nvcc_compile) $(NVCC_TARGETS) -Xptxas -v \
	  -Xfatbin -compress-all -fatbin --keep --keep-dir kernels/kept -o $@ $(srcdir)/kernels/device/kernels.cu \
	  >kernels/kernels.log 2>&1 || { cat kernels/kernels.log >&2; rm -f $@; exit 1; }; \
	{ mv kernels/kept/kernels.compute_80.ptx kernels/compute_80.ptx 2>/dev/null; \
	  mv kernels/kept/kernels.compute_75.ptx kernels/compute_75.ptx 2>/dev/null || \
	  mv kernels/kept/kernels.ptx kernels/compute_75.ptx; } && rm -rf kernels/kept || { rm -f $@; exit 1; }
kernels/kernels.ptx: kernels/kernels.fatbin
	$(AM_V_GEN)sed -e 's/^\.version .*/.version 6.3/' -e '/used_bytes_mask/d' -e '/^\/\//d' -e '/^$$/d' kernels/compute_75.ptx >$@.new && \
	  $(PTXAS) -O0 -arch=sm_75 -o /dev/null $@.new && mv $@.new $@
gpu-kernels: kernels/kernels.fatbin kernels/kernels.ptx
kernel-info: kernels/kernels.fatbin
	@$(srcdir)/kernels/device/kernel-info kernels/kernels.log
	@$(srcdir)/kernels/device/sass-info kernels/kernels.fatbin || test $$? = 77
CLEANFILES += kernels/kernels.fatbin kernels/kernels.log kernels/compute_75.ptx kernels/compute_80.ptx kernels/kernels.ptx kernels/kernels.ptx.new
else
nodist_libtagc_a_SOURCES = kernels/device/fatbin_none.c
kernel-info gpu-kernels: ; @echo "make $@ needs nvcc; configure found none" >&2; exit 1
endif
.PHONY: kernel-info gpu-kernels
