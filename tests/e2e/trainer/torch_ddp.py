# SPDX-License-Identifier: BSD-3-Clause
"""Trains a GPT that nobody has published with PyTorch's DDP, 60 steps, and prints the loss of held-out text: torch_ddp.py TEXT [PERIOD].
With a period, ranks train alone and average each parameter after so many steps (local SGD, as accelerate does it)."""
import contextlib
import os
import sys

sys.path.insert(0, os.path.join(os.environ["abs_top_srcdir"], "tests", "fixtures"))

import nccl_for_torch
import record_ddp

STEPS, BATCH, HELD = 60, 4, 32


def main():
    torch, dist, _, _, Gpt, _, _, loss_of, ddp, _ = record_ddp.define()
    torch.set_num_threads(1)
    dist.init_process_group(nccl_for_torch.NAME)
    torch.manual_seed(1)
    with open(sys.argv[1], "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()

    def batch(generator, size):
        begins = torch.randint(len(text) - 128, (size,), generator=generator)
        return torch.stack([text[begin:begin + 128] for begin in begins])

    model = ddp(Gpt())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(2 + dist.get_rank())
    period = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    for i in range(1, STEPS + 1):
        with model.no_sync() if period else contextlib.nullcontext():
            loss = loss_of(model, batch(generator, BATCH))
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if period and i % period == 0:
            for parameter in model.parameters():
                dist.all_reduce(parameter.data)
                parameter.data /= dist.get_world_size()
        dist.all_reduce(loss.detach().clone())
    with torch.no_grad():
        held = loss_of(model.module, batch(torch.Generator().manual_seed(1), HELD))
    if dist.get_rank() == 0:
        print(f"held-out loss {held.item():.6f}")


main()
