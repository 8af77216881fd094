#!/usr/bin/env python3
"""A model of a training step on an H100: milliseconds by kernel, from bytes, FLOPs and launches, to lay a real run beside.

    model.py [--built FOLDER]            writes data/results/gpu-model.md
    model.py --check [--built FOLDER]    that file is the model's, and its kernels are those that the program launches

FOLDER: a build with GPU=host, whose idle kernels are counted. The rates are published ones of an H100 SXM, and what kernels
of their kind are known to reach of them; none has been measured with this program.
"""
import argparse
import collections
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parent.parent.parent
CFG, RESULT = "cfg/cifar10-resnet18.cfg", ROOT / "data/results/gpu-model.md"
BATCHES = (128, 512, 1024)

MEMORY = 3.35e12 * 0.90  # bytes/s of HBM3 that streaming kernels reach
CACHE, CACHED = 5.5e12, 34e6  # bytes/s of the second-level cache; bytes that stay in its 50 MB from kernel to kernel
MATRIX = 989e12 * 0.45  # FLOP/s of convolutions in bf16 whose tiles fill the card
PROCESSORS, TILE = 132, 128  # a tile of the output, TILE x TILE, keeps a multiprocessor busy
DEALT = 0.9  # share of the card that is busy where the depth of a product is dealt out
GAP = 1.3e-6  # seconds from one node of a graph to the next
FORK = 1e-6  # seconds that a fork and its join take beside the gaps
LOAD = 0.7e-6  # seconds of a load from memory and what hangs on it
DRAIN, WINDOW = 50e-6, 10  # seconds that a device is idle when the host waits for all, reads and begins again; steps between
BF16, FLOAT = 2, 4  # bytes
PIXELS, IMAGE, CHANNELS = 32 * 32, 3, 8  # of an image: its channels, and those that it has in memory

BESIDE = "weights beside data"

# Images of ImageNet's size, from a loader:
PHOTO = 3 * 224 * 224  # numbers
WORK = 3 * 2 * 1.82e9  # FLOPs of ResNet-18 in a training step
BUS, COPY = 50e9, 10e9  # bytes/s of PCIe 5 x16; of a thread that copies into pinned memory
MAKE = 3e-3  # seconds that a thread of the loader takes for a JPEG, decoded, scaled and cropped

Kernel = collections.namedtuple("Kernel", "name what calls seconds")
Layer = collections.namedtuple("Layer", "kind options width height channels source")


def sections(path):
    found = []
    for line in path.read_text().splitlines():
        line = line.split("#")[0].strip()
        if line.startswith("["):
            found.append((line.strip("[]"), {}))
        elif line:
            key, value = line.split("=", 1)
            found[-1][1][key.strip()] = value.strip()
    return found[1:]


def read_net(darknet):
    """The layers, with shapes as the program has them."""
    said = subprocess.run([darknet, "ops", CFG, "-device", "ref", "-set", "net.batch=1", "-set", "itra.lambda=0"], cwd=ROOT,
                          capture_output=True, text=True, check=True).stdout
    shapes = re.findall(r"^ *(\d+) (\S+) +(\d+) x (\d+) x (\d+)", said, re.M)
    layers = []
    for (index, kind, width, height, channels), (_, options) in zip(shapes, sections(ROOT / CFG)):
        source = int(index) - 1
        if kind == "route":
            source = int(index) + int(options["layers"])
        layers.append(Layer(kind, options, int(width), int(height), int(channels), source))
    return layers


class Model:
    def __init__(self, layers, batch):
        self.batch, self.layers = batch, layers
        self.kernels = collections.OrderedDict()
        self.beside = 0  # seconds less than one after the other

    def add(self, name, what, seconds):
        old = self.kernels.get(name, Kernel(name, what, 0, 0))
        self.kernels[name] = Kernel(name, what, old.calls + 1, old.seconds + seconds + GAP)

    @staticmethod
    def move(size, largest=None):
        """Seconds for so many bytes, of tensors of which the largest has so many."""
        return size / (CACHE if largest is not None and largest <= CACHED else MEMORY)

    @staticmethod
    def full(rows, columns):
        """Share of the card that the tiles of a product keep busy."""
        tiles = -(-rows // TILE) * -(-columns // TILE)
        return tiles / (-(-tiles // PROCESSORS) * PROCESSORS)

    @staticmethod
    def multiply(rows, columns, depth, full):
        """Seconds of a product."""
        # Narrower outputs than a tile leave part of it idle, and so does a depth that is padded to 64.
        narrow = min(1, columns / TILE) ** 0.5
        padded = depth / (math.ceil(depth / 64) * 64)
        return 2 * rows * columns * depth / (MATRIX * full * narrow * padded)

    def size(self, layer):
        return self.batch * layer.width * layer.height * layer.channels

    def convolution(self, layer, source, first):
        kernel, stride = int(layer.options.get("size", 1)), int(layer.options.get("stride", 1))
        inputs = CHANNELS if source is None else source.channels
        x = self.batch * PIXELS * CHANNELS if source is None else self.size(source)
        y, w = self.size(layer), layer.channels * inputs * kernel * kernel
        rows, depth = y // layer.channels, inputs * kernel * kernel
        largest = BF16 * max(x, y)
        through = self.move(BF16 * (x + y + w), largest)
        full = self.full(rows, layer.channels)
        self.add("convolution forward", "cuDNN", max(self.multiply(rows, layer.channels, depth, full), through))
        weights = self.multiply(layer.channels, depth, rows, DEALT)
        self.add("convolution weights", "cuDNN", max(weights, through))
        if not first:
            full = self.full(x // inputs, inputs)
            data = self.multiply(x // inputs, inputs, layer.channels * kernel * kernel / stride**2, full)
            self.add("convolution data", "cuDNN", max(data, through))
            # Until one of the two has ended, each has what the other leaves idle. Bytes keep all busy.
            busy = (full if data > through else 1) + (DEALT if weights > through else 1)
            self.beside += max(min(data, weights), through) * (2 - max(busy, 1)) + GAP - FORK
        return w

    def norm(self, layer, added):
        e, c = self.size(layer), layer.channels
        largest = BF16 * e
        move = lambda passes: 2 * LOAD + self.move(BF16 * passes * e, largest)  # first of all the coefficients
        blocks = min(e // c // 4 * (c // 8) // 256 + 1, PROCESSORS * 4)
        # Blocks of 8 channels and 128 lanes: a lane adds every 128th of the others' sums, 4 loads under way.
        gather = LOAD * (3 + math.ceil(blocks / 128) / 4)
        self.add("measure", "batch norm: statistics", move(1))
        self.add("finish", "batch norm: sums of blocks", gather)
        self.add("apply", "batch norm, activation, addition", move(3 if added else 2))
        self.add("sums", "batch norm backward: statistics", move(4 if added else 2))
        self.add("back_finish", "batch norm backward: sums of blocks", gather)
        self.add("back", "batch norm backward", move(3))

    def run(self):
        weights = 0
        shortcuts = {i - 1 for i, layer in enumerate(self.layers) if layer.kind == "shortcut"}
        self.add("show", "images", self.move(self.batch * PIXELS * (IMAGE + BF16 * CHANNELS)))
        for i, layer in enumerate(self.layers):
            source = self.layers[layer.source] if layer.source >= 0 else None
            while source is not None and source.kind == "route":
                source = self.layers[source.source]
            if layer.kind == "convolutional":
                weights += self.convolution(layer, source, i == 0)
                self.norm(layer, i in shortcuts)
            elif layer.kind == "avgpool":
                for name in ("pool_average", "pool_average_back"):
                    self.add(name, "average pool", self.move(BF16 * self.size(source), 0))
            elif layer.kind == "connected":
                for _ in range(3):
                    self.add("product", "cuBLAS", 4e-6)
                self.add("finish of a bias", "dense", 2e-6)
                self.add("sum", "dense", 4e-6)
                self.add("sum", "dense", 2e-6)
            elif layer.kind == "softmax":
                for name in ("classify", "total", "classify_back"):
                    self.add(name, "softmax and its loss", 3e-6)
        self.add("find_bad", "gradients that are not finite", self.move(BF16 * weights))
        self.add("record", "losses", 2e-6)
        self.add("step", "SGD", self.move((4 * FLOAT + 2 * BF16) * weights))
        self.kernels[BESIDE] = Kernel(BESIDE, "what the card does not wait for", 0, -self.beside)
        return self.kernels


def feeding():
    """Images that threads of the loader make: what they wait for on their way, for each, in us."""
    copy, bus, step = (1e6 * s for s in (FLOAT * PHOTO / COPY, FLOAT * PHOTO / BUS, WORK / MATRIX))
    rows = ["| per image, us | before | now |", "|---|---:|---:|",
            f"| the host copies it into pinned memory, in pieces for which it waits | {copy:.0f} | 0 |",
            f"| on the bus | {bus:.0f}, in the stream of the step | {bus:.0f}, beside the step |", f"| the step | {step:.0f} | {step:.0f} |"]
    paces = [1e6 / (copy + step), 1e6 / max(bus, step)]
    rows.append("| **images/s at most** | " + " | ".join(f"**{round(pace, -3):,.0f}**" for pace in paces) + " |")
    rows.append("| threads that make so many | " + " | ".join(f"{pace * MAKE:.0f}" for pace in paces) + " |")
    return "\n".join(rows)


def counted(built):
    """How often a step launches which kernel, as the program does it."""
    with tempfile.TemporaryDirectory() as name:
        counts = {}
        for rounds in (1, 2):
            path = pathlib.Path(name) / str(rounds)
            subprocess.run([built / "tests/bench/step", "-device", "cuda", "-precision", "bf16", CFG, "1", "net.batch=512",
                            "itra.lambda=0"], cwd=ROOT, input="10\n" * rounds, text=True, check=True, stdout=subprocess.DEVNULL,
                           env={**os.environ, "SHIM_IDLE": "1", "SHIM_COUNTS": str(path), "DARKNET_ENGINES": ""})
            counts[rounds] = collections.Counter()
            for line in path.read_text().splitlines():
                number, what = line.split(" ", 1)
                counts[rounds][kernel_name(what)] += int(number)
    return {what: (n - counts[1][what]) / 10 for what, n in counts[2].items() if n != counts[1][what]}


def kernel_name(what):
    if "<" in what:  # the choice among the instances of a template
        return re.search(r"(\w+)<", what).group(1)
    if what.startswith("OF_FOUR(finish"):
        return "finish of a bias"
    found = re.match(r"OF_FOUR\((\w+)", what)
    return found.group(1) if found else what


def report(models):
    head = ["| kernel | launches | " + " | ".join(f"ms at {b}" for b in BATCHES) + " | % at 512 | what it does |",
            "|---|---:|" + "---:|" * (len(BATCHES) + 1) + "---|"]
    total = {b: sum(k.seconds for k in models[b].values()) for b in BATCHES}
    rows = []
    for name, kernel in sorted(models[512].items(), key=lambda item: -item[1].seconds):
        times = " | ".join(f"{1e3 * models[b][name].seconds:.3f}" for b in BATCHES)
        rows.append(f"| {name} | {kernel.calls} | {times} | {100 * kernel.seconds / total[512]:.1f} | {kernel.what} |")
    calls = sum(k.calls for k in models[512].values())
    rows.append(f"| **all** | {calls} | " + " | ".join(f"**{1e3 * total[b]:.2f}**" for b in BATCHES) + " | 100 | |")
    rows.append("| **images/s** | | " + " | ".join(f"**{round(b / total[b], -3):,.0f}**" for b in BATCHES) + " | | |")
    return "\n".join(head + rows)


TEXT = """# A training step on an H100, as it should be

ResNet-18 in its form for CIFAR (`cfg/cifar10-resnet18.cfg`, `lambda=0`), bf16, one H100 SXM. **A model: no GPU has run this
yet.** `tests/device/model.py` makes this file, from the shapes of the layers and the kernels that a step launches;
`tests/device/dry.sh` checks that they are those that the program launches. To lay a run beside it:
`nsys profile --stats=true -t cuda --cuda-graph-trace=node build/float-cuda/tests/bench/step ...`, and `tests/device/run.sh`
for the last line.

{table}

What the model pointed at, and what has been done about it:

| change | ms less at 128 | at 512 | shown by |
|---|---:|---:|---|
| the sums that blocks of batch norm give are added by 1,024 threads for 8 channels, not 256 | 0.16 | 0.20 | SASS: the loads of all sums of a thread are under way together |
| its kernels read their coefficients 16 bytes at a time | 0.08 | 0.08 | SASS: loads in `back` 68 -> 18, `sums` 52 -> 14, `apply` 51 -> 13 |
| up to 24 candidates are timed for a convolution, at most 5 of an engine, not the first 8 | convolutions: 0-10 % | the same | `tests/cuda/plans`: candidates and engines for an H100 |
| images have 8 channels in memory, 5 of them zero: engines do not pad them, forward and for the weights' gradient | {padding} | `tests/cuda/plans`: 0.4 instead of 8.4 MiB of workspace at 512 |
| a [route] to one layer copies nothing; it copied the tensor to where it was | 0.02 | 0.07 | 217 -> 214 launches |
| the weights' gradient of a convolution runs beside that of its data, in a second branch of the graph | {beside} | `tests/cuda/late`: the same weights in any order that the graph allows |
| the losses of {window} steps are read while the next {window} run; the device was idle meanwhile | {drain:.3f} | {drain:.3f} | `tests/cuda/late`: no wait for all that was submitted |
| the update and its check read gradients of weights as cuDNN gives them, in bf16, where nothing is added to them | 0.05 | 0.05 | 214 -> 194 launches |

Images that stay on the device cost it no more than `show`. Those that threads of the loader make, of 3 x 224 x 224, go up in
float, from memory that the device reads by itself, while the step before runs (`tests/cuda/late`: a wait that is missing gives
other numbers); before, a copy in pieces went ahead of each step. ResNet-18:

{feeding}

With fewer threads than in the first column, the loader sets the pace, before and now. Bytes would be a quarter on the bus, which is
hidden already; crops that are scaled or coloured are computed in float (`src/data/augment.c`), and rounding them to bytes would
train another net than on the CPU.

Assumptions:

- Memory: 90 % of the published 3.35 TB/s; tensors of up to 34 MB stay in the second-level cache (5.5 TB/s).
- Convolutions: 45 % of the published 989 TFLOP/s where tiles of 128 x 128 fill the 132 multiprocessors, less where they do not,
  where there are fewer than 128 channels, or where 64 does not divide the depth; never faster than their bytes.
- 1.3 us from one node of the graph to the next.
- Of two kernels at the same time each takes what the other leaves idle of the card, and no more; {fork:.0f} us for a fork and
  its join.
- Of images on their way: 50 GB/s on PCIe 5, 10 GB/s of a thread that copies, 3 ms of a thread for a JPEG.
- {stop:.0f} us without work where the host waits for all that it has submitted, reads losses and begins anew.
"""


def padding():
    """Milliseconds of two passes that pad images, less those that writing the larger ones takes."""
    def less(batch):
        copy = Model.move(BF16 * batch * PIXELS * (IMAGE + CHANNELS), BF16 * batch * PIXELS * CHANNELS) + GAP
        return 2 * copy - Model.move(BF16 * batch * PIXELS * (CHANNELS - IMAGE))
    return " | ".join(f"{1e3 * less(batch):.3f}" for batch in (128, 512))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--built", type=pathlib.Path, default=ROOT / "build/float-shim-ref-address,undefined")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    built = args.built.resolve()
    layers = read_net(built / "darknet")
    models = {batch: Model(layers, batch).run() for batch in BATCHES}
    beside = " | ".join(f"{-1e3 * models[batch][BESIDE].seconds:.2f}" for batch in (128, 512))
    text = TEXT.format(table=report(models), padding=padding(), beside=beside, feeding=feeding(), fork=1e6 * FORK, window=WINDOW,
                       drain=1e3 * DRAIN / WINDOW, stop=1e6 * DRAIN)
    if not args.check:
        RESULT.write_text(text)
        return 0
    expected = {name: kernel.calls for name, kernel in models[512].items()}
    found = counted(built)
    wrong = [f"{name}: {expected.get(name, 0)} launches in the model, {found.get(name, 0):g} in the program"
             for name in sorted({*expected, *found} - {"call"}) if expected.get(name, 0) != found.get(name, 0)]
    if text != RESULT.read_text():
        wrong.append(f"{RESULT.relative_to(ROOT)} is not the model's: run tests/device/model.py")
    print("\n".join(wrong) or f"{sum(expected.values())} launches a step, in the model as in the program")
    return len(wrong) > 0


sys.exit(main())
