# SPDX-License-Identifier: BSD-3-Clause
libtagc_a_SOURCES += \
  layermap/cycle.c layermap/cycle.h \
  layermap/evidence.c layermap/evidence.h \
  layermap/families.c layermap/families.h \
  layermap/kinds.c \
  layermap/layers.c layermap/layers.h \
  layermap/layout.c layermap/layout.h \
  layermap/match.c layermap/match.h \
  layermap/megatron.c layermap/megatron.h \
  layermap/model.c layermap/model.h \
  layermap/pattern.c layermap/pattern.h \
  layermap/prior.c layermap/prior.h \
  layermap/search.h layermap/search_blocks.c layermap/search_outside.c layermap/search_totals.c \
  layermap/select.c layermap/select.h \
  layermap/shapes.c layermap/shapes.h \
  layermap/solve.c layermap/solve.h

# What only tagc-map needs: models from files of others. Never in the library, which links nothing of that.
EXTRA_DIST += layermap/map_config.h layermap/map_json.h layermap/map_order.h layermap/map_safetensors.h
if HAVE_JANSSON
noinst_LIBRARIES += libtagc-map.a
libtagc_map_a_SOURCES = \
  layermap/map_config.c layermap/map_config.h \
  layermap/map_header.c layermap/map_header.h \
  layermap/map_json.c layermap/map_json.h \
  layermap/map_order.c layermap/map_order.h \
  layermap/map_safetensors.c layermap/map_safetensors.h
endif
