# SPDX-License-Identifier: BSD-3-Clause
"""A rank that seems to train with PyTorch: modules with PyTorch's names and attributes, and the calls of its sharding.

    torch_user.py MEETING LIBRARY PLUGIN WRAPPER WAY

MEETING is a file through which rank 0 hands out its unique id. WRAPPER is fsdp2, fsdp1 or ddp, with a word behind it:
none (PyTorch is not loaded), raises (it has other attributes), differs (another model on rank 1), alone (none on rank
1), twice (two models), forks (another thread forks meanwhile), rebuilt (DDP's buckets are in another order than the
modules), lacks (DDP tells some of them). WAY is how calls are made: released (without the interpreter's lock), held (with
it), or beside (from another thread, for which the holder of the lock waits). The sums are checked to be exact.
"""
import contextlib
import ctypes
import gc
import os
import sys
import threading
import time
import types
import weakref

import module_base

HIDDEN, WORDS, INNER, BLOCKS, STEPS, FLOAT, SUM = 128, 256, 256, 3, 8, 7, 0
rank, nranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


# ---- what PyTorch has -------------------------------------------------------------------------------------------------

class Parameter:
    requires_grad = True

    def __init__(self, *shape):
        self.shape = shape


class Module(module_base.Module):
    def __setattr__(self, name, value):
        into = self._modules if isinstance(value, Module) else self._parameters if isinstance(value, Parameter) else self.__dict__
        into[name] = value

    def __getattr__(self, name):
        for members in (self._modules, self._parameters):
            if name in members:
                return members[name]
        raise AttributeError(name)


class Linear(Module):
    def __init__(self, *shape):
        super().__init__()
        self.weight = Parameter(*shape)


class Embedding(Linear):
    pass


class RMSNorm(Linear):
    pass


class ModuleList(Module):
    def __init__(self, modules):
        super().__init__()
        for i, module in enumerate(modules):
            setattr(self, str(i), module)


class Own(Module):
    """A program's own class: the question must not run its code."""
    is_asked = False

    def __getattribute__(self, name):
        if Own.is_asked:
            os._exit(9)
        return super().__getattribute__(name)


class Attention(Own):
    def __init__(self):
        super().__init__()
        self.mix, self.out = Linear(3 * HIDDEN, HIDDEN), Linear(HIDDEN, HIDDEN)


class FeedForward(Own):
    def __init__(self, inner):
        super().__init__()
        self.a, self.b = Linear(inner, HIDDEN), Linear(HIDDEN, inner)


class Block(Own):
    def __init__(self, inner):
        super().__init__()
        self.x, self.y, self.n, self.m = FeedForward(inner), Attention(), RMSNorm(HIDDEN), RMSNorm(HIDDEN)


class Model(Own):
    def __init__(self, inner=INNER):
        super().__init__()
        self.words, self.parts = Embedding(WORDS, HIDDEN), ModuleList(Block(inner) for _ in range(BLOCKS))
        self.n, self.back = RMSNorm(HIDDEN), Linear(WORDS, HIDDEN)


class FullyShardedDataParallel(Module):
    def __init__(self, module, is_root):
        super().__init__()
        self._fsdp_wrapped_module, self._is_root = module, is_root
        own = own_parameters(module)
        self._handle = types.SimpleNamespace(world_size=nranks, flat_param=types.SimpleNamespace(
            requires_grad=True, _is_padding_mask=[False] * len(own), _shapes=[m._parameters[n].shape for m, n in own],
            _param_infos=[types.SimpleNamespace(module=m, param_name=n) for m, n in own]))


REDUCER = threading.Lock()      # the mutex of DDP's reducer: its hooks hold it while they call NCCL


class DistributedDataParallel(Module):
    """`order`: that of its rebuilt buckets, as PyTorch's logger tells it, with the mutex."""
    def __init__(self, module, order=""):
        super().__init__()
        self.module, self.process_group = module, types.SimpleNamespace(size=lambda: nranks)
        said = types.SimpleNamespace(strs_map={"rebuilt_per_bucket_param_indices": order}, ints_map={"has_rebuilt_buckets": 1})

        def tell():
            with REDUCER:
                return said
        self.logger = types.SimpleNamespace(_get_ddp_logging_data=tell) if order else None


def own_parameters(module):
    """Those that are not in a block, or those of a block."""
    inner = {id(m) for b in blocks_of(module) for _, m in b.named_modules()}
    return [(m, name) for _, m in module.named_modules() for name in m._parameters if id(m) not in inner]


def blocks_of(module):
    return list(module.parts._modules.values()) if isinstance(module, Model) else []


def load(name, **attributes):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__dict__.update(attributes)


class State:
    pass


def wrap_fsdp2(model, mapping):
    states = []
    for module in [model] + blocks_of(model):
        state = State()
        state._is_root, state._state_ctx = module is model, None
        state._fsdp_param_groups = [types.SimpleNamespace(
            mesh_info=types.SimpleNamespace(shard_mesh_size=nranks), fsdp_params=[types.SimpleNamespace(
                sharded_param=m._parameters[n], fsdp_placement=types.SimpleNamespace(dim=0), _orig_size=m._parameters[n].shape,
                _module_info=types.SimpleNamespace(module=m, param_name=n)) for m, n in own_parameters(module)])]
        mapping[module] = weakref.ref(state)
        states.append(state)
    return states


def wrap_fsdp1(model):
    for name, block in model.parts._modules.items():
        model.parts._modules[name] = FullyShardedDataParallel(block, False)
    return FullyShardedDataParallel(model, True)


class Unlike:
    """A version of PyTorch in which nothing is where it was."""
    def items(self):
        raise SystemExit("no such attribute\non two lines")


class Forking(weakref.WeakKeyDictionary):
    """Gives the interpreter's lock to a thread that forks. Its child must collect garbage."""
    def items(self):
        thread = threading.Thread(target=self.fork)
        thread.start()
        thread.join()
        return super().items()

    @staticmethod
    def fork():
        child = os.fork()
        if not child:
            os._exit(not gc.isenabled())
        if os.waitpid(child, 0)[1]:
            os._exit(8)


def load_torch(wrapper, word):
    if word == "none" or (word == "alone" and rank):
        return None
    load("torch")
    models = [Model(INNER + (8 if word == "differs" and rank else 0)) for _ in range(2 if word == "twice" else 1)]
    if wrapper == "fsdp2":
        mapping = {"raises": Unlike, "forks": Forking}.get(word, weakref.WeakKeyDictionary)()
        load("torch.distributed._composable_state", _module_state_mapping=mapping)
        return models, [wrap_fsdp2(m, mapping) for m in models if word != "raises"]
    load("torch.distributed.fsdp.fully_sharded_data_parallel", FullyShardedDataParallel=FullyShardedDataParallel)
    load("torch.nn.parallel.distributed", DistributedDataParallel=DistributedDataParallel)
    order = {"rebuilt": "0, 6 5 4 3 2 1, 12 11 10 9 8 7, 18 17 16 15 14 13 19 20", "lacks": "0, 1"}.get(word, "")
    return [wrap_fsdp1(m) if wrapper == "fsdp1" else DistributedDataParallel(m, order) for m in models]


# ---- NCCL -------------------------------------------------------------------------------------------------------------

class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


COMM, STREAM, SIZE, INT = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
GATHER_ARGUMENTS = [ctypes.c_void_p, ctypes.c_void_p, SIZE, INT, COMM, STREAM]
SUM_ARGUMENTS = [ctypes.c_void_p, ctypes.c_void_p, SIZE, INT, INT, COMM, STREAM]


def checked(library, name, arguments):
    function = getattr(library, name)
    function.restype, function.argtypes = INT, arguments

    def call(*values):
        status = function(*values)
        if status != 0:
            sys.exit(f"{name} says {status}")
    return call


def share(path, get_id):
    unique_id = UniqueId()
    if rank == 0:
        get_id(ctypes.byref(unique_id))
        with open(path + ".new", "wb") as file:
            file.write(bytes(unique_id))
        os.rename(path + ".new", path)
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as file:
        return UniqueId.from_buffer_copy(file.read())


def main(meeting, path, plugin, wrapper, way):
    wrapper, _, word = wrapper.partition("-")
    keep = load_torch(wrapper, word)
    nccl, calls = ctypes.CDLL(path), {"released": ctypes.CDLL, "held": ctypes.PyDLL, "beside": ctypes.PyDLL}[way](plugin)
    comm = COMM()
    checked(nccl, "ncclCommInitRank", [ctypes.POINTER(COMM), INT, UniqueId, INT])(
        ctypes.byref(comm), nranks, share(meeting, checked(nccl, "ncclGetUniqueId", [ctypes.POINTER(UniqueId)])), rank)
    prefix = "beside_" if way == "beside" else "plugin_"
    reduce = checked(calls, prefix + ("ncclAllReduce" if wrapper == "ddp" else "ncclReduceScatter"), SUM_ARGUMENTS)
    gather = checked(calls, "plugin_ncclAllGather", GATHER_ARGUMENTS)
    block = 4 * HIDDEN * HIDDEN + 2 * HIDDEN * INNER + 2 * HIDDEN
    root = 2 * WORDS * HIDDEN + HIDDEN
    counts = [block] * BLOCKS + [root]
    if wrapper == "ddp":    # buckets in reverse order
        counts = [block + WORDS * HIDDEN + HIDDEN] + [block] * (BLOCKS - 1) + [WORDS * HIDDEN]
    if word == "rebuilt":   # as gradients came
        counts.reverse()
    Own.is_asked = True
    for step in range(STEPS):
        for count in [] if wrapper == "ddp" else [root] + [block] * BLOCKS:    # the forward pass
            gather((ctypes.c_float * (count // nranks))(), (ctypes.c_float * count)(), count // nranks, FLOAT, comm, None)
        for count in counts:
            length = count if wrapper == "ddp" else count // nranks
            send, out, wanted = (ctypes.c_float * count)(), (ctypes.c_float * length)(), (ctypes.c_float * length)()
            first = 0 if wrapper == "ddp" else rank * length
            for i in range(0, count, 64):
                send[i] = step + i // 64 % 7
                if first <= i < first + length:
                    wanted[i - first] = nranks * send[i]
            if wrapper != "ddp" and count != root:
                gather((ctypes.c_float * length)(), (ctypes.c_float * count)(), length, FLOAT, comm, None)
            with REDUCER if wrapper == "ddp" else contextlib.nullcontext():
                reduce(send, out, length, FLOAT, SUM, comm, None)
            if bytes(out) != bytes(wanted):
                sys.exit(f"step {step}: a wrong sum")
    Own.is_asked = False
    checked(nccl, "ncclCommDestroy", [COMM])(comm)
    if not gc.isenabled() or sys.exc_info()[0]:
        sys.exit("the question has left something")
    del keep


main(*sys.argv[1:])
