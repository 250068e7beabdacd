# SPDX-License-Identifier: BSD-3-Clause
libtagc_a_SOURCES += \
  layermap/cycle.c layermap/cycle.h \
  layermap/evidence.c layermap/evidence.h \
  layermap/families.c layermap/families.h \
  layermap/kinds.c \
  layermap/layout.c layermap/layout.h \
  layermap/model.c layermap/model.h \
  layermap/pattern.c layermap/pattern.h \
  layermap/select.c layermap/select.h \
  layermap/units.c layermap/units.h
libtagc_a_SOURCES += layermap/text.c layermap/text.h layermap/complaint.h
libtagc_a_SOURCES += layermap/calls.c layermap/calls.h
libtagc_a_SOURCES += layermap/glob.c layermap/glob.h
libtagc_a_SOURCES += layermap/parts.c layermap/parts.h
libtagc_a_SOURCES += layermap/mapfile.c layermap/mapfile_write.c layermap/mapfile.h
