# SPDX-License-Identifier: BSD-3-Clause
# env/program/: code that the programs share. The library uses none of it.
libtagc_a_SOURCES += \
  %D%/command_line.c %D%/command_line.h %D%/json.c %D%/json.h %D%/markup.c %D%/markup.h %D%/output.c %D%/output.h \
  %D%/terminal.c %D%/terminal.h
