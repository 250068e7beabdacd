# SPDX-License-Identifier: BSD-3-Clause
# env/: options, hosts and the log.
unit_tests += %D%/test_options %D%/test_host %D%/test_log %D%/test_log_stderr %D%/test_options_secure
