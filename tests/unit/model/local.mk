# SPDX-License-Identifier: BSD-3-Clause
# model/: models, their layouts and families, and the selection of layers.
unit_tests += %D%/test_select %D%/test_mapfile %D%/test_families %D%/test_layout %D%/test_model %D%/test_parts
EXTRA_DIST += %D%/architectures.h
