# SPDX-License-Identifier: BSD-3-Clause
"""Compresses the NCCL collectives of unmodified programs. The package only says where the library is."""
import importlib.metadata
import os

__all__ = ["library_path"]
__version__ = "@VERSION@"


def _installed(*path):
    """The absolute path of a file that came with this package: ("lib", "libtagc-preload.so")."""
    wanted = os.path.join(*path)
    try:
        record = importlib.metadata.files("tagc") or []
    except importlib.metadata.PackageNotFoundError:
        record = []
    for entry in record:
        if entry.name == path[-1]:
            file = os.path.normpath(entry.locate())
            if file.endswith(os.sep + wanted) and os.path.isfile(file):
                return os.path.realpath(file)
    raise FileNotFoundError(f"{wanted} of the package tagc {__version__} is missing. Install the wheel once more, in an "
                            "environment or with --user or --prefix (pip install --target leaves it out)")


def library_path():
    """The absolute path of libtagc-preload.so, for LD_PRELOAD."""
    return _installed("lib", "libtagc-preload.so")
