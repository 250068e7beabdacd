# SPDX-License-Identifier: BSD-3-Clause
# calls/: collectives of one communicator and of several: the compressed calls and their results.
e2e_tests += %D%/all_reduce.test %D%/reduce_scatter.test %D%/steps.test %D%/threads.test %D%/gathers.test \
  %D%/activations.test %D%/nothing.test %D%/layouts.test %D%/depth.test %D%/dump.test %D%/signatures.test %D%/homes.test \
  %D%/random_programs.test %D%/rounds.test %D%/shards.test %D%/contents.test %D%/schedule.test \
  %D%/averages.test
check_PROGRAMS += %D%/all_reduce %D%/reduce_scatter %D%/steps %D%/threads %D%/gathers %D%/activations %D%/layouts \
  %D%/depth %D%/dump %D%/signatures %D%/homes %D%/random_programs %D%/rounds %D%/shards %D%/contents %D%/averages
EXTRA_DIST += %D%/random_program.h
%C%_random_programs_SOURCES = %D%/random_programs.c %D%/random_make.c %D%/random_run.c
if HAVE_BLAS
e2e_tests += %D%/parts.test
endif
