# SPDX-License-Identifier: BSD-3-Clause
# project/: sources, manual, tarball, installation; other processors; valgrind.
e2e_tests += %D%/manual.test %D%/html.test %D%/source_rules.test %D%/hardening.test %D%/memcheck.test \
  %D%/install.test %D%/tarball.test %D%/packaging.test %D%/wheel.test
# ./quickstart portable runs it.
EXTRA_DIST += %D%/aarch64.test
