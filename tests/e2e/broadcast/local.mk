# SPDX-License-Identifier: BSD-3-Clause
# broadcast/: broadcasts that repeat (TAGC_BROADCAST).
e2e_tests += %D%/broadcasts.test
check_PROGRAMS += %D%/broadcasts
