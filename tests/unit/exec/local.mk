# SPDX-License-Identifier: BSD-3-Clause
# exec/: how a compressed call runs.
unit_tests += %D%/test_timing
