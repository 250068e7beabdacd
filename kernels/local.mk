# SPDX-License-Identifier: BSD-3-Clause
# kernels/: codecs, and the devices they run on.
libtagc_a_SOURCES += \
  kernels/allgather.c kernels/allgather.h kernels/allgather_steps.h kernels/allgather_kernels.h kernels/allgather_plain.c \
  kernels/allgather_bf16.c kernels/allgather_q8.c kernels/allgather_lossless.c kernels/allgather_delta.c \
  kernels/bytes.h kernels/bytes_plain.h \
  kernels/codec.c kernels/codec.h kernels/codecs.def kernels/codecs.h \
  kernels/codec_bits.h kernels/codec_lhc.h \
  kernels/codec_none.c kernels/codec_lhc.c \
  kernels/codec_bf16.c kernels/codec_q8.c kernels/codec_q4.c kernels/codec_q2.c kernels/codec_dense.h \
  kernels/cost.c kernels/cost.h \
  kernels/dense.c kernels/dense.h kernels/dense_plain.c \
  kernels/device.h kernels/device_host.c kernels/device_cuda.c \
  kernels/cuda_driver.c kernels/cuda_driver.h \
  kernels/cuda_device.h kernels/cuda_gather.c kernels/cuda_lane.c kernels/cuda_memory.c kernels/cuda_tally.c \
  kernels/cuda_timer.c kernels/cuda_trust.c \
  kernels/host_lane.c kernels/host_lane.h \
  kernels/exceptions.c kernels/exceptions.h \
  kernels/fpmode.h \
  kernels/lhc.h kernels/lhc_layout.c kernels/lhc_prepare.c kernels/lhc_decode.c \
  kernels/lhc_plain.c kernels/lhc_vector.h kernels/lhc_vector_plain.h kernels/carve.h \
  kernels/pieces.c kernels/pieces.h \
  kernels/proof.c kernels/proof.h kernels/trial.h kernels/proof_gather.c \
  kernels/residual.c kernels/residual.h kernels/residual_blocks.h kernels/residual_plain.c \
  kernels/rotate.h kernels/row.c kernels/row.h \
  kernels/survey.c kernels/survey.h \
  kernels/variant.c kernels/variant.h \
  kernels/vector.h kernels/vector_plain.h kernels/vector_sum.h
EXTRA_DIST += kernels/allgather_kernels.inc.c kernels/dense_kernels.inc.c
# Vectors that this processor lacks are never passed to functions: those of vector_plain.h are expanded where they stand.
libtagc_a_CFLAGS += -Wno-psabi
EXTRA_DIST += kernels/lhc_kernels.inc.c kernels/lhc_send.inc.c kernels/lhc_receive.inc.c
EXTRA_DIST += kernels/residual_blocks.inc.c

# Choosing the largest values: for lhc and sparse.
libtagc_a_SOURCES += \
  kernels/sparsify.c kernels/sparsify.h kernels/sparsify_bits.h kernels/sparsify_plain.c \
  kernels/sparsify_vector.h kernels/sparsify_vector_plain.h
EXTRA_DIST += kernels/sparsify_kernels.inc.c

# Their values with their places: the codec sparse, and lhc for small shards.
libtagc_a_SOURCES += kernels/codec_sparse.c kernels/sparse.c kernels/sparse.h kernels/sparse_plain.c
EXTRA_DIST += kernels/sparse_kernels.inc.c

# The same hot functions for other instruction sets: objects of their own flags inside the one library. They share nothing
# between threads, and gcc 12 loses the upper halves of 512-bit values around the calls of its thread sanitizer.
AVX512_CFLAGS = -fno-sanitize=thread -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mf16c -mbmi -mbmi2 -mpopcnt
AVX2_CFLAGS = -mavx2 -mf16c -mbmi -mbmi2 -mpopcnt
if X86_64
noinst_LIBRARIES += libtagc_avx2.a libtagc_avx512.a
libtagc_avx2_a_SOURCES = kernels/lhc_avx2.c kernels/lhc_vector_avx2.h kernels/dense_avx2.c kernels/vector_avx2.h
libtagc_avx2_a_SOURCES += kernels/residual_avx2.c kernels/sparse_avx2.c kernels/sparsify_avx2.c kernels/sparsify_vector_avx2.h
libtagc_avx2_a_SOURCES += kernels/allgather_avx2.c kernels/bytes_avx2.h
libtagc_avx2_a_CFLAGS = $(LIBRARY_CFLAGS) $(AVX2_CFLAGS)
libtagc_avx512_a_SOURCES = kernels/lhc_avx512.c kernels/lhc_vector_avx512.h kernels/dense_avx512.c kernels/vector_avx512.h
libtagc_avx512_a_SOURCES += kernels/residual_avx512.c kernels/sparse_avx512.c kernels/sparsify_avx512.c kernels/sparsify_vector_avx512.h
libtagc_avx512_a_SOURCES += kernels/allgather_avx512.c kernels/bytes_avx512.h
libtagc_avx512_a_CFLAGS = $(LIBRARY_CFLAGS) $(AVX512_CFLAGS)
libtagc_a_LIBADD += $(libtagc_avx2_a_OBJECTS) $(libtagc_avx512_a_OBJECTS)
EXTRA_libtagc_a_DEPENDENCIES = $(libtagc_avx2_a_OBJECTS) $(libtagc_avx512_a_OBJECTS)
endif

# The same for GPUs: one module, in the library as a file in a file. The newest driver gets code for its GPU, older ones PTX:
# that of the oldest GPU in words that drivers from CUDA 10 on know, which ptxas checks.
libtagc_a_SOURCES += kernels/cuda_call.c kernels/cuda_call.h kernels/cuda_codecs.c kernels/cuda_codecs.h kernels/cuda_kernels.h \
  kernels/dense_cuda.c kernels/dense_cuda.h kernels/fatbin.h kernels/none_cuda.c kernels/none_cuda.h \
  kernels/lhc_cuda.c kernels/lhc_cuda.h kernels/sparse_cuda.c kernels/sparse_cuda.h \
  kernels/sparsify_cuda.c kernels/sparsify_cuda.h kernels/allgather_cuda.c kernels/allgather_cuda.h
cuda_sources = kernels/kernels.cu kernels/allgather.cu kernels/allgather_lossless.cuh kernels/call.cu kernels/call.cuh \
  kernels/dense.cu \
  kernels/dense_codecs.cuh kernels/exceptions.cuh kernels/kernel.h \
  kernels/lanes.cuh kernels/lhc.cu kernels/lines.cuh kernels/none.cu kernels/sparse.cu kernels/sparsify.cu \
  kernels/sparsify_bins.cuh kernels/sparsify_tiles.cuh
cuda_headers = kernels/allgather.h kernels/allgather_cuda.h kernels/allgather_steps.h kernels/codec.h kernels/codec_bits.h \
  kernels/codec_dense.h kernels/cuda_call.h kernels/cuda_kernels.h \
  kernels/dense.h kernels/dense_cuda.h kernels/device.h \
  kernels/exceptions.h kernels/residual.h kernels/residual_blocks.h kernels/rotate.h \
  kernels/sparse_cuda.h kernels/sparsify_bits.h kernels/sparsify_cuda.h \
  kernels/codec_lhc.h kernels/cuda_codecs.h kernels/lhc_cuda.h kernels/none_cuda.h
EXTRA_DIST += $(cuda_sources) kernels/kernel-info kernels/fatbin.c kernels/fatbin_none.c
if HAVE_NVCC
nodist_libtagc_a_SOURCES = kernels/fatbin.c
kernels/libtagc_a-fatbin.$(OBJEXT): kernels/kernels.fatbin kernels/kernels.ptx
nvcc_compile = $(NVCC) -std=c++17 -I$(top_srcdir) -fmad=false -ftz=false -prec-div=true -prec-sqrt=true $(NVCC_WARN_FLAGS)
kernels/kernels.fatbin: $(cuda_sources) $(cuda_headers)
	$(AM_V_GEN)$(MKDIR_P) kernels && $(nvcc_compile) $(NVCC_TARGETS) -Xptxas -v -Xfatbin -compress-all -fatbin \
	  -o $@ $(srcdir)/kernels/kernels.cu >kernels/kernels.log 2>&1 || { cat kernels/kernels.log >&2; exit 1; }
kernels/kernels.ptx: $(cuda_sources) $(cuda_headers)
	$(AM_V_GEN)$(MKDIR_P) kernels && $(nvcc_compile) -arch=compute_75 -ptx -o $@.new $(srcdir)/kernels/kernels.cu && \
	  sed -i -e 's/^\.version .*/.version 6.3/' -e '/used_bytes_mask/d' -e '/^\/\//d' -e '/^$$/d' $@.new && \
	  $(PTXAS) -arch=sm_75 -o /dev/null $@.new && mv $@.new $@
gpu-kernels: kernels/kernels.fatbin kernels/kernels.ptx
kernel-info: kernels/kernels.fatbin ; @$(srcdir)/kernels/kernel-info kernels/kernels.log
CLEANFILES += kernels/kernels.fatbin kernels/kernels.log kernels/kernels.ptx kernels/kernels.ptx.new
else
nodist_libtagc_a_SOURCES = kernels/fatbin_none.c
kernel-info gpu-kernels: ; @echo "make $@ needs nvcc; configure found none" >&2; exit 1
endif
.PHONY: kernel-info gpu-kernels

# What the codecs do: sizes, errors, speeds.
bin_PROGRAMS += tagc-bench
tagc_bench_SOURCES = kernels/tagc-bench.c kernels/bench.h \
  kernels/bench_data.c kernels/bench_draw.c kernels/bench_draw.h kernels/bench_forecast.c kernels/bench_gather.c kernels/bench_json.c \
  kernels/bench_model.c kernels/bench_options.c kernels/bench_outlook.c kernels/bench_plot.c kernels/bench_sim.c \
  kernels/bench_speed.c kernels/bench_table.c
tagc_bench_LDFLAGS = $(PROGRAM_LINK_FLAGS)
tagc_bench_LDADD = libtagc.a -lm
