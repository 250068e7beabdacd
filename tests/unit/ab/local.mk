# SPDX-License-Identifier: BSD-3-Clause
# ab/: plain against compressed steps.
unit_tests += %D%/test_windows
