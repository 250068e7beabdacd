# SPDX-License-Identifier: BSD-3-Clause
# nccl/: finds the NCCL that the program means, and its functions.
libtagc_a_SOURCES += \
  %D%/capture.c %D%/capture.h %D%/entries.def %D%/hook.h %D%/imports.c %D%/imports.h %D%/linker.c %D%/linker.h \
  %D%/names.c %D%/nccl_newer.h %D%/process.c %D%/process.h %D%/real.c %D%/real.h \
  %D%/unknown.c %D%/unknown.h
libtagc_preload_so_SOURCES += %D%/hook.c
if X86_64
libtagc_preload_so_SOURCES += %D%/hook_x86_64.S
endif
if AARCH64
libtagc_preload_so_SOURCES += %D%/hook_aarch64.S
endif
EXTRA_DIST += %D%/abi/nccl.h
EXTRA_DIST += %D%/README.md
