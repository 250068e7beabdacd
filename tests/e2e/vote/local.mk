# SPDX-License-Identifier: BSD-3-Clause
# vote/: the agreement of ranks, and their choice of codecs by measurements.
e2e_tests += %D%/agreement.test %D%/agreement_hosts.test %D%/auto.test %D%/auto_allgathers.test %D%/budget.test
check_PROGRAMS += %D%/agreement %D%/auto %D%/budget %D%/played_time.so
%C%_played_time_so_SOURCES = %D%/played_time.c
%C%_played_time_so_CFLAGS = $(of_shared_objects)
%C%_played_time_so_LDFLAGS = $(to_shared_objects)
%C%_played_time_so_LDADD = tests/standin/libnccl.so
