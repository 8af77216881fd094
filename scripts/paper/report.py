"""Results as Markdown, ours beside the paper's, and as CSV. Runs of another scale or recipe, or of one cell with other
settings, never share a row."""
from __future__ import annotations

import csv
import io
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from paper.runs import DATA_KEYS, Problem, Run, cfg_hash, data_keys, is_of, make_run, read_result, table_cells
from paper.tables import RECIPES, SCALES, Cell, Table

COLUMNS = ("table", "scale", "recipe", "cell", "seed", "commit", "started", "iterations", "seconds", "test_top1",
           "test_ce", "compactness", "same_distance", "holdout_top1", "holdout_ce", "holdout_compactness", "train_ce",
           "collapsed", "step_seconds", "cfg", "cfg_hash", "set", "data")
ACCURACY_HEAD = ("", "seeds", "top-1, %", "CE", "paper: top-1, CE", "holdout: top-1, %", "holdout: CE", "compactness",
                 "collapsed")
TIME_HEAD = ("", "seeds", "ms a step", "against baseline", "paper")


@dataclass
class Group:
    """What there is of one table at one scale with one recipe."""
    table: Table
    scale: str
    recipe: str
    results: list[dict] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)  # "CELL seed S", with the error if there was one

    def names(self) -> dict[str, str]:
        return {"table": self.table.name, "scale": self.scale, "recipe": self.recipe}


def collect(results: Path, table: Table, scale: str, recipe: str) -> Group:
    group = Group(table, scale, recipe)
    for folder in sorted((results / table.name / f"{scale}-{recipe}").glob("*/seed-*"), key=by_seed):
        result = read_result(folder)
        if result and is_of(result, folder) and all(result[k] == v for k, v in group.names().items()):
            group.results.append(result)
        elif result:
            group.unfinished.append(f"{folder.parent.name} {folder.name} (result.json is a copy of that of another run)")
        elif (folder / "run.json").exists():
            failed = folder / "failed"
            damaged = " (result.json is damaged)" if (folder / "result.json").exists() else ""
            error = f" (failed: {failed.read_text(errors='replace').strip()})" if failed.is_file() else damaged
            group.unfinished.append(f"{folder.parent.name} seed {folder.name.removeprefix('seed-')}{error}")
    return group


def by_seed(folder: Path) -> tuple[str, int]:
    number = folder.name.removeprefix("seed-")
    return folder.parent.name, int(number) if number.isdigit() else 0


def groups(results: Path, tables: list[Table], scales: list[str], recipes: list[str]) -> list[Group]:
    found = [collect(results, t, s, r) for t in tables for s in scales for r in recipes]
    found = [g for g in found if g.results or g.unfinished]
    if not found:
        raise Problem(f"{results}: no run of {', '.join(t.name for t in tables)} yet")
    return found


# ---- rows ----

def spread(values: list[float | None], digits: int) -> str:
    """Mean +- sample standard deviation."""
    known = [v for v in values if v is not None]
    if not known:
        return "-"
    text = f"{statistics.fmean(known):.{digits}f}"
    return text + (f" +- {statistics.stdev(known):.{digits}f}" if len(known) > 1 else "")


def percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def accuracy_row(name: str, cell: Cell | None, results: list[dict]) -> list[str]:
    test = [r["test"] for r in results]
    held = [r["holdout"] or {} for r in results]
    paper = f"{cell.paper[0]:.2f}, {cell.paper[1]:.3g}" if cell and cell.paper else "-"
    collapsed = sum(r["collapsed"] for r in results)
    return [name, str(len(results)), spread([percent(t["top1"]) for t in test], 2), spread([t["ce"] for t in test], 3),
            paper, spread([percent(h.get("top1")) for h in held], 2), spread([h.get("ce") for h in held], 3),
            spread([t["compactness"] for t in test], 3), f"{collapsed} of {len(results)}" if results else "-"]


def time_row(name: str, cell: Cell | None, results: list[dict], baselines: dict[tuple[str, int], float]) -> list[str]:
    """Ratios to the baseline of the same net and seed: the two ran one soon after the other."""
    block = next((b for b in sorted({b for b, _ in baselines}, key=len, reverse=True) if name.startswith(b)), None)
    pairs = [(r["step_seconds"], baselines.get((block, r["seed"]))) for r in results]
    return [name, str(len(results)), spread([1000 * r["step_seconds"] for r in results], 1),
            spread([s / b if b else None for s, b in pairs], 3), f"{cell.paper[0]:.3f}" if cell and cell.paper else "-"]


def baseline_steps(group: Group) -> dict[tuple[str, int], float]:
    """By the net's part of the cell's name, and seed."""
    return {(r["cell"].removesuffix("baseline"), r["seed"]): r["step_seconds"] for r in group.results
            if r["cell"].endswith("baseline")}


def rows_of(group: Group, cell: Cell | None, name: str) -> list[list[str]]:
    """One row, or one for each setting that the runs of this name had; what was set, if it is no cell of the table."""
    by_settings = defaultdict(list)
    for r in group.results:
        if r["cell"] == name:
            by_settings[r["settings_hash"]].append(r)
    baselines = baseline_steps(group) if group.table.timing else {}
    rows = []
    for key, results in by_settings.items() or [("", [])]:
        row = time_row(name, cell, results, baselines) if group.table.timing else accuracy_row(name, cell, results)
        if len(by_settings) > 1:
            row[0] += f" (settings {key})"
        if cell and any(differs(group, cell, r) for r in results):
            row[0] += " *"
        rows.append(row if cell else [*row, own_settings(group, results[0]["settings"])])
    return rows


def differs(group: Group, cell: Cell, result: dict) -> bool:
    """Whether the cfg, or the table, has changed since this run."""
    run = present_run(group, cell)
    settings = result["settings"]
    return settings["set"] != list(run.sets) or settings["cfg_hash"] != cfg_hash(run.setup.cfg)


def present_run(group: Group, cell: Cell) -> Run:
    block = next(b for b, c in table_cells(group.table, group.scale, group.recipe) if c.name == cell.name)
    return make_run(group.table, group.scale, group.recipe, block.setups[group.scale], cell, 1, Path())


# ---- Markdown ----

def line(cells: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"


def grid(head: tuple[str, ...], rows: list[list[str]]) -> list[str]:
    return [line(head), line(["---"] * len(head)), *(line(r) for r in rows)]


def setup_lines(group: Group) -> list[str]:
    """What all cells of a net have in common."""
    lines = []
    for block in group.table.at(group.scale):
        s = block.setups[group.scale]
        words = [f"`{w}`" for w in (*(f"{k}={v}" for k, v in s.data_keys if v), *s.sets)]
        lines.append(", ".join([f"{block.name}: `cfg/{s.cfg}.cfg`", f"`data/{s.data}.data`", *words]))
    return lines


def commits(group: Group) -> str:
    seen = {c["commit"] + (" with local changes" if c["dirty"] else "") for r in group.results for c in r["commits"]}
    return ", ".join(sorted(seen))


def own_settings(group: Group, settings: dict) -> str:
    """In what an extra cell differs from the others of its table."""
    setups = [b.setups[group.scale] for b in group.table.at(group.scale)]
    setup = next((s for s in setups if s.cfg == settings["cfg"]), None)
    if not setup:  # the table had another cfg then
        return f"`cfg/{settings['cfg']}.cfg` " + " ".join(f"`{w}`" for w in settings["set"])
    keys = {**data_keys(setup.data), **dict(setup.data_keys)}
    changed = [f"data.{k}={v}" for k, v in settings["data"].items() if keys.get(k) != v]
    return " ".join(f"`{w}`" for w in (*settings["set"], *changed) if w not in setup.sets)


def markdown(group: Group) -> str:
    head = TIME_HEAD if group.table.timing else ACCURACY_HEAD
    cells = [c for _, c in table_cells(group.table, group.scale, group.recipe)]
    rows = [row for c in cells for row in rows_of(group, c, c.name)]
    out = [f"## {group.table.name}, scale {group.scale}, recipe {group.recipe}: {group.table.title}", "",
           *(f"- {s}" for s in setup_lines(group)), ""]
    if not group.table.timing:
        out += ["Test set, weights of the last epoch, mean +- standard deviation over the seeds."
                + (" The paper's numbers are for all of the data." if group.scale == "small" else ""), ""]
    out += grid(head, rows)
    if any(r[0].endswith(" *") for r in rows):
        out += ["", "\\* run before the cfg, or the table, got its present settings"]
    extra = sorted({r["cell"] for r in group.results} - {c.name for c in cells})
    if extra:
        others = [row for name in extra for row in rows_of(group, None, name)]
        out += ["", "Other settings:", "", *grid((*head, "settings"), others)]
    if group.unfinished:
        out += ["", "Not finished: " + "; ".join(group.unfinished)]
    if group.results:
        out += ["", f"Commit: {commits(group)}"]
    return "\n".join(out) + "\n"


# ---- CSV ----

def record(result: dict) -> dict:
    """One run as a flat row; paths, which are this machine's own, stay out."""
    settings, test, held = result["settings"], result["test"] or {}, result["holdout"] or {}
    first = result["commits"][0]
    return {**{k: result[k] for k in ("table", "scale", "recipe", "cell", "seed", "started", "iterations", "seconds")},
            "commit": first["commit"] + ("+" if first["dirty"] else ""), "test_top1": test.get("top1"),
            "test_ce": test.get("ce"), "compactness": test.get("compactness"),
            "same_distance": test.get("same_distance"), "holdout_top1": held.get("top1"), "holdout_ce": held.get("ce"),
            "holdout_compactness": held.get("compactness"), "train_ce": f"{result['train_ce']:.6f}",
            "collapsed": int(result["collapsed"]), "step_seconds": result["step_seconds"], "cfg": settings["cfg"],
            "cfg_hash": settings["cfg_hash"], "set": " ".join(settings["set"]),
            "data": " ".join(f"{k}={v}" for k, v in settings["data"].items() if k in DATA_KEYS)}


def as_csv(found: list[Group]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(record(r) for g in found for r in g.results)
    return out.getvalue()


def report(results: Path, tables: list[Table], scale: str | None, recipe: str | None, want_csv: bool) -> str:
    found = groups(results, tables, [scale] if scale else list(SCALES), [recipe] if recipe else list(RECIPES))
    return as_csv(found) if want_csv else "\n".join(markdown(g) for g in found)
