# SPDX-License-Identifier: BSD-3-Clause
# stats/: counts, and the report at exit.
unit_tests += %D%/test_layers_log %D%/test_exit_report
