# SPDX-License-Identifier: BSD-3-Clause
# api/: features of NCCL's interface: groups, captures, non-blocking communicators, return codes, ends.
e2e_tests += %D%/return_codes.test %D%/capture.test %D%/exits.test %D%/groups.test %D%/nonblocking.test
check_PROGRAMS += %D%/return_codes %D%/capture %D%/exits %D%/groups %D%/nonblocking
EXTRA_DIST += %D%/inprocess.h
%C%_capture_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_capture_LDFLAGS = $(to_driver)
