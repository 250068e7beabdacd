# SPDX-License-Identifier: BSD-3-Clause
# infer/: identification of the model from the sizes of calls.
unit_tests += %D%/test_layers %D%/test_solve %D%/test_zoo
EXTRA_DIST += %D%/solve_slots.h
%C%_test_layers_SOURCES = %D%/test_layers.c examples/gpt/units.c
%C%_test_layers_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
