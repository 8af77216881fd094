#!/usr/bin/env python3
"""Random small nets, trained on the kernels of the GPU (on the host) and on ref: the same weights, whether losses are read
late or at once. Sums behind normalised convolutions, which the program folds, are what most of them are made of.

    nets.py [FIRST LAST]      seeds of the nets (0 30); GPU_HOST: a program built with GPU=host
"""
import array
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

IMAGES, SIDE = 60, 32
TOLERANCE = 1e-5  # of all weights together, relative: a few steps in float
WAYS = {"ref": ("-device", "ref"), "late": ("-device", "cuda"), "eager": ("-device", "cuda", "-eager")}


def make_data(folder):
    rng = random.Random(1)
    pixels = bytes(rng.randrange(256) for _ in range(IMAGES * 3 * SIDE * SIDE))
    (folder / "t-images-idx4").write_bytes(struct.pack(">4B4I", 0, 0, 8, 4, IMAGES, 3, SIDE, SIDE) + pixels)
    (folder / "t-labels-idx1").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, IMAGES) + bytes(i % 10 for i in range(IMAGES)))
    (folder / "net.data").write_text("classes=10\ntrain=t-images-idx4\nbackup=backup\n")


def section(name, **keys):
    return f"[{name}]\n" + "".join(f"{key}={value}\n" for key, value in keys.items())


def layer(rng, same):
    """A layer whose output has the shape of its input; `same`: the layers with that shape."""
    kind = rng.random()
    if kind < 0.5:
        return section("convolutional", filters=4, size=rng.choice((1, 3)), pad=1, groups=rng.choice((1, 1, 2, 4)),
                       batch_normalize=rng.choice((1, 1, 1, 0)), activation=rng.choice(("linear", "linear", "relu", "mish")))
    if kind < 0.85 and len(same) > 1:
        return section("shortcut", **{"from": rng.choice(same[:-1])}, alpha=rng.choice((1, 1, 1, 0.5)),
                       activation=rng.choice(("relu", "leaky", "linear", "mish", "logistic")))
    if kind < 0.92:
        return section("route", layers=rng.choice(same))
    return section("dropout", probability=0.2)


def make_net(seed):
    rng = random.Random(seed)
    net = section("net", batch=8, subdivisions=rng.choice((1, 2)), height=SIDE, width=SIDE, channels=3, learning_rate=0.02,
                  momentum=0.5, decay=0.001, max_batches=6, valid_every=0, pad_crop=2)
    net += section("convolutional", filters=4, size=3, stride=4, pad=1, batch_normalize=1, activation="relu")
    same = [0]
    for _ in range(rng.randrange(3, 9)):
        net += layer(rng, same)
        same.append(len(same))
    if rng.random() < 0.4:
        net += section("route", layers=f"{same[-1]},{rng.choice(same[:-1])}")
    net += section("avgpool")
    if rng.random() < 0.7:
        net += section("itra", **{"lambda": 0.5}, warmup=rng.choice(("auto", 0, 3)), root=rng.choice((0, 1)),
                       pair=rng.choice(("loader", "split", "memory")), every=rng.choice((1, 1, 2)),
                       gradient=rng.choice(("both", "first")))
    if rng.random() < 0.3:
        net += section("center", **{"lambda": 0.1})
    return net + section("connected", output=10, activation="linear") + "[softmax]\n"


def train(folder, way):
    """Exit status, the last line of stderr, and the weights (None: there are none)."""
    final = folder / "backup" / "net_final.weights"
    final.unlink(missing_ok=True)
    run = subprocess.run([os.environ["GPU_HOST"], "classifier", "train", "net.data", "net.cfg", *WAYS[way]], cwd=folder,
                         capture_output=True, text=True, check=False)
    last = run.stderr.strip().rsplit("\n", 1)[-1]
    return run.returncode, last, array.array("f", final.read_bytes()[20:]) if final.exists() else None


def difference(a, b):
    return (sum((x - y) ** 2 for x, y in zip(a, b)) / sum(x * x for x in a)) ** 0.5


def check(folder, seed):
    """Whether ref trains this net, and what is wrong with it, or None. What ref refuses the others must refuse too."""
    (folder / "net.cfg").write_text(make_net(seed))
    (status, _, want) = train(folder, "ref")
    for way in ("late", "eager"):
        code, last, got = train(folder, way)
        if code != status or (got is None) != (want is None):
            return True, f"{way}: exit status {code}, expected {status}: {last}"
        if want is not None and not difference(want, got) <= TOLERANCE:
            return True, f"{way}: weights differ by {difference(want, got):.1e}"
    return want is not None, None


def main():
    if not os.access(os.environ.get("GPU_HOST", ""), os.X_OK):
        print("skipped: no build with GPU=host\n0 passed, 0 failed, 1 skipped")
        return 0
    os.environ["GPU_HOST"] = os.path.abspath(os.environ["GPU_HOST"])
    first, last = (int(n) for n in sys.argv[1:3]) if len(sys.argv) > 2 else (0, 30)
    trained = failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_data(folder)
        for seed in range(first, last):
            trains, wrong = check(folder, seed)
            trained += trains
            failed += wrong is not None
            if wrong:
                print(f"net {seed}: {wrong}\n{make_net(seed)}")
    print(f"{trained - failed} passed, {failed} failed, 0 skipped")
    return failed != 0 or trained == 0


sys.exit(main())
