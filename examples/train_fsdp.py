#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains GPT-2 with fully sharded data parallelism, in plain PyTorch: an ordinary script, to be started by torchrun.

    torchrun --nproc_per_node 2 examples/train_fsdp.py --steps 60

The units are the blocks, and the root, which holds the embeddings and the output layer that is tied to them: 124 M
parameters by default. NCCL on GPUs, gloo without (for small models). Ranks share GPUs where there are fewer than ranks;
NCCL allows that only where it takes them for ranks of different hosts (NCCL_HOSTID).

Data: words of a text, the most frequent ones as a vocabulary; without --data the sources of Python's own library. Every
rank draws other pieces of the first 95 % of it; the loss at the end is of the rest. Rank 0 prints. All random numbers
follow from --seed.
"""
import argparse
import collections
import contextlib
import math
import os
import pathlib
import re
import statistics
import sys
import sysconfig
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


def fail(text):
    sys.exit(f"train_fsdp.py: {text}")


def parse_arguments():
    def whole(text):
        value = int(text)
        if value < 1:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1")
        return value

    parser = argparse.ArgumentParser(description="GPT-2 in plain PyTorch, sharded by FSDP")
    parser.add_argument("--fsdp", type=int, choices=(1, 2), default=2,
                        help="2: fully_shard (the default), 1: FullyShardedDataParallel")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32",
                        help="of parameters in use and gradients on the wire (fp32)")
    parser.add_argument("--steps", type=whole, default=60)
    parser.add_argument("--batch", type=whole, default=4, help="sequences of a rank and step (4)")
    parser.add_argument("--context", type=whole, default=512, help="words of a sequence (512)")
    parser.add_argument("--layers", type=whole, default=12)
    parser.add_argument("--width", type=whole, default=768)
    parser.add_argument("--heads", type=whole, help="of attention (width / 64)")
    parser.add_argument("--vocabulary", type=whole, default=50257, help="words that the model knows (50257)")
    parser.add_argument("--rate", type=float, default=6e-4, help="of learning, at its highest (6e-4)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=pathlib.Path, help="a text, or a folder of them (*.txt)")
    parser.add_argument("--every", type=whole, default=10, help="steps from one printed line to the next (10)")
    parser.add_argument("--profile", action="store_true",
                        help="tell at the end which kernels the last 10 steps spent their time in")
    options = parser.parse_args()
    options.heads = options.heads or max(1, options.width // 64)
    if options.width % options.heads:
        parser.error(f"--width {options.width} is not a multiple of --heads {options.heads}")
    if options.rate <= 0:
        parser.error(f"--rate {options.rate:g} is not above 0")
    if options.profile and options.steps < 20:
        parser.error(f"--profile needs --steps 20 or more, not {options.steps}")
    return options


# ---- the text ------------------------------------------------------------------------------------------------------

def read_text(where, most=16 << 20):
    if where is None:
        where, pattern = pathlib.Path(sysconfig.get_paths()["stdlib"]), "*.py"
    else:
        pattern = "*.txt"
    try:
        files = sorted(where.glob(pattern)) if where.is_dir() else [where]
        text = "".join(file.read_text(errors="replace") for file in files)
    except OSError as error:
        fail(f"--data {where}: {error.strerror}")
    if not text:
        fail(f"--data {where}: no text there ({pattern})")
    return text[:most]


def number_words(text, most):
    """The text as numbers: words with the blank before them, and whatever stands between; 0 for rare ones."""
    words = re.findall(r" ?\w+|\s+|[^\w\s]", text)
    known = {word: i + 1 for i, (word, _) in enumerate(collections.Counter(words).most_common(most - 1))}
    return torch.tensor([known.get(word, 0) for word in words])


class Pieces:
    """Draws sequences, and what follows on each of their words, from a part of the text."""

    def __init__(self, words, context, seed, device):
        self.words, self.context, self.device = words, context, device
        self.generator = torch.Generator().manual_seed(seed)

    def draw(self, batch):
        starts = torch.randint(len(self.words) - self.context, (batch,), generator=self.generator)
        both = torch.stack([self.words[i:i + self.context + 1] for i in starts.tolist()]).to(self.device)
        return both[:, :-1], both[:, 1:]


# ---- the model -----------------------------------------------------------------------------------------------------

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.attended = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, context, width = x.shape
        parts = self.query_key_value(self.norm_1(x)).view(batch, context, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.attended(seen.transpose(1, 2).reshape(batch, context, width))
        return x + self.narrow(F.gelu(self.wide(self.norm_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.words = nn.Embedding(options.vocabulary, options.width)
        self.places = nn.Embedding(options.context, options.width)
        self.blocks = nn.ModuleList(Block(options.width, options.heads) for _ in range(options.layers))
        self.norm = nn.LayerNorm(options.width)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif "norm" not in name:
                last = name.endswith(("attended.weight", "narrow.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * options.layers) if last else 0.02)

    def forward(self, words, following):
        x = self.words(words) + self.places.weight[:words.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(F.linear(self.norm(x), self.words.weight).flatten(0, 1).float(), following.flatten())


def shard_1(model, options, device):
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    low = torch.bfloat16
    mixed = MixedPrecision(param_dtype=low, reduce_dtype=low, buffer_dtype=low) if options.dtype == "bf16" else None
    return FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({Block}), mixed_precision=mixed,
                                    device_id=device, use_orig_params=True)


def shard_2(model, options, device):
    try:
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    except ImportError:
        fail(f"torch {torch.__version__} has no fully_shard; --fsdp 1 may do")
    low = torch.bfloat16
    settings = {"mp_policy": MixedPrecisionPolicy(param_dtype=low, reduce_dtype=low)} if options.dtype == "bf16" else {}
    if device.type == "cpu":
        from torch.distributed.device_mesh import init_device_mesh
        settings["mesh"] = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, **settings)
    return fully_shard(model, **settings)


# ---- training ------------------------------------------------------------------------------------------------------

def start():
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        if name not in os.environ:
            fail(f"{name} is not set: start it by torchrun")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
        dist.init_process_group("nccl")
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    return device


def say(*words):
    if dist.get_rank() == 0:
        print(*words, flush=True)


def mean_of_ranks(loss):
    loss = loss.detach().clone()
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


def rate_at(step, options):
    """Up for a tenth of the steps, then down to a tenth along a cosine."""
    warm = max(1, options.steps // 10)
    if step < warm:
        return options.rate * (step + 1) / warm
    return options.rate * (0.55 + 0.45 * math.cos(math.pi * (step - warm) / max(1, options.steps - warm)))


def train_step(model, optimizer, pieces, step, options):
    for group in optimizer.param_groups:
        group["lr"] = rate_at(step, options)
    loss = model(*pieces.draw(options.batch))
    loss.backward()
    model.clip_grad_norm_(1.0) if options.fsdp == 1 else nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return mean_of_ranks(loss)      # waits for the step, too


def print_kernels(profile, steps, device):
    """Milliseconds and calls a step of what ran longest on the device."""
    names = ["self_cpu_time_total"] if device.type == "cpu" else ["self_device_time_total", "self_cuda_time_total"]

    def spent(event):
        return next(getattr(event, name) for name in names if hasattr(event, name))

    for event in sorted(profile.key_averages(), key=spent, reverse=True)[:25]:
        if spent(event) > 0:
            say(f"kernel {spent(event) / 1e3 / steps:9.3f} ms {event.count / steps:6.1f} calls  {event.key[:100]}")


def train(model, optimizer, pieces, device, options):
    times, losses = [], []
    with contextlib.ExitStack() as stack:
        profile = None
        for step in range(options.steps):
            if options.profile and step == options.steps - 10:
                activity = torch.profiler.ProfilerActivity
                kinds = [activity.CUDA] if device.type == "cuda" else [activity.CPU]
                profile = stack.enter_context(torch.profiler.profile(activities=kinds))
            begin = time.perf_counter()
            losses.append(train_step(model, optimizer, pieces, step, options))
            times.append(1e3 * (time.perf_counter() - begin))
            if not math.isfinite(losses[-1]):
                fail(f"step {step + 1}: the loss is {losses[-1]}")
            if (step + 1) % options.every == 0 or step == 0:
                say(f"step {step + 1:5d}  loss {losses[-1]:.4f}  {times[-1]:.1f} ms")
    if profile:
        print_kernels(profile, 10, device)
    return times, losses


def main():
    options = parse_arguments()
    device = start()
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    words = number_words(read_text(options.data), options.vocabulary)
    cut = len(words) * 95 // 100
    if len(words) - cut <= options.context:
        fail(f"the text has {len(words)} words: too few for sequences of {options.context}")
    model = GPT(options).to(device)
    parameters = sum(p.numel() for p in model.parameters())
    model = (shard_1 if options.fsdp == 1 else shard_2)(model, options, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate, betas=(0.9, 0.95), weight_decay=0.1)
    say(f"GPT of {parameters / 1e6:.1f} M parameters, FSDP{options.fsdp}, {options.dtype}, "
        f"{dist.get_world_size()} ranks, {dist.get_backend()}, torch {torch.__version__}")
    seed = 1000 * options.seed + dist.get_rank()
    times, losses = train(model, optimizer, Pieces(words[:cut], options.context, seed, device), device, options)
    held_out = Pieces(words[cut:], options.context, seed, device)
    with torch.no_grad():
        tested = statistics.mean(mean_of_ranks(model(*held_out.draw(options.batch))) for _ in range(8))
    tail = times[len(times) // 2:]
    say(f"train: steps={options.steps} step_ms={statistics.median(tail):.2f} loss={statistics.mean(losses[-10:]):.4f} "
        f"loss_val={tested:.4f}")
    dist.destroy_process_group()


main()
