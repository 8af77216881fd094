"""PyTorch as a contender in `make bench` (the protocol is in step.c): the nets of tests/torch/nets.py, channels_last.

    torch_step.py resnet18|vgg13|mobilenetv2|lenet BATCH THREADS
"""
import pathlib
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "torch"))
import nets


def main():
    name, batch, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    net = getattr(nets, name)().to(memory_format=torch.channels_last).train()
    for module in net.modules():
        if isinstance(module, nn.ReLU):
            module.inplace = True  # one pass over memory less
    shape = (1, 28, 28) if name == "lenet" else (3, 32, 32)
    x = torch.randn(batch, *shape).contiguous(memory_format=torch.channels_last)
    label = torch.randint(0, 10, (batch,))
    optimiser = torch.optim.SGD(net.parameters(), lr=1e-6, momentum=0.5)  # step.c says why this rate

    def step():
        start = time.monotonic()
        optimiser.zero_grad(set_to_none=True)
        F.cross_entropy(net(x), label).backward()
        optimiser.step()
        return time.monotonic() - start

    for _ in range(2):
        step()
    print("ready", flush=True)
    for _ in iter(sys.stdin.readline, ""):
        print(f"{step() / batch:.9f}", flush=True)


main()
