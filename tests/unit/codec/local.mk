# SPDX-License-Identifier: BSD-3-Clause
# codec/: every codec, and the code that all codecs share.
unit_tests += %D%/test_bits %D%/test_residual %D%/test_surplus %D%/test_variant %D%/test_exceptions %D%/test_payloads \
  %D%/test_properties %D%/test_residuals %D%/test_cost %D%/test_chunks
EXTRA_DIST += %D%/variants.h %D%/reference.h %D%/cases.h %D%/sim.h
