# SPDX-License-Identifier: BSD-3-Clause
# nccl/: which NCCL is meant.
unit_tests += %D%/test_imports %D%/test_linker %D%/test_unknown %D%/test_versions
EXTRA_DIST += %D%/abi_table.h
if !SANITIZED
# The library requests an old version of it (env/glibc.h): only the dynamic linker takes the program's symbol for that.
%C%_test_linker_LDFLAGS = $(AM_LDFLAGS) -Wl,--export-dynamic,--defsym=dlvsym=__wrap_dlvsym
endif
if REAL_NCCL_H
unit_tests += %D%/test_abi
%C%_test_abi_SOURCES = %D%/test_abi.c %D%/abi_ours.c
endif
if SANITIZED
%C%_test_linker_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dlvsym
endif
