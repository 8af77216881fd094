"""PyTorch as a contender (the protocol is in step.c): the nets of tests/torch/nets.py, channels_last.

    torch_step.py resnet18|vgg13|mobilenetv2|lenet BATCH THREADS [--device cpu|cuda] [--precision fp32|tf32|bf16]
                  [--compile [MODE]|--eager] [--infer]

bf16 is PyTorch's usual one: autocast, weights and optimiser in float. On a GPU its convolutions are chosen by measurement, as
ours are, and data lies on the device.
"""
import argparse
import pathlib
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "torch"))
import nets


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("net")
    parser.add_argument("batch", type=int)
    parser.add_argument("threads", type=int)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32", choices=("fp32", "tf32", "bf16"))
    parser.add_argument("--compile", nargs="?", const="default", choices=("default", "max-autotune"), help="torch.compile's mode")
    parser.add_argument("--infer", action="store_true", help="the forward pass alone")
    parser.add_argument("--eager", action="store_const", const=None, dest="compile")
    return parser.parse_args()


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = args.precision == "tf32"
    net = getattr(nets, args.net)().to(args.device, memory_format=torch.channels_last).train()
    for module in net.modules():
        if isinstance(module, nn.ReLU):
            module.inplace = True  # one pass over memory less
    shape = (1, 28, 28) if args.net == "lenet" else (3, 32, 32)
    x = torch.randn(args.batch, *shape).to(args.device, memory_format=torch.channels_last)
    label = torch.randint(0, 10, (args.batch,)).to(args.device)
    optimiser = torch.optim.SGD(net.parameters(), lr=1e-6, momentum=0.5)  # step.c says why this rate
    forward = torch.compile(net, mode=args.compile) if args.compile else net

    def predict():
        with torch.inference_mode(), torch.autocast(args.device, torch.bfloat16, enabled=args.precision == "bf16"):
            forward(x)

    def train():
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(args.device, torch.bfloat16, enabled=args.precision == "bf16"):
            loss = F.cross_entropy(forward(x), label)
        loss.backward()
        optimiser.step()

    step = predict if args.infer else train
    if args.infer:
        net.eval()

    def play_round(iterations):
        start = time.monotonic()
        for _ in range(iterations):
            step()
        if args.device != "cpu":
            torch.cuda.synchronize()
        return (time.monotonic() - start) / iterations

    for _ in range(3 if args.device != "cpu" else 2):
        play_round(1)
    print("ready", flush=True)
    for line in iter(sys.stdin.readline, ""):
        print(f"{play_round(int(line.strip() or 1)) / args.batch:.9f}", flush=True)


main()
