# SPDX-License-Identifier: BSD-3-Clause
# torch/: asks the PyTorch of this process for its model.
libtagc_a_SOURCES += %D%/ask.c %D%/ask.h %D%/read.c
EXTRA_DIST += %D%/modules.py
CLEANFILES += %D%/modules.inc

# Its lines as strings, without comments.
%D%/modules.inc: %D%/modules.py
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	  sed -e '/^ *#/d' -e '/^$$/d' -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n",/' $(srcdir)/%D%/modules.py >$@.new && mv $@.new $@
%D%/libtagc_a-ask.$(OBJEXT): %D%/modules.inc
