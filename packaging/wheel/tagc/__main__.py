# SPDX-License-Identifier: BSD-3-Clause
"""python -m tagc PROGRAM [ARGUMENT...]: becomes that program of the package, as in `python -m tagc run torchrun train.py`.

python -m tagc library prints the path of libtagc-preload.so.
"""
import os
import signal
import sys

import tagc

PROGRAMS = ("run", "doctor", "report", "bench", "map")
USAGE = f"usage: python -m tagc {{library,{','.join(PROGRAMS)}}} [ARGUMENT...]"


def main(arguments):
    if arguments in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    if arguments == ["--version"]:
        print(f"tagc {tagc.__version__}")
        return 0
    try:
        if arguments == ["library"]:
            print(tagc.library_path())
            return 0
        if arguments and arguments[0] in PROGRAMS:
            name = f"tagc-{arguments[0]}"
            path = tagc._installed("bin", name)
            # Python ignores these two, and the program would inherit that.
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            os.execv(path, [name, *arguments[1:]])
    except OSError as error:
        print(f"tagc: {error}", file=sys.stderr)
        return 1
    given = f"'{' '.join(arguments)}' is none of these" if arguments else "no program is named"
    print(f"tagc: {given}\n{USAGE}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
