# SPDX-License-Identifier: BSD-3-Clause
# examples/: the example trainer.
unit_tests += %D%/test_vocabulary
%C%_test_vocabulary_SOURCES = %D%/test_vocabulary.c examples/gpt/vocabulary.c
