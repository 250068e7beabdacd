# SPDX-License-Identifier: BSD-3-Clause
# program/: code that programs share.
unit_tests += %D%/test_command_line %D%/test_json %D%/test_markup %D%/test_output %D%/test_terminal
