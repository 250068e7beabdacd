# SPDX-License-Identifier: BSD-3-Clause
# policy/: the choice of compressed calls, with reasons.
unit_tests += %D%/test_changes %D%/test_coll_config %D%/test_plan %D%/test_choose %D%/test_topology %D%/test_registered_memory
