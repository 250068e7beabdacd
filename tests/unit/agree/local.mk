# SPDX-License-Identifier: BSD-3-Clause
# agree/: what ranks tell one another before the first call.
unit_tests += %D%/test_agree %D%/test_decider
