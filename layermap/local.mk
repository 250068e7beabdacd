# SPDX-License-Identifier: BSD-3-Clause
# layermap/: which layer a call belongs to. From the bottom to the top.
include $(srcdir)/%D%/model/local.mk
include $(srcdir)/%D%/cycle/local.mk
include $(srcdir)/%D%/infer/local.mk
include $(srcdir)/%D%/tagc-map/local.mk
