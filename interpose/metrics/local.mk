# SPDX-License-Identifier: BSD-3-Clause
# metrics/: the figures of a training while it runs, for Prometheus and as JSON lines.
libtagc_a_SOURCES += \
  %D%/families.c %D%/families.h %D%/files.c %D%/files.h %D%/format.c %D%/format.h %D%/metrics.c %D%/metrics.def \
  %D%/metrics.h
