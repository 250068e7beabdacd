# SPDX-License-Identifier: BSD-3-Clause
# torch/: TAGC_LAYERMAP=torch.
e2e_tests += %D%/torch.test
EXTRA_DIST += %D%/torch_user.py
