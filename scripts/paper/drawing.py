"""What the figures share: how they look, how they are saved, and how the files they are drawn from are read."""
from __future__ import annotations

import contextlib
import csv
import importlib
import io
import math
import os
import statistics
import sys
from pathlib import Path

from paper.runs import Problem, one_line

DPI, WIDTH = 150, 9  # 1350 pixels, made to be looked at 900 wide
SHADES = 128         # of a saved picture: keeps it small
# Okabe and Ito's colours, and for classes Tol's muted ones: apart for all kinds of colour vision.
LINES = ("#555555", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
CLASSES = ("#332288", "#88CCEE", "#CC6677", "#117733", "#DDCC77", "#882255", "#44AA99", "#999933", "#AA4499", "#777777")
MARKERS = "os^DvPX<>*"
MOST_NAMED = 20  # classes in a legend


# ---- drawing ----

def need(*modules: str) -> None:
    """Not at the top: --help does without them."""
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError:
            raise Problem(f"{name} is not installed for {sys.executable}: run scripts/deps.sh figures") from None


def panels(n: int, height: float, title: str | None):
    need("matplotlib")
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    plt.rcParams.update({"font.size": 9, "axes.titlesize": 10, "axes.spines.top": False, "axes.spines.right": False,
                         "axes.grid": True, "grid.color": "#e6e6e6", "axes.axisbelow": True, "legend.frameon": False,
                         "axes.edgecolor": "#666666", "lines.linewidth": 1.8, "text.parse_math": False})
    figure, axes = plt.subplots(1, n, figsize=(WIDTH, height), squeeze=False)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure, axes[0]


def shown_label(name: str) -> str:
    """Matplotlib leaves names that begin with _ out of legends."""
    return f" {name}" if name.startswith("_") else name


def from_zero(axis) -> None:
    axis.set_ylim(0, 1.04 * axis.get_ylim()[1])


def say_start(axis, label: str) -> None:
    """Labels the vertical axis, with where it starts if that is not 0."""
    low = axis.get_ylim()[0]
    axis.set_ylabel(label if low <= 0 else f"{label}  (axis from {low:.3g})")


def save(figure, path: Path, below: float = 0) -> None:
    """below: the share of the height that a legend under the panels takes."""
    from PIL import Image
    figure.tight_layout(rect=(0, below, 1, 1))
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI)
    picture = Image.open(drawn).convert("RGB").quantize(SHADES)
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    try:
        picture.save(temporary, format="png", optimize=True)
        temporary.replace(path)
    except OSError as e:
        raise Problem(f"{path}: cannot be written: {e.strerror}") from None
    finally:
        with contextlib.suppress(OSError):  # that there is no such folder has been said
            temporary.unlink()
    print(f"{path}: {picture.width} x {picture.height} pixels, {math.ceil(path.stat().st_size / 1000)} kB")


# ---- reading ----

def is_torn(text: str, rows: list[dict]) -> bool:
    """Whether the last line is not whole: its file is being written, or what wrote it was killed."""
    return bool(rows) and None in rows[-1].values() and not text.endswith(("\n", "\r"))


def read_csv(path: Path, columns: tuple[str, ...], whose: str) -> list[dict]:
    """Rows with `line`, the number of each for messages; without a last one that is torn."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as f:  # spreadsheets put a mark before the first column
            text = f.read()
        reader = csv.DictReader(io.StringIO(text, newline=""))
        missing = [c for c in columns if c not in (reader.fieldnames or [])]
        if missing:
            raise Problem(f"{path}: has no column {missing[0]}: expected {whose}")
        rows = [{**row, "line": reader.line_num} for row in reader]
    except (UnicodeDecodeError, csv.Error):
        raise Problem(f"{path}: is no CSV: expected {whose}") from None
    if is_torn(text, rows):
        print(one_line(f"figures: {path}:{rows.pop()['line']}: the last line is cut off and left out"), file=sys.stderr)
    for row in rows:
        if None in row or None in row.values():
            raise Problem(f"{path}:{row['line']}: {'more' if None in row else 'fewer'} fields than the header has")
    return rows


def number(path: Path, row: dict, column: str) -> float | None:
    """None where the field is empty."""
    text = row[column]
    try:
        if not text or math.isfinite(float(text)):
            return float(text) if text else None
    except ValueError:
        pass
    raise Problem(f"{path}:{row['line']}: {column} is '{text[:40]}': expected a number")


def read_npy(path: Path, kind: str, dimensions: int):
    import numpy as np
    try:
        x = np.load(path, allow_pickle=False)
    except OSError:
        raise
    except Exception:  # of many kinds, by what is wrong with the file
        raise Problem(f"{path}: is no complete .npy file") from None
    if not isinstance(x, np.ndarray) or x.ndim != dimensions or x.dtype.kind != kind or not np.isfinite(x).all():
        raise Problem(f"{path}: expected the {'features' if kind == 'f' else 'labels'} of darknet classifier features, "
                      f"{dimensions}-dimensional")
    return x


def read_features(path: Path):
    x, label = read_npy(path, "f", 2), read_npy(path.with_suffix(".labels.npy"), "i", 1)
    if len(x) != len(label):
        raise Problem(f"{path}: {len(x)} rows, but {len(label)} labels beside it: write both again")
    return x, label


def split_name(argument: str) -> tuple[str, Path]:
    """NAME=FILE, or a file alone, whose name is ''."""
    name, equals, rest = argument.partition("=")
    named = equals and "/" not in name and not Path(argument).exists()
    return (name, Path(rest)) if named else ("", Path(argument))


def mean_and_spread(values: list[float]) -> tuple[float, float]:
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0
