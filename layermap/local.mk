# SPDX-License-Identifier: BSD-3-Clause
libtagc_a_SOURCES += \
  layermap/cycle.c layermap/cycle.h \
  layermap/evidence.c layermap/evidence.h \
  layermap/parts.c layermap/parts.h \
  layermap/pattern.c layermap/pattern.h \
  layermap/select.c layermap/select.h
