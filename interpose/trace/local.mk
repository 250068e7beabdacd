# SPDX-License-Identifier: BSD-3-Clause
# trace/: the file of a trace, and the thread that writes it.
libtagc_a_SOURCES += \
  %D%/format.h %D%/names.c %D%/record.c %D%/record.h %D%/trace.c %D%/trace.h
EXTRA_DIST += %D%/README.md
