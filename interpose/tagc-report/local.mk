# SPDX-License-Identifier: BSD-3-Clause
# tagc-report/: reads traces and shows them. Never in the library.
noinst_LIBRARIES += libtagc-report.a
libtagc_report_a_CFLAGS = $(PROGRAM_CFLAGS)
libtagc_report_a_SOURCES =
# read/: reads traces and adds them up.
libtagc_report_a_SOURCES += \
  %D%/read/format.c %D%/read/format.h %D%/read/load.c %D%/read/load.h %D%/read/load_calls.c %D%/read/load_groups.c %D%/read/load_profile.c %D%/read/load_steps.c \
  %D%/read/merge.c %D%/read/merge.h %D%/read/merge_jobs.c %D%/read/merge_slots.c %D%/read/paths.c %D%/read/paths.h %D%/read/placement.c \
  %D%/read/placement.h %D%/read/records.c %D%/read/records.h %D%/read/summary.c %D%/read/summary.h %D%/read/table.h
# judge/: draws conclusions from them.
libtagc_report_a_SOURCES += \
  %D%/judge/ab_compare.c %D%/judge/ab_compare.h %D%/judge/advice.c %D%/judge/advice.h %D%/judge/characterise.c \
  %D%/judge/characterise.h %D%/judge/codecs.c \
  %D%/judge/codecs.h %D%/judge/patterns.c %D%/judge/patterns.h %D%/judge/roles.c %D%/judge/steps.c %D%/judge/steps.h \
  %D%/judge/stragglers.c %D%/judge/stragglers.h %D%/judge/volume.c %D%/judge/volume.h
# show/: pages, texts, and files for other viewers.
libtagc_report_a_SOURCES += \
  %D%/show/html.c %D%/show/html.h %D%/show/json.c %D%/show/page.c %D%/show/page.h %D%/show/page_codecs.c \
  %D%/show/page_head.c %D%/show/page_layers.c %D%/show/page_picture.c %D%/show/page_picture.h %D%/show/page_sizes.c \
  %D%/show/page_steps.c %D%/show/page_tables.c %D%/show/page_timeline.c %D%/show/perfetto.c %D%/show/perfetto.h \
  %D%/show/perfetto_parts.h %D%/show/perfetto_rank.c %D%/show/report.c %D%/show/report.h %D%/show/svg.c \
  %D%/show/svg.h %D%/show/text.c %D%/show/text.h %D%/show/text_characterise.c %D%/show/text_comms.c %D%/show/window.c %D%/show/window.h
# events/: scalars for TensorBoard.
libtagc_report_a_SOURCES += \
  %D%/events/event_file.c %D%/events/event_file.h %D%/events/tensorboard.c %D%/events/tensorboard.h
# live/: a screen that follows a running job.
libtagc_report_a_SOURCES += \
  %D%/live/draw.c %D%/live/follow.c %D%/live/follow.h %D%/live/live.c %D%/live/live.h %D%/live/screen.c
bin_PROGRAMS += tagc-report
tagc_report_SOURCES = %D%/tagc-report.c
tagc_report_CFLAGS = $(PROGRAM_CFLAGS)
tagc_report_LDFLAGS = $(PROGRAM_LINK_FLAGS)
tagc_report_LDADD = libtagc-report.a libtagc.a $(PROGRAM_START) -lm
EXTRA_DIST += %D%/README.md
