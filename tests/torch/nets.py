"""The networks of cfg/cifar*.cfg and cfg/fmnist-lenet.cfg as PyTorch modules, written from the papers' architecture and
not from the cfgs, so that one checks the other; public ones, tests/zoo/*.cfg; and
geometry.cfg.

Modules are made in the order in which the cfg has them: a block's own convolutions, then the one on its short cut.
`features` ends where the cfg has [itra] and [center], `classifier` is the last connected layer.
"""
import math

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, features, width, classes):
        super().__init__()
        self.features = nn.Sequential(*features)
        self.classifier = nn.Linear(width, classes)

    def forward(self, x):
        return self.classifier(self.features(x))


class Sum(nn.Module):
    """What the body makes of x, and x itself, brought to the same shape where need be."""

    def __init__(self, body, skip, relu):
        super().__init__()
        self.body = nn.Sequential(*body)
        self.skip = nn.Sequential(*skip)
        self.relu = nn.ReLU() if relu else nn.Identity()

    def forward(self, x):
        return self.relu(self.body(x) + self.skip(x))


def convolution(inputs, filters, size, stride=1, groups=1, relu=True, act=nn.ReLU):
    """A convolution without bias ("same" padding), batch normalisation, and ReLU (or another) or nothing."""
    layers = [nn.Conv2d(inputs, filters, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(filters)]
    return layers + [act()] if relu else layers


def average():
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten()]


def resnet(classes, blocks, bottleneck):
    """He et al. 2016 for 32x32: a 3x3 stem of stride 1 and no pooling; four stages, halving from the second on."""
    features, inputs = convolution(3, 64, 3), 64
    for stage, repeats in enumerate(blocks):
        for block in range(repeats):
            width, stride = 64 << stage, 2 if stage > 0 and block == 0 else 1
            if bottleneck:
                outputs = 4 * width
                body = (convolution(inputs, width, 1) + convolution(width, width, 3, stride)
                        + convolution(width, outputs, 1, relu=False))
            else:
                outputs = width
                body = convolution(inputs, width, 3, stride) + convolution(width, width, 3, relu=False)
            same = stride == 1 and inputs == outputs
            skip = [] if same else convolution(inputs, outputs, 1, stride, relu=False)
            features.append(Sum(body, skip, relu=True))
            inputs = outputs
    return Net(features + average(), inputs, classes)


def resnet18(classes=10):
    return resnet(classes, (2, 2, 2, 2), bottleneck=False)


def resnet101(classes=100):
    return resnet(classes, (3, 4, 23, 3), bottleneck=True)


def vgg13(classes=10):
    """Simonyan and Zisserman 2015, B, with batch normalisation; five halvings leave one pixel of 32x32."""
    features, inputs = [], 3
    for filters in (64, 128, 256, 512, 512):
        features += convolution(inputs, filters, 3) + convolution(filters, filters, 3) + [nn.MaxPool2d(2)]
        inputs = filters
    return Net(features + [nn.Flatten()], inputs, classes)


def mobilenetv2(classes=10):
    """Sandler et al. 2018 for 32x32: stem and second stage of stride 1, ReLU; a block that keeps the size always has a
    short cut, through a 1x1 convolution where the number of channels changes."""
    features, inputs = convolution(3, 32, 3), 32
    for expand, outputs, repeats, first in ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                            (6, 160, 3, 2), (6, 320, 1, 1)):
        for stride in [first] + [1] * (repeats - 1):
            width = expand * inputs
            body = (convolution(inputs, width, 1) + convolution(width, width, 3, stride, groups=width)
                    + convolution(width, outputs, 1, relu=False))
            if stride == 1:
                skip = [] if inputs == outputs else convolution(inputs, outputs, 1, relu=False)
                features.append(Sum(body, skip, relu=False))
            else:
                features += body
            inputs = outputs
    return Net(features + convolution(inputs, 1280, 1) + average(), 1280, classes)


def lenet(classes=10):
    """The ITRA paper's small net for 28x28."""
    features = [nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2),
                nn.Flatten(), nn.Linear(800, 100), nn.ReLU()]
    return Net(features, 100, classes)


class Excited(nn.Module):
    """Squeeze and excitation (Hu et al. 2018): each channel times a gate that all of them decide on."""

    def __init__(self, channels, squeezed):
        super().__init__()
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, squeezed, 1), nn.SiLU(),
                                  nn.Conv2d(squeezed, channels, 1), nn.Sigmoid())

    def forward(self, x):
        return x * self.gate(x)


def efficientnet_b0(classes=1000):
    """Tan and Le 2019 with AlexeyAB's widths; without dropout."""
    def swish(*sizes, **others):
        return convolution(*sizes, **others, act=nn.SiLU)

    features, inputs = swish(3, 32, 3, 2), 32
    for width, size, stride, squeezed, outputs in (
            (32, 3, 1, 8, 16), (96, 3, 2, 16, 24), (144, 3, 1, 8, 24), (144, 5, 2, 8, 40), (192, 5, 1, 16, 40),
            (192, 3, 1, 16, 80), (384, 3, 1, 24, 80), (384, 3, 1, 24, 80), (384, 5, 2, 24, 112), (576, 5, 1, 32, 112),
            (576, 5, 1, 32, 112), (576, 5, 2, 32, 192), (960, 5, 1, 64, 192), (960, 5, 1, 64, 192), (960, 5, 1, 64, 192),
            (960, 3, 1, 64, 320)):
        body = (swish(inputs, width, 1) + swish(width, width, size, stride, groups=width) + [Excited(width, squeezed)]
                + convolution(width, outputs, 1, relu=False))
        features += [Sum(body, [], relu=False)] if inputs == outputs else body
        inputs = outputs
    return Net(features + swish(inputs, 1280, 1) + average(), 1280, classes)


def leaky(*sizes):
    return convolution(*sizes, act=lambda: nn.LeakyReLU(.1))


class Elastic(nn.Module):
    """Wang et al. 2019: half of the channels as they are, the other half at half the size."""

    def __init__(self, width):
        super().__init__()
        self.fine = nn.Sequential(*leaky(width, width, 1), *leaky(width, width, 3))
        self.coarse = nn.Sequential(nn.MaxPool2d(2), *leaky(width, width, 1), *leaky(width, width, 3),
                                    nn.Upsample(scale_factor=2))

    def forward(self, x):
        fine, coarse = x.chunk(2, 1)
        return x + torch.cat([self.fine(fine), self.coarse(coarse)], 1)


class Partial(nn.Module):
    """A cross-stage partial stage (Wang et al. 2019): the body goes round one of two projections."""

    def __init__(self, inputs, width, blocks, outputs):
        super().__init__()
        self.past = nn.Sequential(*leaky(inputs, width, 1))
        self.body = nn.Sequential(*leaky(inputs, width, 1), *blocks, *leaky(width, width, 1))
        self.join = nn.Sequential(*leaky(2 * width, outputs, 1))

    def forward(self, x):
        return self.join(torch.cat([self.body(x), self.past(x)], 1))


def csdarknet53_elastic(classes=1000):
    features, inputs = leaky(3, 32, 3), 32
    for outputs, width, repeats in ((64, 64, 1), (128, 64, 2), (256, 128, 8), (512, 256, 8), (1024, 512, 4)):
        blocks = [Elastic(width // 2) for _ in range(repeats)]
        features += leaky(inputs, outputs, 3, 2) + [Partial(outputs, width, blocks, outputs)]
        inputs = outputs
    return Net(features + average(), inputs, classes)


class Blur(nn.Module):
    """A fixed binomial blur of 3x3 pixels (zeros outside) or 2x2 (none), with a stride (Zhang 2019)."""

    def __init__(self, size, stride):
        super().__init__()
        self.row, self.stride, self.padding = {2: (1, 1), 3: (1, 2, 1)}[size], stride, size // 3

    def forward(self, x):
        row = torch.tensor(self.row, dtype=x.dtype) / sum(self.row)
        kernel = torch.outer(row, row).expand(x.shape[1], 1, -1, -1)
        return nn.functional.conv2d(x, kernel, stride=self.stride, padding=self.padding, groups=x.shape[1])


class Maxout(nn.Module):
    """The largest of every k-th channel."""

    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        return x.reshape(len(x), -1, self.k, *x.shape[2:]).max(1).values


class Local(nn.Module):
    """A convolution of 3x3 whose every pixel has weights and biases of its own."""

    def __init__(self, inputs, filters, pixels):
        super().__init__()
        self.filters = filters
        self.weight = nn.Parameter(torch.empty(pixels * filters, inputs * 9))
        self.bias = nn.Parameter(torch.empty(filters * pixels))

    def forward(self, x):
        windows = nn.functional.unfold(x, 3, padding=1)
        weight = self.weight.reshape(-1, self.filters, windows.shape[1])
        y = torch.einsum("nkp,pfk->nfp", windows, weight) + self.bias.reshape(self.filters, -1)
        return y.reshape(len(x), self.filters, *x.shape[2:])


def geometry(classes=10):
    """tests/torch/geometry.cfg: dilation, two strides, blurred strides, maxima over channels, means, local weights."""
    def window(inputs, filters, stride=1, dilation=1):
        return [nn.Conv2d(inputs, filters, 3, stride, dilation, dilation, bias=False), nn.BatchNorm2d(filters),
                nn.LeakyReLU(.1)]

    features = (window(3, 8, dilation=2) + window(8, 12, (1, 2)) + window(12, 12) + [Blur(3, (2, 1))]
                + window(12, 16) + [Blur(2, 2), nn.MaxPool2d(3, (2, 1), 1)]
                + [nn.ConstantPad2d((0, 1, 0, 1), -math.inf), nn.MaxPool2d(2, 1), Blur(3, 2), Maxout(8)]
                + [nn.AvgPool2d(3, 1, 1, count_include_pad=False), Local(8, 4, 18), nn.LeakyReLU(.1), nn.Flatten()])
    return Net(features, 72, classes)
