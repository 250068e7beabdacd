# SPDX-License-Identifier: BSD-3-Clause
# env/: options and the log; the only folder that reads the environment.
libtagc_a_SOURCES += env/append.h env/glibc.h env/hash.h env/host.c env/host.h env/log.c env/log.h env/options.c env/options.def env/options.h
libtagc_a_SOURCES += env/signals.c env/signals.h env/files.c env/files.h
libtagc_a_SOURCES += env/descriptors.c env/descriptors.h env/place.c env/place.h env/thread.c env/thread.h

# tagc-run: starts a command with the library in front of NCCL.
bin_PROGRAMS += tagc-run
tagc_run_SOURCES = env/tagc-run.c env/run.h env/run_environment.c env/run_name.c env/run_options.c
tagc_run_CPPFLAGS = $(AM_CPPFLAGS) -DPRELOADDIR='"$(preloaddir)"' -DBINDIR='"$(bindir)"'
tagc_run_LDFLAGS = $(PROGRAM_LINK_FLAGS)
tagc_run_LDADD = libtagc.a
