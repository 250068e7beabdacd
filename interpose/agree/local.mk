# SPDX-License-Identifier: BSD-3-Clause
# agree/: the handshake by which ranks settle whether calls may be compressed.
libtagc_a_SOURCES += \
  %D%/agree.c %D%/agree.h %D%/decider.c %D%/decider.h %D%/listener.c %D%/listener.h %D%/wire.c %D%/wire.h
EXTRA_DIST += %D%/README.md
