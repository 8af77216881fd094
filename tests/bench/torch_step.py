"""PyTorch as a contender in `make bench` (the protocol is in step.c): the same nets, channels_last.

    torch_step.py resnet18|lenet BATCH THREADS
"""
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """Two 3x3 convolutions and an addition, as in cfg/cifar10-resnet18.cfg."""

    def __init__(self, inputs, filters, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, filters, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(filters)
        self.projection = None
        if stride != 1 or inputs != filters:
            self.projection = nn.Sequential(nn.Conv2d(inputs, filters, 1, stride, bias=False),
                                            nn.BatchNorm2d(filters))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        y = self.norm2(self.conv2(y))
        return F.relu(y + (self.projection(x) if self.projection else x), inplace=True)


def resnet18():
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    inputs = 64
    for filters, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(inputs, filters, stride), Block(filters, filters, 1)]
        inputs = filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)), (3, 32, 32)


def lenet():
    net = nn.Sequential(nn.Conv2d(1, 20, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2),
                        nn.Conv2d(20, 50, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2),
                        nn.Flatten(), nn.Linear(800, 100), nn.ReLU(inplace=True), nn.Linear(100, 10))
    return net, (1, 28, 28)


def main():
    name, batch, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    net, shape = {"resnet18": resnet18, "lenet": lenet}[name]()
    net = net.to(memory_format=torch.channels_last).train()
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
