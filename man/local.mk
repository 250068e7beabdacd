# SPDX-License-Identifier: BSD-3-Clause
# man/: the manual; its lists come from the tables of the library.
noinst_PROGRAMS += man/print_tables
man_print_tables_SOURCES = man/print_tables.c env/run.h env/run_name.c
man_print_tables_LDADD = libtagc.a

man_MANS = man/libtagc-preload.7 man/tagc-bench.1 man/tagc-run.1
EXTRA_DIST += man/libtagc-preload.7.in man/tagc-bench.1 man/tagc-run.1.in
CLEANFILES += man/libtagc-preload.7 man/tagc-run.1

# A line @list@ becomes what `print_tables list` prints.
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
