# SPDX-License-Identifier: BSD-3-Clause
# budget/: TAGC_BUDGET.
unit_tests += %D%/test_budget
