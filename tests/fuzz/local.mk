# SPDX-License-Identifier: BSD-3-Clause
# fuzz/: one line a target. Its source is NAME.c, and it links $(LDADD); what else it needs goes into its _SOURCES and
# _LDADD, as for any program. `./quickstart fuzz` builds the targets with clang in a folder of their own, and searches.
# In every other build corpus.test runs them over their corpora.
fuzz_targets =
fuzz_targets += %D%/agree
fuzz_targets += %D%/broadcast
fuzz_targets += %D%/calls
fuzz_targets += %D%/cycle
if HAVE_LIBELF
fuzz_targets += %D%/elf
%C%_elf_SOURCES = %D%/elf.c interpose/tagc-doctor/elf.c
%C%_elf_LDADD = $(LDADD) $(LIBELF_LIBS)
endif
fuzz_targets += %D%/gather
fuzz_targets += %D%/imports
fuzz_targets += %D%/mapfile
%C%_mapfile_SOURCES = %D%/mapfile.c layermap/tagc-map/table.c layermap/tagc-map/svg.c
if HAVE_JANSSON
fuzz_targets += %D%/models
%C%_models_LDADD = libtagc-map.a $(LDADD) $(JANSSON_LIBS)
endif
fuzz_targets += %D%/options
fuzz_targets += %D%/payload
fuzz_targets += %D%/plan
fuzz_targets += %D%/select
fuzz_targets += %D%/trace
%C%_trace_SOURCES = %D%/trace.c interpose/tagc-report/show/report.c interpose/tagc-report/show/text.c \
  interpose/tagc-report/show/text_comms.c interpose/tagc-report/show/json.c
%C%_trace_LDADD = libtagc-report.a $(LDADD)

check_LIBRARIES = %D%/libreplay.a
%C%_libreplay_a_SOURCES = %D%/replay.c
if FUZZERS
EXTRA_PROGRAMS += $(fuzz_targets)
CLEANFILES += $(fuzz_targets)
else
check_PROGRAMS += $(fuzz_targets)
dist_check_SCRIPTS += %D%/corpus.test
TESTS += %D%/corpus.test
endif
clean_folders += %D%/inputs
EXTRA_DIST += %D%/input.h %D%/complaint.h %D%/run %D%/corpus %D%/README.md

FUZZ_SECONDS = 20
FUZZ_TARGETS = $(fuzz_targets)
fuzz-programs: $(FUZZ_TARGETS)
if FUZZERS
fuzz: fuzz-programs
	@$(srcdir)/tests/fuzz/run $(FUZZ_SECONDS) $(FUZZ_TARGETS)
else
fuzz:
	@echo "make $@ needs ../configure CC=clang --enable-fuzzers; ./quickstart fuzz does that" >&2; exit 1
endif
.PHONY: fuzz fuzz-programs
