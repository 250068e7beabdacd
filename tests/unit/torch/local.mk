# SPDX-License-Identifier: BSD-3-Clause
# torch/: what the PyTorch of the process says.
unit_tests += %D%/test_read
