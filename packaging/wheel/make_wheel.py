#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes a wheel of an installed tree (bin/, lib/, share/) and the Python package beside this script.

    make_wheel.py --version 0.2.0 --platform manylinux_2_28_x86_64 --tree STAGE --licence LICENSE --output FOLDER

It needs Python's standard library alone. The same input makes the same bytes: entries are sorted, and have the time of
SOURCE_DATE_EPOCH, or 1980. Prints the path of the wheel.
"""
import argparse
import base64
import datetime
import hashlib
import os
import pathlib
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
METADATA = """\
Metadata-Version: 2.4
Name: tagc
Version: {version}
Summary: Compresses the NCCL collectives of unmodified programs, for faster sharded training
Author: the tagc authors
License-Expression: BSD-3-Clause AND MIT AND Zlib AND (GPL-2.0-or-later OR LGPL-3.0-or-later)
License-File: LICENSE
License-File: THIRD-PARTY
Keywords: nccl,fsdp,gradient compression,distributed training,pytorch
Classifier: Development Status :: 4 - Beta
Classifier: Environment :: GPU :: NVIDIA CUDA
Classifier: Intended Audience :: Science/Research
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Requires-Python: >=3.8
Description-Content-Type: text/markdown

"""
# Programs and the library are no modules, so any Python 3 will do.
WHEEL = """\
Wheel-Version: 1.0
Generator: tagc ({version})
Root-Is-Purelib: false
Tag: py3-none-{platform}
"""


def fail(text):
    sys.exit(f"make_wheel.py: {text}")


def parse_arguments():
    parser = argparse.ArgumentParser(description="makes a wheel of an installed tree")
    parser.add_argument("--version", required=True)
    parser.add_argument("--platform", required=True, help="such as manylinux_2_28_x86_64")
    parser.add_argument("--tree", required=True, type=pathlib.Path, help="has bin/, lib/ and share/")
    parser.add_argument("--licence", required=True, type=pathlib.Path)
    parser.add_argument("--output", required=True, type=pathlib.Path, help="a folder; it is made")
    arguments = parser.parse_args()
    if not (arguments.tree / "lib/libtagc-preload.so").is_file():
        fail(f"--tree {arguments.tree}: there is no lib/libtagc-preload.so in it")
    return arguments


def collect(arguments):
    """Returns {name in the wheel: (bytes, mode)}."""
    data, info = f"tagc-{arguments.version}.data", f"tagc-{arguments.version}.dist-info"
    entries = {}
    for path in sorted((HERE / "tagc").glob("*.py")):
        text = path.read_text().replace("@VERSION@", arguments.version)
        entries[f"tagc/{path.name}"] = text.encode(), 0o644
    for path in sorted(arguments.tree.rglob("*")):
        name = path.relative_to(arguments.tree).as_posix()
        if path.is_symlink():
            fail(f"{path}: a wheel has no links")
        if not path.is_file():
            continue
        folder = f"{data}/scripts/{path.name}" if name.startswith("bin/") else f"{data}/data/{name}"
        entries[folder] = path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644
    description = (HERE / "description.md").read_text()
    entries[f"{info}/METADATA"] = (METADATA.format(version=arguments.version) + description).encode(), 0o644
    wheel = WHEEL.format(version=arguments.version, platform=arguments.platform)
    entries[f"{info}/WHEEL"] = wheel.encode(), 0o644
    for path in (arguments.licence, HERE / "THIRD-PARTY"):
        entries[f"{info}/licenses/{path.name}"] = path.read_bytes(), 0o644
    # The record comes last, and has no digest of itself.
    record = f"{info}/RECORD"
    lines = [f"{name},sha256={digest(content)},{len(content)}\n" for name, (content, _) in entries.items()]
    entries[record] = ("".join(lines) + f"{record},,\n").encode(), 0o644
    return entries


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def time_of_entries():
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    if text and not text.isdecimal():
        fail(f"SOURCE_DATE_EPOCH={text}: not a number of seconds")
    moment = datetime.datetime.fromtimestamp(int(text or 0), datetime.timezone.utc)
    return max(moment.timetuple()[:6], (1980, 1, 1, 0, 0, 0))  # no zip file knows an earlier one


def main():
    arguments = parse_arguments()
    entries, moment = collect(arguments), time_of_entries()
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / f"tagc-{arguments.version}-py3-none-{arguments.platform}.whl"
    new = path.with_suffix(".new")
    with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, (content, mode) in entries.items():
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)
    new.replace(path)
    print(path)


if __name__ == "__main__":
    main()
