# SPDX-License-Identifier: BSD-3-Clause
# torch/: TAGC_LAYERMAP=torch, PyTorch's own process groups, and the tutorial.
e2e_tests += %D%/kinds.test %D%/torch.test %D%/programs.test %D%/tutorial.test
EXTRA_DIST += %D%/kinds.py %D%/module_base.py %D%/torch_user.py
