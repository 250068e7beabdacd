# SPDX-License-Identifier: BSD-3-Clause
# broadcast/: to which earlier broadcast one refers, and what its ranks do about it.
libtagc_a_SOURCES += %D%/references.c %D%/references.h %D%/verdict.c %D%/verdict.h
EXTRA_DIST += %D%/README.md
