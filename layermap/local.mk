# SPDX-License-Identifier: BSD-3-Clause
libtagc_a_SOURCES += \
  layermap/activations.c layermap/activations.h \
  layermap/calls.c layermap/calls.h layermap/complaint.h \
  layermap/cycle.c layermap/cycle.h \
  layermap/division.c layermap/division.h \
  layermap/doubts.c \
  layermap/evidence.c layermap/evidence.h \
  layermap/families.c layermap/families.h \
  layermap/glob.c layermap/glob.h \
  layermap/kinds.c \
  layermap/layers.c layermap/layers.h \
  layermap/contents.c layermap/contents.h \
  layermap/layout.c layermap/layout.h \
  layermap/mapfile.c layermap/mapfile_write.c layermap/mapfile.h \
  layermap/match.c layermap/match.h \
  layermap/megatron.c layermap/megatron.h \
  layermap/model.c layermap/model.h \
  layermap/parts.c layermap/parts.h \
  layermap/pattern.c layermap/pattern.h \
  layermap/prior.c layermap/prior.h \
  layermap/search.h layermap/search_blocks.c layermap/search_outside.c layermap/search_totals.c \
  layermap/select.c layermap/select.h \
  layermap/shapes.c layermap/shapes.h \
  layermap/solve.c layermap/solve.h \
  layermap/text.c layermap/text.h \
  layermap/gathers.c layermap/gathers.h \
  layermap/units.c layermap/units.h \
  layermap/wording.c layermap/wording.h

# What only tagc-map needs: models from files of others. Never in the library, which links nothing of that.
if HAVE_JANSSON
noinst_LIBRARIES += libtagc-map.a
libtagc_map_a_SOURCES = \
  layermap/map_config.c layermap/map_config.h \
  layermap/map_header.c layermap/map_header.h \
  layermap/map_json.c layermap/map_json.h \
  layermap/map_order.c layermap/map_order.h \
  layermap/map_safetensors.c layermap/map_safetensors.h

bin_PROGRAMS += tagc-map
tagc_map_SOURCES = layermap/tagc-map.c layermap/map.h layermap/map_check.c layermap/map_svg.c layermap/map_table.c \
  layermap/drawing.c layermap/drawing.h
tagc_map_LDFLAGS = $(PROGRAM_LINK_FLAGS)
tagc_map_LDADD = libtagc-map.a libtagc.a $(JANSSON_LIBS)
endif
