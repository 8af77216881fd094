#!/usr/bin/env python3
"""torchvision's nets, with random weights and running statistics, imported: both must answer the same.

usage: torchvision.py DARKNET ANSWER FOLDER-OF-CFGS [NET...]     (all of them: resnet101 and vgg13_bn take minutes)
"""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path = [p for p in sys.path if os.path.abspath(p or ".") != HERE]  # this file is called like a package

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torchvision.models  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

TOLERANCE = 1e-4  # ||a - b|| / ||b|| of the probabilities
CLASSES, ROWS = 10, 2


class Cfg:
    def __init__(self, side):
        self.text = f"[net]\nbatch=1\nwidth={side}\nheight={side}\nchannels=3\nmean=.485,.456,.406\nstd=.229,.224,.225\n"
        self.layers = 0

    def add(self, section, **keys):
        """The number of the layer."""
        self.text += f"\n[{section}]\n" + "".join(f"{k}={v}\n" for k, v in keys.items())
        self.layers += 1
        return self.layers - 1

    def conv(self, filters, size, stride=1, activation="relu", groups=1):
        return self.add("convolutional", filters=filters, size=size, stride=stride, pad=1, groups=groups,
                        batch_normalize=1, activation=activation)

    def end(self):
        self.add("connected", output=CLASSES, activation="linear")
        self.add("softmax")
        return self.text


def resnet(stages, bottleneck):
    c = Cfg(64)
    c.conv(64, 7, 2)
    at, width = c.add("maxpool", size=3, stride=2, padding=2), 64
    for i, blocks in enumerate(stages):
        inner = 64 << i
        outer = inner * 4 if bottleneck else inner
        for k in range(blocks):
            stride = 2 if i and not k else 1
            if bottleneck:
                c.conv(inner, 1)
                c.conv(inner, 3, stride)
                last = c.conv(outer, 1, 1, "linear")
            else:
                c.conv(inner, 3, stride)
                last = c.conv(outer, 3, 1, "linear")
            if stride > 1 or width != outer:
                c.add("route", layers=at)
                c.conv(outer, 1, stride, "linear")
                at = last
            at, width = c.add("shortcut", **{"from": at, "activation": "relu"}), outer
    c.add("avgpool")
    return c.end()


def vgg13():
    c = Cfg(224)
    for filters in (64, 128, 256, 512, 512):
        c.conv(filters, 3)
        c.conv(filters, 3)
        c.add("maxpool", size=2, stride=2, padding=0)
    for _ in range(2):
        c.add("connected", output=4096, activation="relu")
        c.add("dropout", probability=.5)
    return c.end()


def mobilenet_v2():
    c, width = Cfg(64), 32
    at = c.conv(32, 3, 2, "relu6")
    for expand, filters, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                            (6, 160, 3, 2), (6, 320, 1, 1)):
        for k in range(blocks):
            inner = width * expand
            if expand > 1:
                c.conv(inner, 1, 1, "relu6")
            c.conv(inner, 3, 1 if k else stride, "relu6", inner)
            last = c.conv(filters, 1, 1, "linear")
            same = not (k == 0 and stride > 1) and width == filters
            at, width = c.add("shortcut", **{"from": at, "activation": "linear"}) if same else last, filters
    c.conv(1280, 1, 1, "relu6")
    c.add("avgpool")
    c.add("dropout", probability=.2)
    return c.end()


NETS = {
    "resnet18": lambda: resnet((2, 2, 2, 2), 0),
    "mobilenet_v2": mobilenet_v2,
    "resnet34": lambda: resnet((3, 4, 6, 3), 0),
    "resnet50": lambda: resnet((3, 4, 6, 3), 1),
    "resnet101": lambda: resnet((3, 4, 23, 3), 1),
    "vgg13_bn": vgg13,
}
SHIPPED = {"resnet18": "imagenet-resnet18.cfg", "resnet50": "imagenet-resnet50.cfg"}


def build(name, classes, images):
    """With running statistics of these images. The last scale of a block is small, as training leaves it: else 101
    layers multiply rounding to 1e-4."""
    torch.manual_seed(3)
    net = getattr(torchvision.models, name)(num_classes=classes).train()
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0
            torch.nn.init.uniform_(module.weight, .5, 1.5)
            torch.nn.init.uniform_(module.bias, -.2, .2)
    with torch.no_grad():
        for module in net.modules():
            last = getattr(module, "bn3", getattr(module, "bn2", None))
            if last is not None:
                last.weight.mul_(.2)
        net(images)
    return net.eval()


def save(net, folder):
    """The same weights, as the files that people have."""
    paths = [os.path.join(folder, f) for f in ("net.safetensors", "net.pth", "old.pth", "training.pt")]
    save_file(net.state_dict(), paths[0])
    torch.save(net.state_dict(), paths[1])
    torch.save(net.state_dict(), paths[2], _use_new_zipfile_serialization=False)
    net.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=.1, momentum=.9)
    torch.save({"epoch": 3, "optimizer": optimizer.state_dict(), "model": torch.nn.DataParallel(net).state_dict()}, paths[3])
    return paths


def compare(darknet, answer, name, cfg, classes, folder):
    side = 224 if name == "vgg13_bn" or classes > CLASSES else 64
    torch.manual_seed(4)
    blocks = torch.nn.functional.interpolate(torch.randn(8, 3, side // 8, side // 8), scale_factor=8)
    net = build(name, classes, blocks + torch.randn(8, 3, side, side) / 3)
    weights = os.path.join(folder, "theirs.weights")
    read = set()
    for state in save(net, folder):
        subprocess.run([darknet, "import", state, cfg, "-out", weights], check=True, stderr=subprocess.DEVNULL)
        with open(weights, "rb") as f:
            read.add(f.read())
    assert len(read) == 1, "one net, saved in several ways, gives several .weights"
    subprocess.run([answer, cfg, "cpu", str(ROWS), folder, weights], check=True)
    images = np.fromfile(os.path.join(folder, "images"), np.float32).reshape(ROWS, 3, side, side)
    ours = np.fromfile(os.path.join(folder, "outputs"), np.float32).reshape(ROWS, -1)
    with torch.no_grad():
        theirs = torch.softmax(net(torch.from_numpy(images)), 1).numpy()
    return np.linalg.norm(ours - theirs) / np.linalg.norm(theirs), abs(theirs[0] - theirs[1]).max() / theirs.max()


def main():
    darknet, answer, shipped, *names = sys.argv[1:]
    failed = 0
    names = names or list(NETS)
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            cfgs = [(os.path.join(folder, name + ".cfg"), CLASSES)]
            with open(cfgs[0][0], "w", encoding="utf-8") as f:
                f.write(NETS[name]())
            if name in SHIPPED and len(sys.argv) == 4:
                cfgs.append((os.path.join(shipped, SHIPPED[name]), 1000))
            for cfg, classes in cfgs:
                error, spread = compare(darknet, answer, name, cfg, classes, folder)
                bad = not (error <= TOLERANCE < spread)
                failed += bad
                print(f"{'FAIL' if bad else 'ok'}: {name}, {os.path.basename(cfg)}: {error:.1e}, and its images by "
                      f"{spread:.1e}", flush=True)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
