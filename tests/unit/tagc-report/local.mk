# SPDX-License-Identifier: BSD-3-Clause
# tagc-report/: tagc-report.
EXTRA_DIST += %D%/make.h %D%/jobs.h %D%/runs.h
unit_tests += %D%/test_read %D%/test_page %D%/test_summary %D%/test_ab_compare %D%/test_volume %D%/test_stragglers \
  %D%/test_text %D%/test_characterise %D%/test_events %D%/test_live
%C%_test_read_LDADD = libtagc-report.a $(LDADD)
%C%_test_page_LDADD = libtagc-report.a $(LDADD)
%C%_test_summary_LDADD = libtagc-report.a $(LDADD)
%C%_test_summary_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=realloc
%C%_test_ab_compare_LDADD = libtagc-report.a $(LDADD)
%C%_test_volume_LDADD = libtagc-report.a $(LDADD)
%C%_test_stragglers_LDADD = libtagc-report.a $(LDADD)
%C%_test_events_LDADD = libtagc-report.a $(LDADD) -lm
%C%_test_live_LDADD = libtagc-report.a $(LDADD) -lm
%C%_test_text_LDADD = libtagc-report.a $(LDADD)
%C%_test_characterise_LDADD = libtagc-report.a $(LDADD) -lm
