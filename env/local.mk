# SPDX-License-Identifier: BSD-3-Clause
# env/: options and the log; the only folder that reads the environment.
libtagc_a_SOURCES += \
  %D%/append.h %D%/clock.c %D%/clock.h %D%/conf.c %D%/conf.h %D%/descriptors.c %D%/descriptors.h %D%/files.c %D%/files.h %D%/glibc.h \
  %D%/hash.h %D%/host.c %D%/host.h %D%/log.c %D%/log.h %D%/mark.c %D%/mark.h %D%/numbers.h %D%/options.c %D%/options.def %D%/options.h \
  %D%/place.c %D%/place.h %D%/signals.c %D%/signals.h %D%/thread.c %D%/thread.h %D%/units.c %D%/units.h
include $(srcdir)/%D%/program/local.mk
include $(srcdir)/%D%/tagc-run/local.mk
