# SPDX-License-Identifier: BSD-3-Clause
# none/: the codec none.
unit_tests += %D%/test_none
