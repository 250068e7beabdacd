# SPDX-License-Identifier: BSD-3-Clause
# env/: options and the log; the only folder that reads the environment.
libtagc_a_SOURCES += env/hash.h env/host.c env/host.h env/log.c env/log.h env/options.c env/options.def env/options.h
libtagc_a_SOURCES += env/signals.c env/signals.h env/files.c env/files.h
