"""One run is one folder: what it consists of, how it is started, continued and finished.

results/TABLE/SCALE-RECIPE/CELL/seed-S/ holds net.cfg, train.data, test.data, command, run.json (settings, written
before anything is trained), log and stderr of training, metrics.csv, test.log, backup/, and, last of all,
result.json: a run that has one is finished. All of it can be written again from run.json and the trainer's state, so
that it does not matter when anything was killed.
"""
from __future__ import annotations

import argparse
import contextlib
import csv
import ctypes
import fcntl
import hashlib
import json
import math
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, NoReturn

from paper.tables import FETCH, LITERAL, Block, Cell, Setup, Table

ROOT = Path(__file__).resolve().parents[2]
DATA_KEYS = ("train_limit", "holdout", "label_noise")  # of training alone; in the results' column data
TIMING_SKIP = 16  # iterations until caches and clocks have settled


class Problem(Exception):
    """What the user is told in one line."""


def one_line(text: str) -> str:
    """Names may hold line breaks."""
    return "?".join(text.splitlines())


def reason(e: Exception) -> str:
    if isinstance(e, OSError):
        return f"{e.filename or 'output'}: {e.strerror}"
    return str(e)


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the command line as everything else: in one line, with status 1."""

    def error(self, message: str) -> NoReturn:
        self.exit(1, one_line(f"{self.prog}: {message} (see --help)") + "\n")


# ---- what to run ----

@dataclass(frozen=True)
class Run:
    table: str
    scale: str
    recipe: str
    cell: Cell
    setup: Setup
    seed: int
    folder: Path
    timing: bool
    sets: tuple[str, ...]
    data_keys: tuple[tuple[str, str], ...]

    def count(self, key: str) -> int:
        return int(dict(s.split("=", 1) for s in (*self.setup.schedule.length(), *self.sets))[key])

    @property
    def iterations(self) -> int:
        return self.count("net.max_batches")

    @property
    def seconds(self) -> float:
        """Estimate of its training time."""
        return self.iterations * self.count("net.batch") / self.setup.speed * self.cell.cost

    @property
    def name(self) -> str:
        return f"{self.cell.name} seed {self.seed}"


def read_cfg(name: str) -> str:
    path = ROOT / "cfg" / f"{name}.cfg"
    try:
        return path.read_text()
    except OSError as e:
        raise Problem(f"cfg/{name}.cfg: {e.strerror}") from None


def cell_name(table: Table, scale: str, block: Block, name: str) -> str:
    return f"{block.name}-{name}" if len(table.at(scale)) > 1 else name


def table_cells(table: Table, scale: str, recipe: str) -> list[tuple[Block, Cell]]:
    """The cells of a table under the names that their folders have."""
    return [(b, Cell(cell_name(table, scale, b, c.name), c.sets, c.paper, c.cost))
            for b in table.at(scale) for c in b.cells(scale, recipe)]


def extra_cells(table: Table, scale: str, recipe: str, name: str, sets: list[str]) -> list[tuple[Block, Cell]]:
    """A setting that the table does not have: the recipe's own, and `sets`."""
    for text in sets:
        if not re.fullmatch(r"\w+\.\w+=.*", text):
            raise Problem(f"--set {text}: expected SECTION.KEY=VALUE")
        if re.match(r"net\.(batch|max_batches)=(?!0*[1-9]\d*$)", text):  # 0: a run without an end
            raise Problem(f"--set {text}: expected a whole number, from 1 on")
    if not re.fullmatch(r"[\w+-][\w.+-]*", name):
        raise Problem(f"--name {name}: expected letters, digits and .+-_: it becomes the name of a folder")
    literal = [f"itra.{k}={v}" for k, v in LITERAL.items()] if recipe == "paper" else []
    cells = [(b, Cell(cell_name(table, scale, b, name), (*literal, *sets), (), 2)) for b in table.at(scale)]
    taken = {c.name for _, c in table_cells(table, scale, recipe)}
    for _, cell in cells:
        if cell.name in taken:
            raise Problem(f"--name {name}: {table.name} has a cell {cell.name} of its own; give another name")
    return cells


def plan(table: Table, scale: str, recipe: str, cells: list[tuple[Block, Cell]], only: str, seeds: int,
         results: Path) -> list[Run]:
    """Seed by seed, so that whatever is finished when work stops is a table."""
    picked = [(b, c) for b, c in cells if fnmatchcase(c.name, only)]
    if not picked:
        names = ", ".join(c.name for _, c in cells)
        raise Problem(f"--only {only}: fits no cell of {table.name} ({names})")
    return [make_run(table, scale, recipe, b.setups[scale], c, s, results) for s in range(1, seeds + 1)
            for b, c in picked]


def make_run(table: Table, scale: str, recipe: str, setup: Setup, cell: Cell, seed: int, results: Path) -> Run:
    literal = setup.schedule.literal() if recipe == "paper" and not table.timing else ()
    values = dict(s.split("=", 1) for s in (*setup.sets, *literal, *cell.sets))  # of one key the last counts
    data = {k.removeprefix("data."): v for k, v in values.items() if k.startswith("data.")}
    sets = tuple(f"{k}={v}" for k, v in values.items() if not k.startswith("data."))
    return Run(table.name, scale, recipe, cell, setup, seed,
               results / table.name / f"{scale}-{recipe}" / cell.name / f"seed-{seed}", table.timing, sets,
               (*setup.data_keys, *data.items()))


# ---- its files ----

def write_whole(path: Path, text: str) -> None:
    """Either the old text or the new one is there, whatever happens."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        with open(temporary, "w", encoding="utf-8", errors="surrogateescape") as f:  # paths may be no UTF-8
            f.write(text)
            f.flush()
            os.fsync(f.fileno())
        temporary.replace(path)
    except OSError as e:  # of a full disk it does not say which file
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise OSError(e.errno, e.strerror, str(path)) from None


def read_json(path: Path) -> dict:
    """Empty where there is none, or something else."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


NUMBER, MAYBE_NUMBER, MAYBE_DICT = (int, float), (int, float, type(None)), (dict, type(None))
RESULT = {"table": str, "scale": str, "recipe": str, "cell": str, "seed": int, "started": str, "commits": list,
          "settings": dict, "settings_hash": str, "iterations": int, "seconds": NUMBER, "train_ce": NUMBER,
          "collapsed": bool, "step_seconds": MAYBE_NUMBER, "test": MAYBE_DICT, "holdout": MAYBE_DICT}
SETTINGS = {"cfg": str, "cfg_hash": str, "set": list, "data": dict}
TEST = {"top1": NUMBER, "ce": NUMBER, "compactness": MAYBE_NUMBER, "same_distance": MAYBE_NUMBER}
HOLDOUT = {"top1": MAYBE_NUMBER, "ce": MAYBE_NUMBER, "compactness": MAYBE_NUMBER}
COMMIT = {"commit": str, "dirty": bool}


def fits(value: object, kinds: dict) -> bool:
    return isinstance(value, dict) and all(k in value and isinstance(value[k], kinds[k]) and is_small(value[k])
                                           for k in kinds)


def is_small(value: object) -> bool:
    """JSON has integers that no float can hold."""
    return not isinstance(value, int) or abs(value) < 2**63


def read_result(folder: Path) -> dict | None:
    """None where the run is not finished. A damaged file, or one of another program, is as good as none."""
    r = read_json(folder / "result.json")
    whole = (fits(r, RESULT) and fits(r["settings"], SETTINGS) and r["commits"]
             and all(isinstance(s, str) for s in r["settings"]["set"])
             and all(fits(c, COMMIT) for c in r["commits"]) and (r["test"] is None or fits(r["test"], TEST))
             and (r["holdout"] is None or fits(r["holdout"], HOLDOUT))
             and (r["test"] or r["step_seconds"] is not None))
    return r if whole else None


def is_of(result: dict, folder: Path) -> bool:
    """False for a copy of another run: two copies would count as two seeds."""
    return (folder.parent.name, folder.name) == (result["cell"], f"seed-{result['seed']}")


def shown(path: Path) -> str:
    """As a command run from the root of the repository names it."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def data_keys(name: str) -> dict[str, str]:
    path = ROOT / "data" / f"{name}.data"
    try:
        lines = path.read_text().splitlines()
    except OSError as e:
        raise Problem(f"data/{name}.data: {e.strerror}; {FETCH[name]} gets the data") from None
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.lstrip().startswith(("#", ";")))
    return {k.strip(): v.strip() for k, v in pairs}


def data_of(run: Run, testing: bool) -> dict[str, str]:
    """The .data of training, or that of the test: the whole test set, nothing held out."""
    keys = {**data_keys(run.setup.data), **dict(run.data_keys)}
    if testing:
        keys = {k: v for k, v in keys.items() if k not in DATA_KEYS}
    return {**{k: v for k, v in keys.items() if v}, "backup": shown(run.folder / "backup")}


def check_data(run: Run) -> None:
    keys = data_of(run, False)
    for key in ("train", "valid"):
        for path in filter(None, keys.get(key, "").split(",")):
            if not (ROOT / path.strip()).exists():
                raise Problem(f"data/{run.setup.data}.data: {key}={path} is not there; {FETCH[run.setup.data]} gets it")
    if not run.timing and "valid" not in keys:
        raise Problem(f"data/{run.setup.data}.data: no valid=, which names the test set")


def bare(cfg: str) -> str:
    """A cfg without what does not count."""
    return "\n".join(s for s in (line.strip() for line in cfg.splitlines()) if s and s[0] not in "#;")


def cfg_hash(name: str) -> str:
    return hashlib.sha256(bare(read_cfg(name)).encode()).hexdigest()[:12]


def settings_of(run: Run) -> dict:
    """All that a result depends on, besides the program."""
    data = {k: v for k, v in data_of(run, False).items() if k not in ("backup", "names")}
    return {"cfg": run.setup.cfg, "cfg_hash": cfg_hash(run.setup.cfg), "set": list(run.sets), "data": data,
            "seed": run.seed}


def settings_hash(settings: dict) -> str:
    """The same for every seed of a cell."""
    text = json.dumps({k: v for k, v in settings.items() if k != "seed"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def commit_of() -> dict:
    def git(*words: str) -> str:
        r = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
        return r.stdout.strip() if r.returncode == 0 else ""
    try:
        return {"commit": git("rev-parse", "--short=10", "HEAD") or "unknown",
                "dirty": bool(git("status", "--porcelain", "-uno"))}
    except OSError:
        return {"commit": "unknown", "dirty": False}


@dataclass(frozen=True)
class Program:
    path: str
    threads: int
    commit: dict

    def train(self, run: Run) -> list[str]:
        f = run.folder
        return [*self.words("train", run, "train.data"), "-seed", str(run.seed), "-metrics", shown(f / "metrics.csv")]

    def test(self, run: Run) -> list[str]:
        words = self.words("valid", run, "test.data")
        words.insert(5, shown(run.folder / "backup" / "net_final.weights"))
        return words

    def words(self, command: str, run: Run, data: str) -> list[str]:
        sets = [w for s in run.sets for w in ("-set", s)]
        return [self.path, "classifier", command, shown(run.folder / data), shown(run.folder / "net.cfg"), *sets,
                "-threads", str(self.threads), "-workers", str(self.threads)]

    def stages(self, run: Run) -> list[str]:
        return ["train"] if run.timing else ["train", "test"]

    def script(self, run: Run) -> str:
        commands = [self.train(run)] if run.timing else [self.train(run), self.test(run)]
        return "# from the root of the repository\n" + "".join(shlex.join(c) + "\n" for c in commands)


def prepare(run: Run, program: Program) -> bool:
    """Leaves the folder as training needs it; True when there is a state to go on from."""
    f = run.folder
    settings = settings_of(run)
    before = read_json(f / "run.json")
    if before.get("settings") != settings or not isinstance(before.get("commits"), list):
        clear(f)
        before = {"settings": settings, "table": run.table, "scale": run.scale, "recipe": run.recipe,
                  "cell": run.cell.name, "started": now(), "commits": []}
    write_whole(f / "net.cfg", read_cfg(run.setup.cfg))
    for name, testing in (("train.data", False), ("test.data", True)):
        write_whole(f / name, "".join(f"{k}={v}\n" for k, v in data_of(run, testing).items()))
    write_whole(f / "command", program.script(run))
    if program.commit not in before["commits"]:
        before["commits"].append(program.commit)
    write_whole(f / "run.json", json.dumps(before, indent=1) + "\n")
    (f / "failed").unlink(missing_ok=True)
    if (f / "backup" / "net_last.state").exists():
        return True
    for name in ("log", "stderr", "metrics.csv"):
        (f / name).unlink(missing_ok=True)
    shutil.rmtree(f / "backup", ignore_errors=True)
    return False


def clear(folder: Path) -> None:
    """run.json first: without it whatever is left counts for nothing."""
    (folder / "run.json").unlink(missing_ok=True)
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "lock":
            path.unlink()


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


# ---- what came out ----

def step_seconds(log: Path) -> dict[int, tuple[float, bool]]:
    """Seconds of each iteration with its loading, and whether a match took part in it. What a kill made the trainer
    repeat counts once."""
    loading, steps = 0.0, {}
    step = re.compile(r"(\d+), [\d.]+: .* rate, ([\d.]+) seconds, \d+ images(.*)")
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith("Loaded: "):
            loading = float(line.split()[1])
        elif m := step.match(line):
            steps[int(m[1])] = (loading + float(m[2]), "match" in m[3])
    return steps


def typical_step(steps: dict[int, tuple[float, bool]]) -> float:
    """Medians of the iterations with and without a match, each weighted by how often it comes."""
    late = [v for k, v in steps.items() if k > TIMING_SKIP]
    kinds = [[s for s, matched in late if matched is kind] for kind in (True, False)]
    if not late:
        raise Problem(f"the log has no iteration after number {TIMING_SKIP}")
    return sum(statistics.median(k) * len(k) / len(late) for k in kinds if k)


def test_result(log: Path) -> dict:
    line = log.read_text(errors="replace").rstrip().rsplit("\n", 1)[-1]
    found = re.match(r"(\d+) images: top 1: ([\d.]+), .*?CE: (\S+?),(?: compactness: ([\d.]+) \(same-class distance "
                     r"([\d.]+)\))?", line)
    if not found:
        raise Problem(f"{log.name} does not end with a summary but with '{line[:80]}'")
    images, top1, ce, compactness, distance = found.groups()
    return {"images": int(images), "top1": float(top1), "ce": float(ce),
            "compactness": float(compactness) if compactness else None,
            "same_distance": float(distance) if distance else None}


def validated_on(log: Path) -> int:
    """Images of the validation set, 0 if there was none."""
    counts = re.findall(r"(?m)^validation .* seconds, (\d+) images", log.read_text(errors="replace"))
    return int(counts[-1]) if counts else 0


def number(text: str) -> float | None:
    return float(text) if text else None


def metrics_of(run: Run) -> tuple[list[dict], list[dict]]:
    """The rows of iterations and of validations. That none is missing matters: after a power cut the trainer's state
    may be there without the last of them."""
    with open(run.folder / "metrics.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    train = [r for r in rows if r["kind"] == "train"]
    valid = [r for r in rows if r["kind"] == "valid"]
    last = run.iterations
    if [int(r["iteration"]) for r in train] != list(range(1, last + 1)):
        raise ValueError(f"not each of the iterations 1 to {last} has its row")
    if valid and int(valid[-1]["iteration"]) != last:
        raise ValueError(f"no validation after iteration {last}")
    return train, valid


def training_result(run: Run, data: dict) -> dict:
    """From the metrics and the log. What was validated on counts as the holdout only if it has as many images."""
    train, valid = metrics_of(run)
    steps = step_seconds(run.folder / "log")
    last = [float(r["ce"]) for r in train if float(r["epoch"]) > float(train[-1]["epoch"]) - 1]
    ce = statistics.fmean(last)
    columns = {"top1": "top1", "ce": "valid_ce", "compactness": "compactness"}
    held = valid and int(data.get("holdout", 0)) == validated_on(run.folder / "log") != 0
    holdout = {k: number(valid[-1][c]) for k, c in columns.items()} if held else None
    return {"iterations": int(train[-1]["iteration"]), "train_ce": ce, "holdout": holdout,
            "seconds": round(sum(s for s, _ in steps.values()), 1),
            # As the trainer judges: no better than guessing.
            "collapsed": ce >= .99 * math.log(int(data["classes"])),
            "step_seconds": typical_step(steps) if run.timing else None}


def finish(run: Run) -> dict:
    """Reads what the stages left and writes result.json."""
    before = read_json(run.folder / "run.json")
    try:
        trained = training_result(run, before["settings"]["data"])
    except (KeyError, TypeError, ValueError, csv.Error) as e:
        raise Problem(f"metrics.csv is damaged ({e})") from None
    result = {**before, "seed": run.seed, "settings_hash": settings_hash(before["settings"]), "ended": now(), **trained,
              "test": None if run.timing else test_result(run.folder / "test.log")}
    write_whole(run.folder / "result.json", json.dumps(result, indent=1) + "\n")
    return result


# ---- one run in the making ----

def die_with_parent() -> None:
    """In the child: SIGTERM when the script dies, which the trainer takes as a request to save and end."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def take_lock(folder: Path) -> IO | None:
    """The trainer inherits it: the folder is taken until the last of them has ended."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = open(folder / "lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return lock
    except OSError:
        lock.close()
        return None


def last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
    return lines[-1] if lines else ""


@dataclass
class Job:
    """Training, then the test, one process after the other. Holds the folder's lock."""
    run: Run
    program: Program
    lock: IO
    resumed: bool = False
    started: float = field(default_factory=time.monotonic)
    stages: list[str] = field(default_factory=list)
    process: subprocess.Popen | None = None
    result: dict | None = None
    error: str = ""

    def start(self) -> None:
        try:
            self.resumed = prepare(self.run, self.program)
            self.stages = self.program.stages(self.run)
            self.next_stage()
        except OSError as e:
            self.fail(reason(e))

    def next_stage(self) -> None:
        if self.stages.pop(0) == "train":
            words = self.program.train(self.run)
            words += ["-resume", shown(self.run.folder / "backup" / "net_last.state")] if self.resumed else []
            self.spawn(words, "log", "a")
        else:
            self.spawn(self.program.test(self.run), "test.log", "w")

    def spawn(self, words: list[str], out: str, mode: str) -> None:
        f = self.run.folder
        with open(f / out, mode) as stdout, open(f / "stderr", "a") as stderr:
            self.process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                                            start_new_session=True, preexec_fn=die_with_parent,
                                            pass_fds=[self.lock.fileno()])

    def poll(self) -> bool:
        """True when nothing is left to do: then there is a result or an error."""
        if self.error:
            return True
        status = self.process.poll()
        if status is None:
            return False
        try:
            self.check(status)
            if self.stages:
                self.next_stage()
                return False
            self.result = finish(self.run)
        except (Problem, OSError, KeyError, ValueError) as e:
            self.fail(reason(e) + self.advice(status))
        self.lock.close()
        return True

    def advice(self, status: int) -> str:
        """Where what an earlier attempt left may be what is wrong: it would be at the next one, too."""
        if status < 0 or (status and not self.resumed):
            return ""
        return f" (if it comes again: remove {shown(self.run.folder)} to run it from the start)"

    def check(self, status: int) -> None:
        if status < 0:
            raise Problem(f"killed by {signal.Signals(-status).name}")
        if status:
            raise Problem(f"exit status {status}: {last_line(self.run.folder / 'stderr')}")

    def fail(self, error: str) -> None:
        self.error = error
        with contextlib.suppress(OSError):  # the disk may be what failed
            write_whole(self.run.folder / "failed", error + "\n")
        self.lock.close()

    def end(self, limit: float, hurry: Callable[[], bool]) -> None:
        """Waits for the process that was asked to end; kills it after `limit`, or in a hurry."""
        while self.process and self.process.poll() is None:
            if hurry() or time.monotonic() > limit:
                self.process.kill()
            time.sleep(.02)
        self.lock.close()
