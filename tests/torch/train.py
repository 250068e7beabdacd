#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a small GPT as programs of PyTorch do. Knows nothing of tagc: an ordinary script for torchrun.

    torchrun --nproc_per_node 2 tests/torch/train.py PROGRAM [STEPS]

NCCL on a GPU, or on the stand-ins for CUDA. Without both, process groups are those of nccl_for_torch.py: NCCL's functions on
host memory. Rank 0 prints a line: the mean loss of the last tenth of the steps, the loss of held-out text, and a digest of
all parameters and losses, which is equal if every bit is. With TRACEBACK_AFTER=SECONDS a rank that still runs then says
where. Ranks share the GPU, which NCCL allows to ranks of different hosts (NCCL_HOSTID).
"""
import contextlib
import faulthandler
import hashlib
import os
import pathlib
import statistics
import sys
import sysconfig
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.utils import parametrize

HIDDEN, HEADS, BLOCKS, CONTEXT, BATCH, RATE = 256, 4, 4, 64, 8, 1e-3


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        q, k, v = self.qkv(self.norm_1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Gpt(nn.Module):
    """Bytes of a text are its words."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(256, HIDDEN), nn.Embedding(CONTEXT, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm, self.head = nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, 256, bias=False)

    def forward(self, words):
        x = self.words(words) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Text:
    def __init__(self, device):
        files = sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("[a-f]*.py"))
        text = torch.frombuffer(bytearray(b"".join(file.read_bytes() for file in files)[:4 << 20]), dtype=torch.uint8)
        cut = len(text) * 9 // 10
        self.parts, self.device = (text[:cut], text[cut:]), device
        self.generators = [torch.Generator().manual_seed(1000 * i + dist.get_rank()) for i in range(2)]

    def draw(self, held_out=False):
        text, generator = self.parts[held_out], self.generators[held_out]
        starts = torch.randint(len(text) - CONTEXT, (BATCH,), generator=generator)
        words = torch.stack([text[i:i + CONTEXT + 1] for i in starts.tolist()]).to(self.device).long()
        return words[:, :-1], words[:, 1:]


def loss_of(model, batch):
    words, following = batch
    return F.cross_entropy(model(words).flatten(0, 1).float(), following.flatten())


def mean_of_ranks(loss):
    loss = loss.detach().clone()
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


# ---- the programs: each wraps a model, and may say how a step differs ---------------------------------------------------

def clip(model):
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)


class Program:
    """A training: the model, and the ways in which a step of it differs from the usual one."""

    def __init__(self, model, clip=clip, rounds=1, quiet=contextlib.nullcontext, optimizer=torch.optim.AdamW, evaluates=0,
                 saves=False, backward=lambda loss: loss.backward()):
        self.model, self.clip, self.rounds, self.quiet, self.backward = model, clip, rounds, quiet, backward
        self.evaluates, self.saves = evaluates, saves
        self.optimizer = optimizer(model.parameters(), lr=RATE)

    def step(self, text):
        losses = []
        for i in range(self.rounds):
            with self.quiet() if i < self.rounds - 1 else contextlib.nullcontext():
                loss = loss_of(self.model, text.draw())
                self.backward(loss / self.rounds)
                losses.append(mean_of_ranks(loss))
        self.clip(self.model)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return statistics.mean(losses)

    @torch.no_grad()
    def evaluate(self, text, batches):
        self.model.eval()
        loss = statistics.mean(mean_of_ranks(loss_of(self.model, text.draw(held_out=True))) for _ in range(batches))
        self.model.train()
        return loss


def ddp(model, device, **settings):
    model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=4, **settings)
    return Program(model)


def ddp_accumulate(model, device):
    program = ddp(model, device)
    program.rounds, program.quiet = 3, program.model.no_sync
    return program


def ddp_evaluate(model, device):
    program = ddp(model, device)
    program.evaluates = 10
    return program


def fsdp1(model, device, **settings):
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    model = FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=device, use_orig_params=True,
                                     **settings)
    return Program(model, clip=lambda whole: whole.clip_grad_norm_(1.0))


def fsdp1_mixed(model, device):
    from torch.distributed.fsdp import MixedPrecision
    return fsdp1(model, device, mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16))


def fsdp1_accumulate(model, device):
    program = fsdp1(model, device)
    program.rounds, program.quiet = 3, program.model.no_sync
    return program


def fsdp1_whole(model, device):
    """SHARD_GRAD_OP: parameters stay gathered between the passes."""
    from torch.distributed.fsdp import ShardingStrategy
    return fsdp1(model, device, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP)


def hsdp1(model, device):
    from torch.distributed.fsdp import ShardingStrategy
    return fsdp1(model, device, sharding_strategy=ShardingStrategy.HYBRID_SHARD, device_mesh=two_by_two(device))


def two_by_two(device):
    return init_device_mesh(device.type, (2, dist.get_world_size() // 2), mesh_dim_names=("replicas", "shards"))


def fsdp2(model, device, **settings):
    from torch.distributed.fsdp import fully_shard
    settings.setdefault("mesh", init_device_mesh(device.type, (dist.get_world_size(),)))
    for block in model.blocks:
        fully_shard(block, **settings)
    return Program(fully_shard(model, **settings))


def fsdp2_mixed(model, device):
    from torch.distributed.fsdp import MixedPrecisionPolicy
    return fsdp2(model, device, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16))


def fsdp2_fp32_sums(model, device):
    """Parameters in bf16, gradients reduced in fp32: the usual settings of large trainings."""
    from torch.distributed.fsdp import MixedPrecisionPolicy
    return fsdp2(model, device, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))


def fsdp2_accumulate(model, device):
    program = fsdp2(model, device)

    @contextlib.contextmanager
    def quiet():
        program.model.set_requires_gradient_sync(False)
        yield
        program.model.set_requires_gradient_sync(True)
    program.rounds, program.quiet = 3, quiet
    return program


def fsdp2_checkpoint(model, device):
    """Activations are computed again in the backward pass."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
    apply_activation_checkpointing(model, check_fn=lambda module: isinstance(module, Block))
    return fsdp2(model, device)


def fsdp2_evaluate(model, device):
    program = fsdp2(model, device)
    program.evaluates = 10
    return program


def fsdp2_save(model, device):
    """Half of the way the state is saved by torch.distributed.checkpoint, spoilt, and loaded."""
    program = fsdp2(model, device)
    program.saves = True
    return program


def fsdp2_compile(model, device):
    for block in model.blocks:
        block.compile(backend=os.environ.get("COMPILE_BACKEND", "inductor"))
    return fsdp2(model, device)


class Gathered(nn.Module):
    """Gathers a parameter whenever it is used. The backward pass averages, and scatters its gradient."""

    def forward(self, part):
        from torch.distributed.tensor import Partial, Replicate
        return part.redistribute(placements=[Replicate()]).to_local(grad_placements=[Partial("avg")])


def bucketed(model, device):
    """FSDP without hooks ("SimpleFSDP"): all-gathers and reduce-scatters are operators of one graph, and the compiler puts them
    into buckets."""
    import torch._inductor.config as inductor
    from torch.distributed.tensor import Shard, distribute_tensor
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for module in list(model.modules()):
        for name, parameter in list(module.named_parameters(recurse=False)):
            module.register_parameter(name, nn.Parameter(distribute_tensor(parameter, mesh, [Shard(0)], src_data_rank=None)))
            parametrize.register_parametrization(module, name, Gathered(), unsafe=True)
    inductor.bucket_all_gathers_fx = inductor.bucket_reduce_scatters_fx = "all"
    inductor.force_disable_caches = True  # graphs of PyTorch 2.15 from a cache train something else
    model.compile(fullgraph=True)
    return Program(model)


def hsdp2(model, device):
    return fsdp2(model, device, mesh=two_by_two(device))


def share_gpu(device):
    """Some libraries take the GPU of their local rank, whatever the script says."""
    if device.type == "cuda" and torch.cuda.device_count() == 1:
        os.environ["LOCAL_RANK"] = "0"


def accelerate(model, device):
    from accelerate import Accelerator
    share_gpu(device)
    accelerator = Accelerator(cpu=device.type == "cpu")
    model = accelerator.prepare_model(model)
    return Program(model, clip=lambda whole: accelerator.clip_grad_norm_(whole.parameters(), 1.0), backward=accelerator.backward)


def zero(model, device, stage):
    """DeepSpeed, with PyTorch's AdamW. Its engine clips norms, and is the optimizer, too."""
    import deepspeed
    share_gpu(device)
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=RATE), config={
        "train_micro_batch_size_per_gpu": BATCH, "gradient_clipping": 1.0, "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": stage, "reduce_bucket_size": 1 << 20, "allgather_bucket_size": 1 << 20}})
    return Program(engine, clip=lambda engine: None, backward=engine.backward, optimizer=lambda parameters, lr: engine)


def zero1(model, device):
    return zero(model, device, 1)


def zero2(model, device):
    return zero(model, device, 2)


def zero3(model, device):
    return zero(model, device, 3)


PROGRAMS = {f.__name__: f for f in (
    ddp, ddp_accumulate, ddp_evaluate, fsdp1, fsdp1_mixed, fsdp1_accumulate, fsdp1_whole, hsdp1, fsdp2, fsdp2_mixed, fsdp2_fp32_sums,
    fsdp2_accumulate, fsdp2_checkpoint, fsdp2_evaluate, fsdp2_save, fsdp2_compile, bucketed, hsdp2, accelerate, zero1, zero2, zero3)}


# ---- the training --------------------------------------------------------------------------------------------------------

def save_and_load(program):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    state, moments = get_state_dict(program.model, program.optimizer)
    dcp.save({"model": state, "optimizer": moments}, checkpoint_id=folder[0])
    with torch.no_grad():
        for parameter in program.model.parameters():
            parameter.zero_()
    state, moments = get_state_dict(program.model, program.optimizer)
    read = {"model": state, "optimizer": moments}
    dcp.load(read, checkpoint_id=folder[0])
    set_state_dict(program.model, program.optimizer, model_state_dict=read["model"], optim_state_dict=read["optimizer"])


def whole(tensor):
    """The own part of a parameter, for a digest."""
    tensor = getattr(tensor, "ds_tensor", tensor)  # ZeRO-3
    return (tensor.to_local() if hasattr(tensor, "to_local") else tensor).detach().cpu().contiguous()


def train(program, text, steps):
    losses, digest = [], hashlib.sha256()
    for step in range(steps):
        losses.append(program.step(text))
        if program.evaluates and step % program.evaluates == program.evaluates - 1:
            program.evaluate(text, 3)
        if program.saves and step == steps // 2:
            save_and_load(program)
    tested = program.evaluate(text, 8)
    for parameter in program.model.parameters():
        own = whole(parameter)
        digest.update(own.view(torch.uint8).numpy().tobytes() if own.numel() else b"")
    digest.update(repr((losses, tested)).encode())
    digests = [None] * dist.get_world_size()
    dist.all_gather_object(digests, digest.hexdigest()[:16])
    last = statistics.mean(losses[-max(1, steps // 10):])
    if dist.get_rank() == 0:
        print(f"trained: loss={last:.6f} held_out={tested:.6f} digest={'-'.join(digests)}", flush=True)


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in PROGRAMS or not (sys.argv + ["60"])[2].isdecimal():
        sys.exit(f"usage: torchrun train.py PROGRAM [STEPS]; programs: {', '.join(PROGRAMS)}")
    if "TRACEBACK_AFTER" in os.environ:
        faulthandler.dump_traceback_later(int(os.environ["TRACEBACK_AFTER"]))
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
        dist.init_process_group("nccl")
    else:
        sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "fixtures"))
        import nccl_for_torch
        torch.set_num_threads(1)
        device = torch.device("cpu")
        dist.init_process_group(nccl_for_torch.NAME)
    model = Gpt().to(device)
    program = PROGRAMS[sys.argv[1]](model, device)
    train(program, Text(device), int((sys.argv + ["60"])[2]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
