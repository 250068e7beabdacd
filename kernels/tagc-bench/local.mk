# SPDX-License-Identifier: BSD-3-Clause
# tagc-bench/: measures the codecs: sizes, errors, speeds.
bin_PROGRAMS += tagc-bench
tagc_bench_SOURCES = \
  %D%/allgather.c %D%/bench.h %D%/data.c %D%/draw.c %D%/draw.h %D%/forecast.c %D%/gpu.c %D%/json.c %D%/median.c %D%/model.c %D%/options.c \
  %D%/outlook.c %D%/plot.c %D%/sim.c %D%/speed.c %D%/table.c %D%/tagc-bench.c
tagc_bench_CFLAGS = $(PROGRAM_CFLAGS)
tagc_bench_LDFLAGS = $(PROGRAM_LINK_FLAGS)
tagc_bench_LDADD = libtagc.a $(PROGRAM_START) -lm
