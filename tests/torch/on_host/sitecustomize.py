# SPDX-License-Identifier: BSD-3-Clause
"""Python imports this at its start, if its folder is in PYTHONPATH. The ranks of torchrun get the operators of the host, and
with HOST_OPERATORS all programs but multiprocessing's own."""
import os
import sys

if "LOCAL_RANK" in os.environ or "HOST_OPERATORS" in os.environ and "resource_tracker" not in " ".join(sys.orig_argv):
    import host_operators
    host_operators.install()
