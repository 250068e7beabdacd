# SPDX-License-Identifier: BSD-3-Clause
# interpose/: how a call comes in and goes out. Rooms from the bottom to the top. The convenience library has all of it
# except the exported entries.
include $(srcdir)/%D%/nccl/local.mk
include $(srcdir)/%D%/torch/local.mk
include $(srcdir)/%D%/policy/local.mk
include $(srcdir)/%D%/broadcast/local.mk
include $(srcdir)/%D%/ab/local.mk
include $(srcdir)/%D%/budget/local.mk
include $(srcdir)/%D%/agree/local.mk
include $(srcdir)/%D%/stats/local.mk
include $(srcdir)/%D%/metrics/local.mk
include $(srcdir)/%D%/trace/local.mk
include $(srcdir)/%D%/profiler/local.mk
include $(srcdir)/%D%/comm/local.mk
include $(srcdir)/%D%/calls/local.mk
include $(srcdir)/%D%/exec/local.mk
include $(srcdir)/%D%/vote/local.mk
include $(srcdir)/%D%/entry/local.mk
include $(srcdir)/%D%/tagc-report/local.mk
include $(srcdir)/%D%/tagc-doctor/local.mk
