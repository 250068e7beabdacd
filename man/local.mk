# SPDX-License-Identifier: BSD-3-Clause
# man/: the manual. Its lists come from the tables of the library.
tables_sources = man/print_tables.c env/tagc-run/run.h env/tagc-run/name.c
EXTRA_DIST += $(tables_sources)
tables_needed = env/log.c env/program/terminal.c env/options.c env/signals.c env/units.c layermap/model/kinds.c
if CROSS_COMPILING
man/print_tables$(EXEEXT): $(tables_sources) $(tables_needed) env/options.def interpose/nccl/entries.def interpose/metrics/metrics.def interpose/policy/reasons.def kernels/codec/codecs.def
	$(AM_V_GEN)$(MKDIR_P) $(@D) && out=`pwd`/$@ && cd $(srcdir) && \
	  $(CC_FOR_BUILD) -D_GNU_SOURCE -I. -o "$$out" $(filter %.c,$(tables_sources) $(tables_needed)) -lpthread
CLEANFILES += man/print_tables$(EXEEXT)
else
noinst_PROGRAMS += man/print_tables
man_print_tables_SOURCES = $(tables_sources)
man_print_tables_LDADD = libtagc.a
endif

man_MANS = man/libtagc-preload.7 man/tagc-bench.1 man/tagc-run.1
EXTRA_DIST += man/libtagc-preload.7.in man/tagc-bench.1 man/tagc-run.1.in
CLEANFILES += man/libtagc-preload.7 man/tagc-run.1

# A line @list@ becomes the output of `print_tables list`.
from_tables = $(AM_V_GEN)$(MKDIR_P) $(@D) && $(AWK) -v tables=man/print_tables \
  '/^@[a-z]+@$$/ { gsub(/@/, ""); if (system(tables " " $$0)) exit 1; next } { print; fflush() }' \
  $(srcdir)/$@.in >$@.new && mv $@.new $@
man/libtagc-preload.7: man/libtagc-preload.7.in man/print_tables$(EXEEXT) ; $(from_tables)
man/tagc-run.1: man/tagc-run.1.in man/print_tables$(EXEEXT) ; $(from_tables)

EXTRA_DIST += man/tagc-doctor.1
if HAVE_LIBELF
man_MANS += man/tagc-doctor.1
endif

EXTRA_DIST += man/tagc-map.1 man/tagc-map.5
man_MANS += man/tagc-map.5
EXTRA_DIST += man/tagc-trace.5
man_MANS += man/tagc-trace.5
if HAVE_JANSSON
man_MANS += man/tagc-map.1
endif

man_MANS += man/tagc-report.1
EXTRA_DIST += man/tagc-report.1

# The manual and the texts of the tree as HTML, in html/: `make html`. All pages, also those of programs that are not built.
html_pages = man/libtagc-preload.7 man/tagc-run.1 man/tagc-report.1 man/tagc-doctor.1 man/tagc-bench.1 man/tagc-map.1 \
  man/tagc-map.5 man/tagc-trace.5
html_texts = README.md examples/TUTORIAL.md tests/fixtures/broadcasts/README.md NEWS $(EXTRA_DIST)
clean_folders += html
html-local: $(html_pages)
	$(AM_V_GEN)$(srcdir)/man/web/make $(srcdir) html $(VERSION) $(html_pages) $(html_texts)
install-html-local: html-local
	$(MKDIR_P) '$(DESTDIR)$(htmldir)'
	cp -R html/. '$(DESTDIR)$(htmldir)/'
# The folder may hold more than these pages: by default it is that of the examples.
uninstall-local:
	@test ! -d html || { cd html && find . -type f -print -o -type d ! -name . -print | sort -r; } | while IFS= read -r page; do \
	  rm -d -f '$(DESTDIR)$(htmldir)'/"$$page" 2>/dev/null || :; done
EXTRA_DIST += man/web/make man/web/style.css
