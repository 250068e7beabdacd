# SPDX-License-Identifier: BSD-3-Clause
# vote/: the votes of ranks.
unit_tests += %D%/test_vote %D%/test_budget %D%/test_hosts %D%/test_message
EXTRA_DIST += %D%/rank.h
%C%_test_vote_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=tagc_clock_ms
%C%_test_budget_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=tagc_clock_ms,--wrap=tagc_clock_ns
