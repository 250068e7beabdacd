# SPDX-License-Identifier: BSD-3-Clause
# calls/: a call on its communicator, observed, decided and accounted for.
libtagc_a_SOURCES += \
  %D%/account.c %D%/calls.h %D%/decide.c %D%/lock.c %D%/observe.c %D%/trace_calls.c %D%/trace_cycles.c %D%/traced.h
