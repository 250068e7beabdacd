# SPDX-License-Identifier: BSD-3-Clause
# infer/: identification of the model from the sizes of calls.
unit_tests += %D%/test_layers %D%/test_solve %D%/test_twins %D%/test_zoo
EXTRA_DIST += %D%/solve_slots.h
%C%_test_twins_SOURCES = %D%/test_twins.c %D%/zoo.c %D%/zoo.h
%C%_test_zoo_SOURCES = %D%/test_zoo.c %D%/zoo.c %D%/zoo.h
%C%_test_layers_SOURCES = %D%/test_layers.c examples/gpt/units.c
%C%_test_layers_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
