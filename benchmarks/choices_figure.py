"""The figure of who is ahead where, of the tables in ``docs/choices.md`` that ``benchmarks/choices.py`` printed.

Run ``python benchmarks/choices_figure.py``, which writes ``docs/choices.png``.  Each model has a line; a mark is the
seconds from a fresh process to the draws of the quickest method of its kind whose answer is right: no mean and no outer
quantile off by more than 0.3 posterior standard deviations.  Where no method of a kind is right its quickest one has a
hollow mark, and one that had not finished an arrow.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt

DOCS = Path(__file__).resolve().parents[1] / "docs"
KINDS = {
    "this package": ("`MHSS`", "`PenaltyMH`", "`GroupMH`", "`ExactMH`"),
    "NUTS": ("nutpie", "PyMC NUTS", "NumPyro NUTS"),
    "Laplace approximation": ("Laplace", "Laplace, Hessian"),
    "minibatch ADVI": ("ADVI, minibatches",),
}
RIGHT = 0.3


class Run(NamedTuple):
    """What a method took, and whether it was right; none for what had not finished."""

    seconds: float
    right: bool | None


def number(cell: str) -> float:
    return float(cell.replace(",", "")) if cell else float("nan")


def runs(table: str) -> dict[str, Run]:
    """Return the runs of a table, by method."""
    found = {}
    for line in table.splitlines()[2:]:
        method, seconds, draws, _, _, largest, *_, tails, said = (cell.strip() for cell in line.strip("|").split(" |"))
        if seconds and largest:
            error = max(number(largest), number(tails))
            found[method] = Run(number(draws or seconds), error <= RIGHT)
        elif limit := re.match(r"not finished after (\d+) s", said):
            found[method] = Run(float(limit[1]), None)
    return found


def best(found: dict[str, Run], methods: tuple[str, ...]) -> Run | None:
    """Return the quickest run that is right, else the quickest wrong one, else one that had not finished."""
    rank = {True: 0, False: 1, None: 2}
    of = [found[method] for method in methods if method in found]
    return min(of, key=lambda run: (rank[run.right], run.seconds), default=None)


def main() -> None:
    text = (DOCS / "choices.md").read_text()
    stored = re.findall(r":::\{dropdown\} (.+)\n```\{include\} (\S+)", text)
    tables = [(name, (DOCS / path).read_text().partition("\n\n")[2]) for name, path in stored]
    plt.rcParams["font.size"] = 12
    fig, ax = plt.subplots(figsize=(7.5, 6), layout="constrained")
    for k, (kind, methods) in enumerate(KINDS.items()):
        ax.plot([], [], "o", color=f"C{k}", label=kind, ms=9)
        for y, (_, table) in enumerate(tables):
            if run := best(runs(table), methods):
                marker, fill = (">", "none") if run.right is None else ("o", f"C{k}" if run.right else "none")
                at = y + 0.12 * (k - 1.5)
                ax.plot(run.seconds, at, marker, ms=9, color=f"C{k}", markerfacecolor=fill, markeredgewidth=1.8)
    hollow = {"color": "gray", "markerfacecolor": "none", "markeredgewidth": 1.8, "ms": 9}
    ax.plot([], [], "o", label=f"wrong by more than {RIGHT} sd", **hollow)
    ax.plot([], [], ">", label="not finished", **hollow)
    ax.set_yticks(range(len(tables)), [name for name, _ in tables])
    ax.set_xscale("log")
    ax.set_xticks(ticks := [5, 10, 20, 50, 100, 200, 500], list(map(str, ticks)))
    ax.minorticks_off()
    ax.invert_yaxis()
    ax.grid(axis="x", lw=0.5)
    ax.set_xlabel("seconds from a fresh process to the draws, one core")
    fig.legend(loc="outside lower center", ncols=3, frameon=False)
    fig.savefig(DOCS / "choices.png", dpi=100)


if __name__ == "__main__":
    main()
