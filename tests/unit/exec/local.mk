# SPDX-License-Identifier: BSD-3-Clause
# exec/: the run of a compressed call.
unit_tests += %D%/test_timing
