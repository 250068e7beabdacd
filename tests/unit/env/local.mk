# SPDX-License-Identifier: BSD-3-Clause
# env/: options, the log, and what programs share.
unit_tests += %D%/test_options %D%/test_log %D%/test_log_stderr %D%/test_options_secure
