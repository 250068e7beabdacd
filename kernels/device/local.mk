# SPDX-License-Identifier: BSD-3-Clause
# device/: where codecs run: the host and GPUs.
libtagc_a_SOURCES += \
  %D%/codec.c %D%/cuda.c %D%/cuda_codecs.c %D%/cuda_device.h %D%/cuda_allgather.c %D%/cuda_side_stream.c %D%/cuda_memory.c \
  %D%/cuda_tally.c %D%/cuda_timer.c %D%/cuda_self_test.c %D%/fatbin.h %D%/host.c %D%/host_side_stream.c %D%/host_side_stream.h \
  %D%/self_test.c %D%/self_test.h %D%/self_test_allgather.c %D%/gradient_stats.c %D%/gradient_stats.h %D%/parameter_stats.c %D%/parameter_stats.h \
  %D%/self_test_run.h
cuda_sources += %D%/kernels.cu
EXTRA_DIST += %D%/kernel-info %D%/sass-info %D%/fatbin.c %D%/fatbin_none.c
EXTRA_DIST += %D%/README.md
