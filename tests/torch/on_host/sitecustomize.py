# SPDX-License-Identifier: BSD-3-Clause
"""Python imports this at its start, if its folder is in PYTHONPATH. The ranks of torchrun get the operators of the host."""
import os

if "LOCAL_RANK" in os.environ:
    import host_operators
    host_operators.install()
