# SPDX-License-Identifier: BSD-3-Clause
# layermap/: finds the layer of a call. Rooms from the bottom to the top.
include $(srcdir)/%D%/model/local.mk
include $(srcdir)/%D%/cycle/local.mk
include $(srcdir)/%D%/infer/local.mk
include $(srcdir)/%D%/tagc-map/local.mk
