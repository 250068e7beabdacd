# SPDX-License-Identifier: BSD-3-Clause
# agree/: the ranks' exchange of facts before the first call.
unit_tests += %D%/test_agree %D%/test_decider
