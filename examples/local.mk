# SPDX-License-Identifier: BSD-3-Clause
# The example: an ordinary training program. It uses nothing of the library and does not know of it.
if HAVE_BLAS
noinst_LIBRARIES += examples/libgpt.a
noinst_PROGRAMS += examples/train_gpt
endif
# The model and its text, which tests/bench/progress trains, too.
examples_libgpt_a_SOURCES = \
  examples/gpt/block.c \
  examples/gpt/fail.h \
  examples/gpt/fast_exp.h \
  examples/gpt/layers.c examples/gpt/layers.h \
  examples/gpt/model.c examples/gpt/model.h \
  examples/gpt/random.h \
  examples/gpt/text.c examples/gpt/text.h \
  examples/gpt/units.c \
  examples/gpt/vocabulary.c examples/gpt/vocabulary.h
examples_train_gpt_SOURCES = \
  examples/train_gpt.c examples/rendezvous.h \
  examples/gpt/adamw.c examples/gpt/adamw.h \
  examples/gpt/checkpoint.c examples/gpt/checkpoint.h \
  examples/gpt/gradients.c examples/gpt/gradients.h \
  examples/gpt/options.c examples/gpt/options.h \
  examples/gpt/parallel.c examples/gpt/parallel.h \
  examples/gpt/steps.c examples/gpt/steps.h
# `omp simd` marks the loops that must vectorise at any -O level. Without the other two flags, they would stay scalar: a
# square root might set errno, a comparison might trap. NaN and infinity keep their meaning.
examples_libgpt_a_CFLAGS = $(AM_CFLAGS) $(BLAS_CPPFLAGS) -fopenmp-simd -fno-math-errno -fno-trapping-math
examples_train_gpt_CFLAGS = $(examples_libgpt_a_CFLAGS)
examples_libgpt_a_CPPFLAGS = $(AM_CPPFLAGS) '-DSOURCES="$(abs_top_srcdir)"'
# Linked like any NCCL program. Here -lnccl finds the stand-in.
examples_train_gpt_LDADD = examples/libgpt.a -Ltests/standin -lnccl $(BLAS_LIBS) -lm
examples_train_gpt_DEPENDENCIES = examples/libgpt.a tests/standin/libnccl.so
EXTRA_DIST += examples/demo examples/fidelity examples/large examples/paper examples/runs.sh examples/hosts.sh examples/two-hosts examples/picture examples/large.svg examples/steps.svg

# The same in PyTorch, for GPUs, and a tour of the library with it.
EXTRA_DIST += examples/train_fsdp.py examples/TUTORIAL.md

# A dashboard for Grafana, with the figures of TAGC_METRICS.
examplesdir = $(docdir)/examples
dist_examples_DATA = examples/grafana.json

# Launcher scripts that pass the variables to all ranks.
launchersdir = $(docdir)/examples/launchers
dist_launchers_SCRIPTS = examples/launchers/accelerate.sh examples/launchers/deepspeed.sh examples/launchers/megatron.sh \
  examples/launchers/mpirun.sh examples/launchers/slurm.sh examples/launchers/torchrun.sh
dist_launchers_DATA = examples/launchers/kubernetes.yaml
