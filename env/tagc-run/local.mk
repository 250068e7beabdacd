# SPDX-License-Identifier: BSD-3-Clause
# tagc-run: starts a command with the library in front of NCCL.
bin_PROGRAMS += tagc-run
tagc_run_SOURCES = \
  %D%/environment.c %D%/name.c %D%/options.c %D%/run.h %D%/tagc-run.c
tagc_run_CPPFLAGS = $(AM_CPPFLAGS) -DPRELOADDIR='"$(preloaddir)"' -DBINDIR='"$(bindir)"'
tagc_run_CFLAGS = $(PROGRAM_CFLAGS)
tagc_run_LDFLAGS = $(PROGRAM_LINK_FLAGS)
tagc_run_LDADD = libtagc.a $(PROGRAM_START)
