# SPDX-License-Identifier: BSD-3-Clause
# none/: the codecs none and precise.
unit_tests += %D%/test_none %D%/test_precise
