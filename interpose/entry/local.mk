# SPDX-License-Identifier: BSD-3-Clause
# entry/: how a call comes in and goes out.
libtagc_a_SOURCES += \
  %D%/background.c %D%/background.h %D%/beside.c %D%/beside.h %D%/dispatch.c %D%/dispatch.h %D%/group.c %D%/group.h %D%/launch.c \
  %D%/launch.h %D%/rounds.c %D%/rounds.h %D%/start.c %D%/start.h
libtagc_preload_so_SOURCES += %D%/adapter.h %D%/entries.c %D%/entries_comm_init.c
libtagc_preload_so_LDFLAGS = $(SANITIZE_CFLAGS) $(HARDEN_LDFLAGS) -shared -nostartfiles -Wl,-z,defs -Wl,-Bsymbolic \
  -Wl,-soname,libtagc-preload.so $(old_glibc_ldflags)
EXTRA_DIST += %D%/README.md
