# SPDX-License-Identifier: BSD-3-Clause
# programs/: tagc-run, tagc-doctor, tagc-map and tagc-bench.
e2e_tests += %D%/doctor.test %D%/bench.test %D%/tagc_run.test %D%/completion.test
if HAVE_JANSSON
e2e_tests += %D%/tagc_map.test
endif
