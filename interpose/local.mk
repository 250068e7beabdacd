# SPDX-License-Identifier: BSD-3-Clause
# interpose/: how a call comes in and goes out. All but the exported entries is in the convenience library.
libtagc_a_SOURCES += \
  interpose/call.h interpose/entries.def interpose/reasons.def interpose/nccl_newer.h \
  interpose/agree.c interpose/agree.h \
  interpose/agree_decider.c interpose/agree_decider.h \
  interpose/agree_listener.c interpose/agree_listener.h \
  interpose/agree_wire.c interpose/agree_wire.h \
  interpose/auto.c interpose/auto.h \
  interpose/ballot.c interpose/ballot.h \
  interpose/budget.c interpose/budget.h \
  interpose/split.c interpose/split.h \
  interpose/states.c interpose/states.h \
  interpose/capture.c interpose/capture.h \
  interpose/choose.c interpose/choose.h \
  interpose/comm.c interpose/comm.h interpose/comm_accounts.c interpose/comm_phases.c interpose/comm_table.c \
  interpose/depth.c interpose/depth.h \
  interpose/dispatch.c \
  interpose/dump.c interpose/dump.h \
  interpose/background.c interpose/background.h \
  interpose/beside.c interpose/beside.h \
  interpose/estate.c interpose/estate.h \
  interpose/exchange.c interpose/exchange.h \
  interpose/execute.c interpose/execute.h interpose/work.h interpose/reduce.c interpose/gather.c interpose/spread.c \
  interpose/allgathers.c interpose/allgathers.h \
  interpose/group.c interpose/group.h \
  interpose/imports.c interpose/imports.h \
  interpose/launch.c interpose/launch.h \
  interpose/layers_log.c interpose/layers_log.h \
  interpose/levels.c interpose/levels.h \
  interpose/ledger.c interpose/ledger.h \
  interpose/library.c interpose/library.h \
  interpose/linker.c interpose/linker.h \
  interpose/live.c interpose/live.h \
  interpose/names.c \
  interpose/op.c \
  interpose/option_check.c interpose/option_check.h \
  interpose/plan.c interpose/plan.h \
  interpose/topology.c interpose/topology.h \
  interpose/probe.c interpose/probe.h \
  interpose/ranges.c interpose/ranges.h \
  interpose/selection.c interpose/selection.h \
  interpose/record.c interpose/record.h \
  interpose/rounds.c interpose/rounds.h \
  interpose/real.c interpose/real.h interpose/hook.h \
  interpose/report.c interpose/report.h \
  interpose/report_table.c interpose/report_gathers.c \
  interpose/times.c interpose/times.h \
  interpose/trace.c interpose/trace.h interpose/trace_format.h \
  interpose/trace_calls.c \
  interpose/trace_comms.c \
  interpose/trace_cycles.c \
  interpose/trace_names.c \
  interpose/trace_sent.c \
  interpose/vote.c interpose/vote.h

libtagc_preload_so_SOURCES += interpose/entries.c interpose/entries_births.c interpose/adapter.h interpose/hook.c
if X86_64
libtagc_preload_so_SOURCES += interpose/hook_x86_64.S
endif
if AARCH64
libtagc_preload_so_SOURCES += interpose/hook_aarch64.S
endif
libtagc_preload_so_LDFLAGS = $(SANITIZE_CFLAGS) $(HARDEN_LDFLAGS) -shared -nostartfiles -Wl,-z,defs -Wl,-Bsymbolic \
  -Wl,-soname,libtagc-preload.so $(old_glibc_ldflags)

EXTRA_DIST += interpose/abi/nccl.h

# What traces tell: for tagc-report, and tests. Never in the library.
noinst_LIBRARIES += libtagc-report.a
libtagc_report_a_SOURCES =
libtagc_report_a_SOURCES += interpose/trace_read.c interpose/trace_read.h
libtagc_report_a_SOURCES += interpose/trace_places.c interpose/trace_places.h
libtagc_report_a_SOURCES += interpose/trace_gather.c interpose/trace_gather_calls.c interpose/trace_gather_steps.c interpose/trace_gather.h
libtagc_report_a_SOURCES += interpose/trace_merge.c interpose/trace_merge.h interpose/trace_merge_jobs.c interpose/trace_merge_slots.c
libtagc_report_a_SOURCES += interpose/trace_table.h
libtagc_report_a_SOURCES += interpose/trace_summary.c interpose/trace_summary.h
libtagc_report_a_SOURCES += interpose/trace_report.c interpose/trace_report.h
libtagc_report_a_SOURCES += interpose/trace_text.c interpose/trace_text.h interpose/trace_text_comms.c interpose/trace_json.c
bin_PROGRAMS += tagc-report
tagc_report_SOURCES = interpose/tagc-report.c interpose/json.h
tagc_report_LDFLAGS = $(PROGRAM_LINK_FLAGS)
tagc_report_LDADD = libtagc-report.a libtagc.a -lm
# What they are judged by.
libtagc_report_a_SOURCES += interpose/trace_sides.c interpose/trace_sides.h
libtagc_report_a_SOURCES += interpose/trace_steps.c interpose/trace_steps.h interpose/trace_words.c interpose/trace_words.h
libtagc_report_a_SOURCES += interpose/trace_codecs.c interpose/trace_codecs.h interpose/trace_advice.c interpose/trace_advice.h
libtagc_report_a_SOURCES += interpose/trace_volume.c interpose/trace_volume.h interpose/trace_roles.c
libtagc_report_a_SOURCES += interpose/trace_patterns.c interpose/trace_patterns.h
libtagc_report_a_SOURCES += interpose/trace_pace.c interpose/trace_pace.h

# Will interception work here? Needs libelf.
EXTRA_DIST += interpose/doctor.h interpose/doctor_elf.h interpose/doctor_search.h
if HAVE_LIBELF
bin_PROGRAMS += tagc-doctor
tagc_doctor_SOURCES = interpose/tagc-doctor.c layermap/drawing.c layermap/drawing.h interpose/json.h \
  interpose/doctor.h interpose/doctor_elf.c interpose/doctor_elf.h interpose/doctor_json.c interpose/doctor_judge.c \
  interpose/doctor_net.c interpose/doctor_process.c interpose/doctor_python.c interpose/doctor_report.c \
  interpose/doctor_search.c interpose/doctor_search.h interpose/doctor_surroundings.c interpose/doctor_target.c
tagc_doctor_CPPFLAGS = $(AM_CPPFLAGS) -DPRELOADDIR='"$(preloaddir)"' -DBINDIR='"$(bindir)"'
tagc_doctor_LDFLAGS = $(PROGRAM_LINK_FLAGS)
tagc_doctor_LDADD = libtagc.a $(LIBELF_LIBS) -ldl
endif

# What traces look like: pages, and files for other viewers.
libtagc_report_a_SOURCES += interpose/trace_html.c interpose/trace_html.h interpose/trace_page.c interpose/trace_page.h
libtagc_report_a_SOURCES += interpose/trace_page_head.c interpose/trace_page_timeline.c interpose/trace_page_steps.c
libtagc_report_a_SOURCES += interpose/trace_page_picture.c interpose/trace_page_picture.h
libtagc_report_a_SOURCES += interpose/trace_page_layers.c interpose/trace_page_codecs.c interpose/trace_page_sizes.c interpose/trace_page_tables.c
libtagc_report_a_SOURCES += interpose/trace_moment.c interpose/trace_moment.h interpose/trace_svg.c interpose/trace_svg.h
libtagc_report_a_SOURCES += interpose/trace_perfetto.c interpose/trace_perfetto.h
libtagc_report_a_SOURCES += interpose/trace_perfetto_rank.c interpose/trace_perfetto_parts.h
libtagc_report_a_SOURCES += layermap/drawing.c layermap/drawing.h
