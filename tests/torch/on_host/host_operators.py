# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch on the stand-ins: operators of CUDA tensors run on the CPU, in the memory behind the tensors.

install() takes the place of every operator of PyTorch's that would launch a kernel, and that the CPU has, too. An operator
first waits for the earlier work of its stream, and is done when it returns. Memory, views, copies, streams, events and
collectives stay PyTorch's own. What is left out fails: the stand-in for CUDA's runtime refuses the kernel, and says its
name. Unless CUDA_STANDIN_ORDER=0 the stand-in for the driver checks that each operator is in order with the work of all
streams.
"""
import ctypes
import os
import warnings

import torch


class Access(ctypes.Structure):
    _fields_ = [("begin", ctypes.c_ulonglong), ("bytes", ctypes.c_size_t), ("writes", ctypes.c_int)]


driver = ctypes.CDLL("libcuda.so.1")
driver.standin_cuda_view.restype = ctypes.c_void_p
driver.standin_cuda_view.argtypes = [ctypes.c_ulonglong, ctypes.c_size_t]
driver.standin_cuda_launch.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
                                       ctypes.POINTER(Access), ctypes.c_uint]
runtime = ctypes.CDLL("libcudart.so.13")
runtime.cudaStreamSynchronize.argtypes = [ctypes.c_void_p]
nothing = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p)  # of NULL
checks_order = os.environ.get("CUDA_STANDIN_ORDER") != "0"

# They need no kernel, besides views.
OWN = {"aten::empty.memory_format", "aten::empty_strided", "aten::resize_", "aten::set_", "aten::set_.source_Storage",
       "aten::set_.source_Storage_storage_offset", "aten::set_.source_Tensor", "aten::_local_scalar_dense", "aten::is_pinned",
       "aten::_pin_memory", "aten::record_stream", "aten::is_set_to"}


# ---- memory --------------------------------------------------------------------------------------------------------------

def on_host(tensor):
    """A tensor of the host in the same memory."""
    storage = tensor.untyped_storage()
    if storage.nbytes() == 0:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
    there = driver.standin_cuda_view(storage.data_ptr(), storage.nbytes())
    if there is None:
        raise RuntimeError(f"CUDA stand-in: a tensor lies in {storage.nbytes()} bytes of memory that was freed")
    memory = torch.frombuffer((ctypes.c_char * storage.nbytes()).from_address(there), dtype=torch.uint8)
    return torch.empty(0, dtype=tensor.dtype).set_(memory.untyped_storage(), tensor.storage_offset(), tensor.size(),
                                                   tensor.stride())


def on_device(tensor, device):
    made = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device)
    if tensor.numel():
        on_host(made).copy_(tensor)
    return made


def access(tensor, writes):
    elements = 1 + sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride()))
    return Access(tensor.data_ptr(), elements * tensor.element_size(), writes)


def wait(name, tensors):
    """All earlier work of the stream is over, and the driver knows what the operator reads and writes."""
    stream = torch._C._cuda_getCurrentRawStream(torch.cuda.current_device())
    error = runtime.cudaStreamSynchronize(stream)
    if error != 0:
        raise RuntimeError(f"CUDA stand-in: earlier work of the stream failed with error {error}")
    accesses = [access(tensor, writes) for tensor, writes in tensors if tensor.numel()] if checks_order else []
    if accesses:
        driver.standin_cuda_launch(stream, name, nothing, None, None, (Access * len(accesses))(*accesses), len(accesses))


# ---- operators -----------------------------------------------------------------------------------------------------------

class Call:
    """The arguments of one call, and what became of its CUDA tensors."""

    def __init__(self):
        self.used = []  # tensor, its twin on the host, is it written?
        self.device = None  # the first that is named; else the current one

    def take(self, value, writes):
        if isinstance(value, torch.Tensor):
            if not value.is_cuda:
                return value
            twin = on_host(value)
            self.device = self.device or value.device
            self.used.append((value, twin, writes))
            return twin
        if isinstance(value, (list, tuple)):
            return [self.take(one, writes) for one in value]
        if isinstance(value, torch.device):
            self.device = self.device or (value if value.type == "cuda" else None)
            return torch.device("cpu")
        return None if isinstance(value, torch.Generator) else value

    def give(self, value):
        if isinstance(value, torch.Tensor):
            for tensor, twin, _ in self.used:
                if twin is value:
                    return tensor
            return on_device(value, self.device or "cuda")
        return type(value)(map(self.give, value)) if isinstance(value, (list, tuple)) else value

    def finish(self):
        """An operator may have given its output another size."""
        for tensor, twin, writes in self.used:
            if writes and twin.size() != tensor.size():
                tensor.resize_(twin.size())
                on_host(tensor).copy_(twin)


def widened(name, arguments):
    """Softmax from 16 to 32 bits in one step is CUDA's alone."""
    if name in ("aten::_softmax", "aten::_log_softmax") and arguments[2]:
        return [arguments[0].float(), arguments[1], False]
    return arguments


def operator(overload):
    schema, name = overload._schema, overload._schema.name
    word = name.encode()
    written = {argument.name: bool(argument.alias_info and argument.alias_info.is_write) for argument in schema.arguments}
    order = list(written.values())

    def run(*arguments, **more):
        call = Call()
        arguments = [call.take(value, writes) for value, writes in zip(arguments, order)]
        more = {key: call.take(value, written[key]) for key, value in more.items()}
        with torch.cuda.device(call.device):
            wait(word, [(tensor, writes) for tensor, _, writes in call.used])
        result = overload(*widened(name, arguments), **more)
        call.finish()
        return call.give(result)
    return run


def copy(to, source, non_blocking=False):
    """Equal layouts are a copy of bytes, and copies from and to the host become such: PyTorch's own. Others need a kernel."""
    own = torch.ops.aten.copy_.default
    alike = to.dtype == source.dtype and to.size() == source.size() and to.stride() == source.stride() and (
        to.is_contiguous() and to.is_neg() == source.is_neg() and to.is_conj() == source.is_conj())
    if alike or to.is_cuda != source.is_cuda:
        return own.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.CPU), to, source, non_blocking)
    with torch.cuda.device(to.device):
        wait(b"aten::copy_", [(to, True), (source, False)])
    on_host(to).copy_(on_host(source))
    return to


def is_view(schema):
    return any(returned.alias_info and not returned.alias_info.is_write for returned in schema.returns)


def overload_of(full_name):
    name, _, kind = full_name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, name), kind or "default")


def install():
    library = torch.library.Library("aten", "IMPL")
    install.library = library  # the operators live as long as it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in torch._C._dispatch_get_registrations_for_dispatch_key("CUDA"):
            on_both = name.startswith("aten::") and torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU")
            overload = overload_of(name) if on_both and name not in OWN else None
            if overload and not is_view(overload._schema):
                library.impl(overload, operator(overload), "CUDA")
        library.impl("copy_", copy, "CUDA")
    torch._C._cuda_sleep = lambda cycles: None  # its kernel takes time, and does nothing
    torch.backends.cudnn.enabled = False
    # Attention by matrix products and softmax, as the CPU has no twin of the fused ones.
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
