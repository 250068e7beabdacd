# SPDX-License-Identifier: BSD-3-Clause
# stats/: the costs of slots, and the report at exit.
libtagc_a_SOURCES += \
  %D%/exit_report.c %D%/exit_report.h %D%/exit_report_allgathers.c %D%/exit_report_broadcasts.c \
  %D%/exit_report_passed.c %D%/exit_report_table.c %D%/layers_log.c \
  %D%/layers_log.h %D%/ledger.c %D%/ledger.h
