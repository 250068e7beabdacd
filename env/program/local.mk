# SPDX-License-Identifier: BSD-3-Clause
# env/program/: what the programs share. The library uses nothing of it.
libtagc_a_SOURCES += \
  %D%/command_line.c %D%/command_line.h %D%/json.c %D%/json.h %D%/markup.c %D%/markup.h %D%/terminal.c %D%/terminal.h
