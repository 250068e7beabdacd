# SPDX-License-Identifier: BSD-3-Clause
"""Two ranks that reach NCCL as vLLM does: ctypes.CDLL, and every function by its name.

    ctypes_user.py MEETING LIBRARY [PREFIX]

MEETING is a file through which rank 0 hands its unique id to rank 1. PREFIX stands before the functions' names in LIBRARY
(a library that is linked with NCCL; see nccl_plugin.c). Eight like reduce-scatters, checked to be exact.
"""
import ctypes
import os
import sys
import time

COUNT, STEPS, FLOAT, SUM = 2048, 8, 7, 0


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


COMM, STREAM, SIZE, INT = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
FUNCTIONS = {
    "ncclGetUniqueId": [ctypes.POINTER(UniqueId)],
    "ncclCommInitRank": [ctypes.POINTER(COMM), INT, UniqueId, INT],
    "ncclReduceScatter": [ctypes.c_void_p, ctypes.c_void_p, SIZE, INT, INT, COMM, STREAM],
    "ncclCommDestroy": [COMM],
}


class Library:
    def __init__(self, path, prefix):
        library = ctypes.CDLL(path)
        for name, arguments in FUNCTIONS.items():
            function = getattr(library, prefix + name)
            function.restype, function.argtypes = INT, arguments
            setattr(self, name, self.checked(name, function))

    @staticmethod
    def checked(name, function):
        def call(*arguments):
            status = function(*arguments)
            if status != 0:
                raise RuntimeError(f"{name} says {status}")
        return call


def share(path, rank, nccl):
    unique_id = UniqueId()
    if rank == 0:
        nccl.ncclGetUniqueId(ctypes.byref(unique_id))
        with open(path + ".new", "wb") as file:
            file.write(bytes(unique_id))
        os.rename(path + ".new", path)
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as file:
        return UniqueId.from_buffer_copy(file.read())


def main(meeting, path, prefix=""):
    rank, nranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    nccl = Library(path, prefix)
    comm = COMM()
    nccl.ncclCommInitRank(ctypes.byref(comm), nranks, share(meeting, rank, nccl), rank)
    send, out = (ctypes.c_float * (COUNT * nranks))(), (ctypes.c_float * COUNT)()
    for step in range(STEPS):
        for i in range(0, COUNT * nranks, 64):
            send[i] = step + i // 64 % 7
        nccl.ncclReduceScatter(send, out, COUNT, FLOAT, SUM, comm, None)
        wanted = [0 if i % 64 else nranks * (step + (rank * COUNT + i) // 64 % 7) for i in range(COUNT)]
        if list(out) != wanted:
            sys.exit(f"step {step}: a wrong sum")
    nccl.ncclCommDestroy(comm)


main(*sys.argv[1:])
