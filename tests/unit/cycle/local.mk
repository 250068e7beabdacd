# SPDX-License-Identifier: BSD-3-Clause
# cycle/: cycles of calls.
unit_tests += %D%/test_cycle %D%/test_follow %D%/test_random %D%/test_allgathers %D%/test_calls %D%/test_activations \
  %D%/test_replicas %D%/test_sequences %D%/test_rounds
EXTRA_DIST += %D%/tape.h
