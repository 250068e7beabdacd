# SPDX-License-Identifier: BSD-3-Clause
# torch/: TAGC_LAYERMAP=torch, and the tutorial.
e2e_tests += %D%/torch.test %D%/tutorial.test
EXTRA_DIST += %D%/torch_user.py
