# SPDX-License-Identifier: BSD-3-Clause
# ab/: compares the two sides of TAGC_MODE=ab.
libtagc_a_SOURCES += %D%/windows.c %D%/windows.h
