# SPDX-License-Identifier: BSD-3-Clause
# model/: models, their parameters, and map files.
libtagc_a_SOURCES += \
  %D%/complaint.h %D%/contents.c %D%/contents.h %D%/families.c %D%/families.h %D%/glob.c %D%/glob.h %D%/kinds.c \
  %D%/layout.c %D%/layout.h %D%/mapfile.c %D%/mapfile.h %D%/mapfile_write.c %D%/megatron.c %D%/megatron.h %D%/model.c \
  %D%/model.h %D%/parts.c %D%/parts.h %D%/select.c %D%/select.h %D%/text.c %D%/text.h
