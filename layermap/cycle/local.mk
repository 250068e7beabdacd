# SPDX-License-Identifier: BSD-3-Clause
# cycle/: the calls of a training step.
libtagc_a_SOURCES += \
  %D%/activations.c %D%/activations.h %D%/beginning.c %D%/beginning.h %D%/replicas.c %D%/replicas.h \
  %D%/calls.c %D%/calls.h %D%/cycle.c %D%/cycle.h %D%/evidence.c %D%/evidence.h \
  %D%/allgathers.c %D%/allgathers.h %D%/forward.c %D%/forward.h %D%/landmarks.c %D%/landmarks.h %D%/pattern.c %D%/pattern.h %D%/units.c %D%/units.h
