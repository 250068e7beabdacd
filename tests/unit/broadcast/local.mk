# SPDX-License-Identifier: BSD-3-Clause
# broadcast/: the references of a communicator, and the verdict of its ranks.
unit_tests += %D%/test_references %D%/test_verdict
