# SPDX-License-Identifier: BSD-3-Clause
# tagc-map/: makes map files from other programs' files. Never in the library. Needs libjansson.
if HAVE_JANSSON
noinst_LIBRARIES += libtagc-map.a
libtagc_map_a_CFLAGS = $(PROGRAM_CFLAGS)
libtagc_map_a_SOURCES = \
  %D%/composite.c %D%/composite.h %D%/config.c %D%/config.h %D%/header.c %D%/header.h %D%/json.c %D%/json.h \
  %D%/forecast.c %D%/forecast.h %D%/forecast_codecs.c %D%/forecast_compare.c %D%/forecast_data.c %D%/forecast_layout.c %D%/forecast_model.c \
  %D%/forecast_print.c %D%/keys.c %D%/keys.h %D%/order.c %D%/order.h %D%/safetensors.c %D%/safetensors.h %D%/vision.c %D%/vision.h
bin_PROGRAMS += tagc-map
tagc_map_SOURCES = \
  %D%/check.c %D%/map.h %D%/svg.c %D%/table.c %D%/tagc-map.c
tagc_map_CFLAGS = $(PROGRAM_CFLAGS)
tagc_map_LDFLAGS = $(PROGRAM_LINK_FLAGS)
tagc_map_LDADD = libtagc-map.a libtagc.a $(PROGRAM_START) $(JANSSON_LIBS)
endif
