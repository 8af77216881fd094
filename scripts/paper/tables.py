"""What the paper reports, and the runs that reproduce it. Facts and arithmetic only; nothing here runs anything.

A table has blocks (a network on a data set), a block has cells (a method with its strength). A cell is a handful of
`-set` overrides of the block's one cfg, so that two cells differ in nothing else.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

SCALES = ("small", "full")
RECIPES = ("ours", "paper")
LAMBDAS = (".2", ".4", ".6", ".8", "1")

# Where the paper leaves no choice, or its text implies the plainest one; every other choice is the cfg's.
LITERAL = {"warmup": "0", "root": "1", "gradient": "both", "pair": "loader", "match": "random", "bandwidth": "median",
           "average": "all", "every": "1"}

# What fetches the files that data/NAME.data names.
FETCH = {"fmnist": "scripts/get-fmnist.sh", "kmnist": "scripts/get-kmnist.sh", "qmnist": "scripts/get-qmnist.sh",
         "cifar10": "scripts/get-cifar10.sh", "cifar100": "scripts/get-cifar100.sh", "stl10": "scripts/get-stl10.sh",
         "imagenet": "scripts/get-imagenet.sh"}

# Test accuracy in % and CE. Center loss and ITRA at the strengths that PAPER_STRENGTH lists.
PAPER = {
    "fmnist": {"baseline": (92.43, .294), "smooth": (92.47, .292), "center": (92.10, .263), "itra": (92.57, .224)},
    "kmnist": {"baseline": (95.57, .183), "smooth": (95.60, .181), "center": (94.90, .214), "itra": (95.79, .170)},
    "cifar10-resnet18": {"baseline": (92.99, .40), "smooth": (92.73, .42), "center": (92.30, .35),
                         "itra": (93.70, .27)},
    "cifar10-vgg13": {"baseline": (92.49, .47), "smooth": (92.53, .46), "center": (92.11, .38), "itra": (92.72, .33)},
    "cifar10-mobilenetv2": {"baseline": (88.55, .62), "smooth": (88.77, .61), "center": (88.81, .53),
                            "itra": (89.37, .43)},
    "stl10-resnet18": {"baseline": (70.88, 1.63), "smooth": (71.08, 1.55), "center": (70.97, 1.10),
                       "itra": (72.78, 1.05)},
    "stl10-vgg13": {"baseline": (74.40, 1.55), "smooth": (74.50, 1.51), "center": (74.04, 1.16), "itra": (75.80, .93)},
    "stl10-mobilenetv2": {"baseline": (59.09, 2.14), "smooth": (59.01, 2.12), "center": (58.24, 1.46),
                          "itra": (62.02, 1.60)},
    "cifar100-resnet18": {"baseline": (74.19, 1.05), "smooth": (74.21, 1.04), "center": (73.98, .98),
                          "itra": (74.88, .97)},
    "cifar100-vgg13": {"baseline": (71.72, 1.46), "smooth": (71.75, 1.43), "center": (71.65, 1.31),
                       "itra": (72.55, 1.22)},
    "cifar100-mobilenetv2": {"baseline": (66.42, 1.57), "smooth": (66.60, 1.55), "center": (66.39, 1.51),
                             "itra": (67.23, 1.49)},
}
# Label smoothing and center loss are .1 everywhere but in the tables of batch sizes; the lambda of ITRA varies.
PAPER_LAMBDA = {"fmnist": ".6", "kmnist": ".8", "cifar10-resnet18": ".8", "cifar10-vgg13": ".8",
                "cifar10-mobilenetv2": "1", "stl10-resnet18": ".6", "stl10-vgg13": ".8", "stl10-mobilenetv2": ".6",
                "cifar100-resnet18": ".6", "cifar100-vgg13": ".6", "cifar100-mobilenetv2": ".6"}
# By batch size: baseline, center .05, ITRA .6.
PAPER_BATCHES = {
    "cifar100-resnet101": {"baseline": {200: (75.85, 1.04)}, "center": {200: (75.23, 1.05)},
                           "itra": {50: (75.97, 1.01), 100: (77.35, 1.01), 200: (76.85, .94)}},
    "imagenet-resnet18": {"baseline": {256: (50.01, 2.24)}, "center": {256: (51.83, 2.21)},
                          "itra": {64: (51.32, 2.19), 128: (51.69, 2.17), 256: (53.13, 2.07)}},
}
# Training time of ITRA relative to the baseline.
PAPER_TIME = {"cifar100-resnet101": 1.075, "imagenet-resnet50": 1.039}


@dataclass(frozen=True)
class Schedule:
    """The paper's schedule, in epochs."""
    images: int
    batch: int
    epochs: int
    rate: str
    drops: tuple[int, ...]  # epochs at which the rate is multiplied by factor
    factor: str
    decay: str = "0"

    def iterations(self, epochs: int) -> int:
        return round(epochs * self.images / self.batch)

    def length(self) -> tuple[str, ...]:
        """Batch size, drops and end, for a cfg whose own batch size is another."""
        steps = ",".join(str(self.iterations(d)) for d in self.drops)
        return (f"net.batch={self.batch}", f"net.steps={steps}", f"net.max_batches={self.iterations(self.epochs)}")

    def literal(self) -> tuple[str, ...]:
        scales = ",".join(self.factor for _ in self.drops)
        return (f"net.learning_rate={self.rate}", "net.momentum=.5", f"net.decay={self.decay}", "net.policy=steps",
                f"net.scales={scales}", *self.length())


@dataclass(frozen=True)
class Setup:
    """How one network is trained on one data set at one scale."""
    cfg: str   # cfg/NAME.cfg
    data: str  # data/NAME.data
    schedule: Schedule
    speed: float  # training images a second without [itra], about, on 2 cores: for estimates
    sets: tuple[str, ...] = ()
    data_keys: tuple[tuple[str, str], ...] = ()  # into the .data file of training


@dataclass(frozen=True)
class Cell:
    name: str
    sets: tuple[str, ...]
    paper: tuple[float, ...] = ()  # accuracy in %, CE; of a table of times: the ratio
    cost: float = 1  # seconds, relative to the same iterations of the baseline


@dataclass(frozen=True)
class Block:
    name: str
    setups: dict[str, Setup]  # by scale
    cells: Callable[[str, str], list[Cell]]  # of scale and recipe


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    blocks: tuple[Block, ...]
    timing: bool = False

    def scales(self) -> list[str]:
        return [s for s in SCALES if self.at(s)]

    def at(self, scale: str) -> list[Block]:
        return [b for b in self.blocks if scale in b.setups]


# ---- cells ----

def baseline(paper: tuple[float, ...] = ()) -> Cell:
    return Cell("baseline", ("itra.lambda=0",), paper)


def smooth(strength: float, classes: int, paper: tuple[float, ...] = ()) -> Cell:
    """The paper gives every class strength/K; label_smooth_eps is shared by the K-1 wrong ones."""
    eps = strength * (classes - 1) / classes
    return Cell(f"smooth-{strength:g}", ("itra.lambda=0", f"net.label_smooth_eps={eps:.6g}"), paper)


def center(strength: str, paper: tuple[float, ...] = (), **keys: str) -> Cell:
    name = f"center-{float(strength):g}" + "".join(f"-{k}{v}" for k, v in keys.items())
    sets = ("itra.lambda=0", f"center.lambda={strength}", *(f"center.{k}={v}" for k, v in keys.items()))
    return Cell(name, sets, paper, 1.02)


def itra(strength: str, recipe: str, paper: tuple[float, ...] = (), **keys: str) -> Cell:
    """With the settings of the cfg, but for `keys`; with the paper's when the recipe says so."""
    name = f"itra-{float(strength):g}"
    name += "".join(f"-{k}{v}" for k, v in keys.items())
    settings = {**(LITERAL if recipe == "paper" else {}), **keys}
    sets = (f"itra.lambda={strength}", *(f"itra.{k}={v}" for k, v in settings.items()))
    return Cell(name, sets, paper, 2)


def method_cells(block: str, classes: int, lambdas: tuple[str, ...] = ()) -> Callable[[str, str], list[Cell]]:
    """Baseline, label smoothing, center loss, and ITRA at the paper's lambda or at each of `lambdas`."""
    paper, chosen = PAPER[block], PAPER_LAMBDA[block]

    def cells(_scale: str, recipe: str) -> list[Cell]:
        return [baseline(paper["baseline"]), smooth(.1, classes, paper["smooth"]), center(".1", paper["center"]),
                *(itra(v, recipe, paper["itra"] if v == chosen else ()) for v in lambdas or (chosen,))]
    return cells


# Other ways to pair, to measure and to pay, one at a time.
MODES = ({"pair": "split"}, {"pair": "memory"}, {"every": "16"}, {"gradient": "first"}, {"bandwidth": "pooled"},
         {"match": "class"}, {"conditional": "0"})


def grid_cells(block: str) -> Callable[[str, str], list[Cell]]:
    """At small scale with our recipe also every root and warmup, to choose from, and every mode with the root and at
    the setting chosen; otherwise as in the paper."""
    paper, chosen = PAPER[block], PAPER_LAMBDA[block]
    full = method_cells(block, 10, LAMBDAS)

    def cells(scale: str, recipe: str) -> list[Cell]:
        if scale == "full":
            return full(scale, recipe)
        plain = [baseline(paper["baseline"]), smooth(.1, 10, paper["smooth"]), center(".05"),
                 center(".1", paper["center"])]
        if recipe == "paper":
            return plain + [itra(v, recipe, paper["itra"] if v == chosen else ()) for v in LAMBDAS]
        softly = [center(s, warmup="auto") for s in (".05", ".1")]
        grid = [itra(v, recipe, paper["itra"] if v == chosen else (), root=root, warmup=warmup)
                for warmup in ("auto", "0") for root in "10" for v in LAMBDAS]
        modes = [itra(v, recipe, root=root, warmup="auto", **mode) for v, root in ((".8", "1"), (".4", "0"))
                 for mode in MODES]
        return plain + softly + grid[:2 * len(LAMBDAS)] + modes + grid[2 * len(LAMBDAS):]
    return cells


def lambda_cells(_scale: str, recipe: str) -> list[Cell]:
    return [baseline(), *(itra(v, recipe) for v in LAMBDAS)]


def lenet_cells(_scale: str, recipe: str) -> list[Cell]:
    return [baseline(), *(itra(v, recipe) for v in (".2", ".6", "1"))]


# Ways to make the pull fade, or to know better what it pulls, one at a time.
REMEDIES = ({"fade": "rate"}, {"estimate": "unbiased"}, {"match": "class"}, {"pair": "memory"},
            {"unconditional": "200"})
STRONG = (".4", ".8", "2", "4", "8")  # beyond the paper's lambdas, as the rate falls early here


def recipe_cells(_scale: str, recipe: str) -> list[Cell]:
    """What is in use, then every remedy at two strengths; with the root, whose pull does not fade by itself, one."""
    return [baseline(), smooth(.1, 10), *(itra(v, recipe, root="0") for v in STRONG),
            *(itra(v, recipe, root="0", **r) for v in (".8", ".4") for r in REMEDIES),
            *(itra(v, recipe, root="1", **f) for f in ({}, {"fade": "rate"}) for v in (".4", ".8"))]


def scarce_cells(_scale: str, recipe: str) -> list[Cell]:
    return [baseline(), smooth(.1, 10), *(itra(v, recipe, root="0") for v in STRONG)]


def batch_cells(block: str, schedule: Schedule, batches: tuple[int, ...]) -> Callable[[str, str], list[Cell]]:
    paper = PAPER_BATCHES[block]

    def at(cell: Cell, method: str, batch: int) -> Cell:
        """The same number of epochs: fewer images a step, more steps."""
        return Cell(f"{cell.name}-batch{batch}", (*cell.sets, *replace(schedule, batch=batch).length()),
                    paper[method].get(batch, ()), cell.cost)

    def cells(_scale: str, recipe: str) -> list[Cell]:
        methods = {"baseline": baseline(), "center": center(".05"), "itra": itra(".6", recipe)}
        return [at(cell, method, b) for b in batches for method, cell in methods.items()]
    return cells


def time_cells(block: str) -> Callable[[str, str], list[Cell]]:
    """What each way of pairing costs. warmup=0: the matching loss is at work from the first iteration on."""
    def mode(name: str, cost: float, paper: tuple[float, ...] = (), **keys: str) -> Cell:
        keys = {**LITERAL, **keys}
        return Cell(name, ("itra.lambda=.2", *(f"itra.{k}={v}" for k, v in keys.items())), paper, cost)

    def cells(_scale: str, _recipe: str) -> list[Cell]:
        ratio = (PAPER_TIME[block],) if block in PAPER_TIME else ()
        return [baseline(), mode("loader-both", 2, ratio), mode("loader-first", 1.35, gradient="first"),
                mode("loader-every2", 1.5, every="2"), mode("loader-every4", 1.25, every="4"),
                mode("loader-every16", 1.06, every="16"), mode("split-both", 1, pair="split"),
                mode("split-first", 1, pair="split", gradient="first"),
                mode("memory", 1, pair="memory", gradient="first")]
    return cells


# ---- setups ----

MNIST = Schedule(60000, 150, 50, ".01", (20, 40), ".2")
SMALL_MNIST = Schedule(5000, 150, 30, ".01", (20,), ".2")
CIFAR10 = Schedule(50000, 150, 150, ".5", (50, 100), ".1")
CIFAR100 = Schedule(50000, 200, 150, ".5", (50, 100), ".1", "5e-4")
STL10 = Schedule(5000, 150, 150, ".5", (50, 100), ".1")
IMAGENET = Schedule(1281167, 256, 45, ".2", (15, 30), ".1")
# 5,000 images to train on, 5,000 others of the training file to validate on.
FEW = (("train_limit", "5000"), ("holdout", "5000"))
HOLDOUT = (("holdout", "5000"),)
SELDOM = ("net.valid_every=5",)
# The rate of cfg/demo.cfg never falls, and the LeNet-like net's is for many more iterations.
SHORT_DEMO = Schedule(5000, 150, 25, ".05", (10, 20), ".2")
SHORT_LENET = Schedule(5000, 150, 30, ".05", (12, 24), ".2")
KMNIST_PIXELS = ("net.mean=.192", "net.std=.348")
# Images/s of training, two threads, one machine (README.md, "Measured"): the order of magnitude is what counts.
SPEED = {"conv5-quarter": 1300, "demo": 6000, "conv5": 190, "lenet": 7000, "resnet18": 133, "vgg13": 360,
         "mobilenetv2": 200, "resnet101": 22, "imagenet-resnet18": 20, "imagenet-resnet50": 8}


def few(data: str, sets: tuple[str, ...] = ()) -> Setup:
    return Setup("fmnist-conv5-quarter", data, SMALL_MNIST, SPEED["conv5-quarter"], (*SELDOM, *sets), FEW)


def full(data: str, net: str, schedule: Schedule, data_keys: tuple[tuple[str, str], ...] = ()) -> Setup:
    speed = SPEED.get(f"{data}-{net}") or SPEED[net]
    return Setup(f"{data}-{net}", data, schedule, speed, (), data_keys)


def short(net: str, schedule: Schedule, speed: float, *sets: str) -> Setup:
    """The paper's drops, at 40 and 80 % of a short training, and a rate with which the baseline fits its images."""
    scales = ",".join(schedule.factor for _ in schedule.drops)
    sets = (f"net.learning_rate={schedule.rate}", "net.policy=steps", f"net.scales={scales}", *schedule.length(), *sets)
    return Setup(net, "fmnist", schedule, speed, (*SELDOM, *sets), FEW)


def scarce(images: int, noise: int = 0) -> Setup:
    """Few images are seen more often than many, though fewer times in all: 300 iterations against 834."""
    schedule = SHORT_DEMO if images == 5000 else Schedule(images, 150, 45000 // images, ".05",
                                                          (18000 // images, 36000 // images), ".2")
    wrong = (("label_noise", str(noise)),) if noise else ()
    return replace(short("demo", schedule, SPEED["demo"]), data_keys=(("train_limit", str(images)), *HOLDOUT, *wrong))


def timed(setup: Setup, *sets: str) -> Setup:
    """So many iterations that every=16 has two pairs beside the ones that do not count; nothing to validate on."""
    return replace(setup, sets=(*sets, "net.max_batches=48", "net.valid_every=0"), data_keys=(("valid", ""),))


def image_table(data: str, title: str, classes: int, schedule: Schedule) -> Table:
    return Table(data, title, tuple(
        Block(net, {"full": full(data, net, schedule)}, method_cells(f"{data}-{net}", classes))
        for net in ("resnet18", "vgg13", "mobilenetv2")))


def batch_table(name: str, title: str, data: str, net: str, schedule: Schedule, batches: tuple[int, ...]) -> Table:
    cells = batch_cells(f"{data}-{net}", schedule, batches)
    return Table(name, title, (Block(net, {"full": full(data, net, schedule)}, cells),))


# For a net for CIFAR on the images of Fashion-MNIST.
GREY = ("net.channels=1", "net.width=28", "net.height=28", "net.mean=.286", "net.std=.353")

TABLES = {t.name: t for t in (
    Table("fmnist", "Fashion-MNIST, five-convolution net (small: a quarter of its width)", (
        Block("fmnist", {"small": few("fmnist"), "full": full("fmnist", "conv5", MNIST)}, grid_cells("fmnist")),)),
    Table("kmnist", "KMNIST, five-convolution net (small: a quarter of its width)", (
        Block("kmnist", {"small": few("kmnist", KMNIST_PIXELS), "full": full("kmnist", "conv5", MNIST)},
              grid_cells("kmnist")),)),
    Table("lenet", "Fashion-MNIST, LeNet-like net (the paper's first trials)", (
        Block("lenet", {"full": full("fmnist", "lenet", MNIST)}, lenet_cells),)),
    image_table("cifar10", "CIFAR-10", 10, CIFAR10),
    image_table("stl10", "STL-10 at 32x32", 10, STL10),
    image_table("cifar100", "CIFAR-100", 100, CIFAR100),
    Table("lambda", "CE for each lambda, chosen on 5,000 images held out", (
        Block("fmnist", {"small": few("fmnist"), "full": full("fmnist", "conv5", MNIST, HOLDOUT)}, lambda_cells),)),
    Table("recipe", "Fashion-MNIST, few images: ways to make ITRA win on two small nets", (
        Block("demo", {"small": short("demo", SHORT_DEMO, SPEED["demo"])}, recipe_cells),
        Block("lenet", {"small": short("fmnist-lenet", SHORT_LENET, SPEED["lenet"], "net.momentum=.9")},
              recipe_cells))),
    Table("scarce", "Fashion-MNIST, wrong labels (20 %) and very few images", (
        Block("noisy", {"small": scarce(5000, 20)}, scarce_cells),
        Block("n500", {"small": scarce(500)}, scarce_cells),
        Block("n1000", {"small": scarce(1000)}, scarce_cells))),
    batch_table("resnet101", "CIFAR-100, ResNet-101, by batch size", "cifar100", "resnet101", CIFAR100, (50, 100, 200)),
    batch_table("imagenet", "ImageNet, ResNet-18, by batch size", "imagenet", "resnet18", IMAGENET, (64, 128, 256)),
    Table("time", "Time of a training step, relative to the baseline's", (
        Block("conv5", {"small": timed(few("fmnist"))}, time_cells("fmnist-conv5")),
        Block("resnet18", {"small": timed(replace(full("cifar10", "resnet18", CIFAR10), data="fmnist"), *GREY)},
              time_cells("cifar10-resnet18")),
        Block("resnet101", {"full": timed(full("cifar100", "resnet101", CIFAR100))}, time_cells("cifar100-resnet101")),
        Block("resnet50", {"full": timed(full("imagenet", "resnet50", IMAGENET))}, time_cells("imagenet-resnet50")),
    ), timing=True),
)}
