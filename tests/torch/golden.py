"""Training steps in PyTorch, for replay.c to take through us; README.md says what is compared and how closely.

    golden.py write [NAME...]     writes ref/NAME.txt or cpu/NAME.txt, which `make test` reads; default: all of them
    golden.py live [NAME...]      runs build/*/tests/torch/replay on those files and compares every tensor in full
"""
import math
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy
import torch
from torch import nn
from torch.nn import functional as F

import formula
import nets

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RATE, MOMENTUM, DECAY = .05, .5, .01
OUTPUT_ERROR = {"fp32": 1e-3, "bf16": 5e-2}
PACE = .1  # of running statistics: PyTorch's momentum, bn_momentum= in the cfgs

PLAIN = dict(folder="cfg", subdivisions=1, update=True, decay=DECAY, smooth=0, itra=None, center=0, sets=(),
             bf16=False)


def case(cfg, net, shape, rows, passes, **others):
    return SimpleNamespace(**{**PLAIN, **others}, cfg=cfg, net=net, shape=shape, rows=rows, passes=passes)


def matched(root, gradient):
    """Few classes, so that pairs form; a lambda that gives the match as much weight as the CE has with these parameters;
    no decay, so that an update is the gradient times the rate."""
    return case("cifar10-resnet18", nets.resnet18, (3, 16, 16), 4, 1, labels=2, decay=0,
                itra=SimpleNamespace(weight=100, root=root, first=gradient == "first"),
                sets=("itra.lambda=100", "itra.warmup=0", f"itra.root={root}", f"itra.gradient={gradient}"))


def public(cfg, net, *sets):
    return case(cfg, net, (3, 64, 64), 4, 1, labels=1000, folder="tests/zoo",
                sets=("net.bn_momentum=.1", "net.burn_in=0", "net.policy=constant", *sets))


# Images are small where `ref` has to convolve them: six loops in double.
CASES = {
    "resnet18": case("cifar10-resnet18", nets.resnet18, (3, 16, 16), 4, 2, labels=10),
    "vgg13": case("cifar10-vgg13", nets.vgg13, (3, 32, 32), 4, 2, labels=10),
    "mobilenetv2": case("cifar10-mobilenetv2", nets.mobilenetv2, (3, 16, 16), 4, 2, labels=10),
    "resnet101": case("cifar100-resnet101", nets.resnet101, (3, 16, 16), 2, 2, labels=100),
    "itra-root": matched(1, "both"),
    "itra-squared": matched(0, "both"),
    "itra-first": matched(1, "first"),
    # Four values a channel in the last stage, one pixel each: larger images would take `ref` longer.
    "efficientnet-b0": public("efficientnet_b0", nets.efficientnet_b0, "dropout.probability=0"),
    "csdarknet53-elastic": public("csdarknet53-elastic", nets.csdarknet53_elastic),
    "geometry": case("geometry", nets.geometry, (3, 48, 48), 4, 2, labels=10, folder="tests/torch"),
    # The paper's smoothing of .1 is label_smooth_eps = .1 (K-1)/K.
    "smooth": case("fmnist-lenet", nets.lenet, (1, 28, 28), 8, 3, labels=10, smooth=.1,
                   sets=("net.label_smooth_eps=.09",)),
    # Centers start at 0 and move after each update: from the second on they tell. Two passes an update.
    "center": case("fmnist-lenet", nets.lenet, (1, 28, 28), 6, 8, labels=4, subdivisions=2, center=.3,
                   sets=("center.lambda=.3",)),
    # Gradients in float, and in bfloat16 where that leaves something of them: in MobileNetV2 the error is as large as
    # the gradient. An odd number of passes, for the median.
    "lenet-float": case("fmnist-lenet", nets.lenet, (1, 28, 28), 8, 15, labels=10, update=False, bf16=True),
    "resnet18-float": case("cifar10-resnet18", nets.resnet18, (3, 32, 32), 2, 15, labels=10, update=False, bf16=True),
    "vgg13-float": case("cifar10-vgg13", nets.vgg13, (3, 32, 32), 4, 15, labels=10, update=False, bf16=True),
    "mobilenetv2-float": case("cifar10-mobilenetv2", nets.mobilenetv2, (3, 32, 32), 4, 15, labels=10, update=False),
    "resnet101-float": case("cifar100-resnet101", nets.resnet101, (3, 16, 16), 4, 5, labels=100, update=False),
}


def path_of(name, c):
    return os.path.join(HERE, "ref" if c.update else "cpu", name + ".txt")


def overrides(c):
    """The cfg with this case's sizes and settings; [itra] only where the case is about it."""
    sets = [f"net.batch={c.rows * c.subdivisions}", f"net.subdivisions={c.subdivisions}", f"net.height={c.shape[1]}",
            f"net.width={c.shape[2]}", f"net.learning_rate={RATE}", f"net.momentum={MOMENTUM}", f"net.decay={c.decay}"]
    return sets + ([] if c.itra or c.folder != "cfg" else ["itra.lambda=0"]) + list(c.sets)


# ---- the parameters, in the order of the .weights file --------------------------------------------------------------


class Parameter:
    def __init__(self, name, tensor, low, high):
        self.name, self.tensor, self.low, self.high = name, tensor, low, high
        self.decays = name.endswith("weight") and tensor.dim() > 1

    def initial(self, index):
        return formula.uniform(formula.PARAMETER, index, self.tensor.numel(), self.low, self.high)

    def numbers(self):
        return self.tensor.detach().double().numpy().ravel().copy()

    def gradient(self):
        return self.tensor.grad.double().numpy().ravel().copy()


def layer_parameters(name, layer, norm_name, norm):
    """Of a convolution or connected layer, and of the batch normalisation behind it: sizes keep activations near 1."""
    a = math.sqrt(6 / layer.weight[0].numel())
    weight = Parameter(name + ".weight", layer.weight, -a, a)
    if not norm:
        return [Parameter(name + ".bias", layer.bias, -.5, .5), weight]
    return [Parameter(norm_name + ".bias", norm.bias, -.5, .5), Parameter(norm_name + ".weight", norm.weight, .5, 1.5),
            Parameter(norm_name + ".mean", norm.running_mean, -.5, .5),
            Parameter(norm_name + ".var", norm.running_var, .5, 2), weight]


def parameters(net, centers):
    found, modules = [], [m for m in net.named_modules() if not list(m[1].children())]
    for (name, layer), (norm_name, norm) in zip(modules, modules[1:] + [("", None)]):
        if layer is net.classifier and centers:
            found += [Parameter(f"center.{k}", t, 0, 0) for k, t in vars(centers).items()]
        if isinstance(layer, (nn.Conv2d, nn.Linear, nets.Local)):
            found += layer_parameters(name, layer, norm_name, norm if isinstance(norm, nn.BatchNorm2d) else None)
    return found


# ---- losses ---------------------------------------------------------------------------------------------------------


def median(values):
    """Of an even number of values the mean of the middle two, which torch.median does not take."""
    s = values.sort().values
    return (s[(len(s) - 1) // 2] + s[len(s) // 2]) / 2


def match(h1, label1, h2, label2, classes, root):
    """The conditional matching loss of [itra] with its default settings: five kernels, a median per class."""
    total = h1.new_zeros(())
    for k in range(classes):
        a, b = h1[label1 == k], h2[label2 == k]
        if not len(a) or not len(b):
            continue
        pool = torch.cat([a, b])
        d2 = (pool[:, None] - pool[None]).pow(2).sum(-1)
        i, j = torch.triu_indices(len(pool), len(pool), 1)
        s = median(d2[i, j].detach())
        kernel = sum(torch.exp(-d2 / (2 ** n * s)) for n in range(5)) / 5
        n1 = len(a)
        q = kernel[:n1, :n1].mean() + kernel[n1:, n1:].mean() - 2 * kernel[:n1, n1:].mean()
        total = total + (torch.sqrt(q.clamp(min=0) + 1e-6) - 1e-3 if root else q.clamp(min=0))
    return total / classes


def norms(net):
    return [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]


def two_features(net, x, m, first):
    """Two forward passes, each with its own batch statistics; the running ones move once, towards their mean."""
    before = [(n.running_mean.clone(), n.running_var.clone()) for n in norms(net)]
    batch = []
    for n in norms(net):
        n.momentum = 1
    h1 = net.features(x[:m])
    batch.append([(n.running_mean.clone(), n.running_var.clone()) for n in norms(net)])
    with torch.set_grad_enabled(not first):
        h2 = net.features(x[m:])
    batch.append([(n.running_mean.clone(), n.running_var.clone()) for n in norms(net)])
    for n, old, one, two in zip(norms(net), before, *batch):
        n.running_mean.data.copy_(old[0] + PACE * ((one[0] + two[0]) / 2 - old[0]))
        n.running_var.data.copy_(old[1] + PACE * ((one[1] + two[1]) / 2 - old[1]))
    return h1, h2


def losses(c, net, centers, x, label):
    """Output, total loss, and what replay.c compares: the CE, and the others before their weight, NaN where not used."""
    m = c.rows
    if c.itra:
        h, h2 = two_features(net, x, m, c.itra.first)
    else:
        h = net.features(x)
    out = net.classifier(h)
    ce = F.cross_entropy(out, label[:m], label_smoothing=c.smooth)
    total, aligned, pulled = ce, torch.tensor(math.nan), torch.tensor(math.nan)
    if c.itra:
        aligned = match(h, label[:m], h2, label[m:], out.shape[1], c.itra.root)
        total = total + c.itra.weight * aligned
    if centers:
        apart = h - centers.centers[label]
        pulled = apart.pow(2).sum() / (2 * m)
        total = total + c.center * pulled
        centers.sum.index_add_(0, label, -apart.detach())
        centers.count.index_add_(0, label, torch.ones(m, dtype=h.dtype))
    return out, total, (ce.item(), aligned.item(), pulled.item())


def move(centers):
    """Once an update: c_j -= alpha sum (c_j - h) / (1 + n_j), alpha = .5."""
    centers.centers -= .5 * centers.sum / (1 + centers.count[:, None])
    centers.sum.zero_()
    centers.count.zero_()


# ---- a run ----------------------------------------------------------------------------------------------------------


def images(c, k, dtype):
    rows = 2 * c.rows if c.itra else c.rows
    x = formula.uniform(formula.INPUT, k, rows * math.prod(c.shape), -1.7, 1.7).reshape(rows, *c.shape)
    label = (formula.bits(formula.LABEL, k, rows) % numpy.uint64(c.labels)).astype(numpy.int64)
    return torch.from_numpy(x).to(dtype), torch.from_numpy(label)


def run(c, dtype, bf16=False):
    """The passes of a case, with autocast to bfloat16 if asked for. Of each: losses, output and, where the weights stay, the gradients by name; at the end what
    all parameters have become."""
    net = c.net().to(dtype).train()
    centers = None
    if c.center:
        size = (net.classifier.out_features, net.classifier.in_features)
        centers = SimpleNamespace(centers=torch.zeros(size, dtype=dtype), sum=torch.zeros(size, dtype=dtype),
                                  count=torch.zeros(size[0], dtype=dtype))
    every = parameters(net, centers)
    for index, p in enumerate(every):
        with torch.no_grad():
            p.tensor.copy_(torch.from_numpy(p.initial(index)).reshape(p.tensor.shape))
    learnt = [p for p in every if p.tensor.requires_grad]
    optimiser = torch.optim.SGD([{"params": [p.tensor for p in learnt if p.decays], "weight_decay": c.decay},
                                 {"params": [p.tensor for p in learnt if not p.decays]}], lr=RATE, momentum=MOMENTUM)
    passes = []
    for k in range(c.passes):
        begins = k % c.subdivisions == 0
        if begins:
            optimiser.zero_grad()
        if centers and begins:  # of the step before, as [center] does it: only then are they needed
            move(centers)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            out, total, parts = losses(c, net, centers, *images(c, k, dtype))
        (total / c.subdivisions).backward()
        passes.append(SimpleNamespace(parts=parts, out=out.detach().double().numpy().ravel(), gradient={}))
        if not c.update:
            passes[-1].gradient = {p.name: p.gradient() for p in learnt}
        elif (k + 1) % c.subdivisions == 0:
            optimiser.step()
    return passes, every


# ---- what is written ------------------------------------------------------------------------------------------------


def text(values, digits="17g"):
    return " ".join(f"{v:.{digits}}" for v in values)


def updates(every):
    """Of each parameter: what the updates changed, and the measure of an error in it. That is its norm; where there is no
    change but rounding (a bias that the next batch normalisation takes off again), the norm of the parameter."""
    for index, p in enumerate(every):
        now, start = p.numbers(), p.initial(index)
        norm, size = numpy.linalg.norm(now - start), numpy.linalg.norm(now)
        yield p, now - start, norm if norm > 1e-12 * size else size


def gradient_norms(passes):
    """By name, of the first pass; without those that are 0 but for rounding."""
    norm = {name: numpy.linalg.norm(g) for name, g in passes[0].gradient.items()}
    most = max(norm.values())
    return {name: n for name, n in norm.items() if n > 1e-12 * most}


def gradient_error(ours, theirs, norm):
    """Root of the mean over the parameters of their squared errors, each over the norm above."""
    return math.sqrt(sum(numpy.linalg.norm(ours[k] - theirs[k]) ** 2 / n ** 2 for k, n in norm.items()) / len(norm))


def gradient_projection(gradient, norm, every):
    """Of all gradients, so scaled that the squared difference of two projections is expected to be the error above,
    squared."""
    total = numpy.zeros(formula.PROJECTIONS)
    for index, p in enumerate(every):
        if p.name in norm:
            total += formula.project(gradient[p.name] / norm[p.name], index)
    return total / math.sqrt(len(norm))


def parameter_line(p, rest):
    return f"param {p.name} {p.tensor.numel()} {p.low:.17g} {p.high:.17g} {rest}"


def lines_updates(passes, every):
    for p, change, norm in updates(every):
        index = every.index(p)
        yield parameter_line(p, f"{norm:.17g} {text(formula.project(change, index) / norm, '12f')}")


def lines_gradients(c, passes, every):
    norm = gradient_norms(passes)
    for p in every:
        yield parameter_line(p, f"{norm.get(p.name, 0):.17g}")
    for double, *rounded in zip(passes, run(c, torch.float32)[0], run(c, torch.float32, bf16=True)[0]):
        theirs = [gradient_error(r.gradient, double.gradient, norm) for r in rounded]
        theirs[1] = theirs[1] if c.bf16 else math.nan
        yield f"gradient {text(theirs, '3g')} {text(gradient_projection(double.gradient, norm, every), '12f')}"


def write(name, c):
    passes, every = run(c, torch.float64)
    lines = [f"# {name}: by golden.py, PyTorch {torch.__version__}", f"cfg {c.folder}/{c.cfg}.cfg"]
    lines += [f"set {s}" for s in overrides(c)] + [f"labels {c.labels}", f"update {int(c.update)}"]
    digits = "17g" if c.update else "10g"
    lines += [f"pass {text(p.parts)} {text(p.out, digits)}" for p in passes]
    lines += lines_updates(passes, every) if c.update else lines_gradients(c, passes, every)
    with open(path_of(name, c), "w") as f:
        f.write("\n".join(lines) + "\n")


# ---- every tensor in full -------------------------------------------------------------------------------------------


def dumped(build, precision, path):
    """By name, what replay.c writes."""
    command = [os.path.join(ROOT, "build", build, "tests/torch/replay"), "dump", precision, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as ours:
        found = {}
        for line in iter(ours.stdout.readline, b""):
            n, name = line.decode().split(" ", 1)
            found[name.strip()] = numpy.frombuffer(ours.stdout.read(8 * int(n)))
    if ours.returncode:
        sys.exit(f"golden.py: replay ended with status {ours.returncode}")
    return found


def relative(ours, theirs, norm=None):
    return numpy.linalg.norm(ours - theirs) / (norm or numpy.linalg.norm(theirs))


def live_updates(ours, every):
    errors = {p.name: relative(ours["update " + p.name], change, norm) for p, change, norm in updates(every)}
    worst = max(errors, key=errors.get)
    return f"{len(errors)} parameters, worst update {errors[worst]:.1e} ({worst})", errors[worst] <= 1e-8


def live_gradients(ours, c, passes, bf16):
    norm, errors = gradient_norms(passes), []
    for k, (double, single) in enumerate(zip(passes, run(c, torch.float32, bf16)[0])):
        mine = {name: ours[f"gradient {k} {name}"] for name in norm}
        errors.append([gradient_error(g, double.gradient, norm) for g in (mine, single.gradient)])
    mine, theirs = numpy.median(errors, axis=0)
    return f"gradient error {mine:.1e}, PyTorch's {theirs:.1e}, ratio {mine / theirs:.2f}", mine <= 3 * theirs


def live_in(precision, name, c, passes, every):
    ours = dumped("double-ref" if c.update else "float", precision, path_of(name, c))
    out = max(relative(ours[f"out {k}"], p.out) for k, p in enumerate(passes))
    said, good = live_updates(ours, every) if c.update else live_gradients(ours, c, passes, precision == "bf16")
    good = good and out <= (1e-8 if c.update else OUTPUT_ERROR[precision])
    print(f"{'ok' if good else 'FAIL':4}  {name:18} {precision}: outputs {out:.1e}, {said}", flush=True)
    return good


def live(name, c):
    passes, every = run(c, torch.float64)
    return all([live_in(p, name, c, passes, every) for p in ["fp32"] + ["bf16"] * c.bf16])


def main():
    modes = {"write": write, "live": live}
    if len(sys.argv) < 2 or sys.argv[1] not in modes or any(name not in CASES for name in sys.argv[2:]):
        sys.exit(f"{__doc__}\nNAME: {' '.join(CASES)}")
    torch.set_num_threads(1)
    done = [modes[sys.argv[1]](name, CASES[name]) for name in sys.argv[2:] or CASES]
    sys.exit(False in done)


if __name__ == "__main__":
    main()
