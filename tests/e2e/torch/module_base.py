# SPDX-License-Identifier: BSD-3-Clause
"""What the question of TAGC_LAYERMAP=torch reads of torch.nn.Module: PyTorch's names and attributes, and no more."""


class Module:
    def __init__(self):
        self.__dict__.update(_modules={}, _parameters={})

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, module in self._modules.items():
            yield from module.named_modules(prefix + "." * bool(prefix) + name)

    def parameters(self):
        for _, module in self.named_modules():
            yield from module._parameters.values()
