# SPDX-License-Identifier: BSD-3-Clause
# interpose/: how a call comes in and goes out. All but the exported entries is in the convenience library.
libtagc_a_SOURCES += \
  interpose/call.h interpose/entries.def interpose/reasons.def interpose/nccl_newer.h \
  interpose/comm.c interpose/comm.h \
  interpose/dispatch.c \
  interpose/execute.c interpose/execute.h \
  interpose/group.c interpose/group.h \
  interpose/imports.c interpose/imports.h \
  interpose/launch.c interpose/launch.h \
  interpose/ledger.c interpose/ledger.h \
  interpose/library.c interpose/library.h \
  interpose/linker.c interpose/linker.h \
  interpose/names.c \
  interpose/op.c \
  interpose/plan.c interpose/plan.h \
  interpose/real.c interpose/real.h interpose/hook.h \
  interpose/report.c \
  interpose/vote.c interpose/vote.h

libtagc_preload_so_SOURCES += interpose/entries.c interpose/hook.c
if X86_64
libtagc_preload_so_SOURCES += interpose/hook_x86_64.S
endif
if AARCH64
libtagc_preload_so_SOURCES += interpose/hook_aarch64.S
endif
libtagc_preload_so_LDFLAGS = $(SANITIZE_CFLAGS) -shared -nostartfiles -Wl,-z,defs -Wl,-Bsymbolic -Wl,-z,relro,-z,now \
  -Wl,-soname,libtagc-preload.so

EXTRA_DIST += interpose/abi/nccl.h
