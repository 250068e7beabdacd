# SPDX-License-Identifier: BSD-3-Clause
# torch/: TAGC_LAYERMAP=torch, and PyTorch's own process groups.
e2e_tests += %D%/torch.test %D%/programs.test
EXTRA_DIST += %D%/torch_user.py
