"""Random PyMC models as programs: a seed gives the text of one, which runs by itself."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field

import numpy as np
from outcomes import LATER, OUTCOMES

HEAD = """\
import os, tempfile
import numpy as np, pandas as pd, pymc as pm, pytensor, pytensor.tensor as pt, pytensor.sparse as ps
from scipy import sparse
rng = np.random.default_rng({seed})
n = {n}
order = np.arange(n)
dot = pt.dot

def mapped(a):
    handle, path = tempfile.mkstemp(suffix=".npy")
    os.close(handle)
    np.save(path, a)
    return np.load(path, mmap_mode="r")
"""
REORDERED = ("order = np.arange(n)", "order = np.random.default_rng(1).permutation(n)")
REPEATED = ("order = np.arange(n)", "order = np.random.default_rng(2).integers(0, n // 3, 2 * n)")
SPARSE = ("dot = pt.dot", "dot = lambda X, b: ps.dot(sparse.csr_matrix(np.asarray(X)), b)")

#: The first seed of programs that may have outcomes of all kinds.
_WITH_LATER = 1_000


@dataclass(frozen=True)
class Program:
    """A model as text.

    Attributes
    ----------
    seed : int
    source : str
    splits : bool
        Whether its rows are independent given the parameters; where they are tied together it must be refused.
    sparse : bool
        Whether it has a product that may be one of a sparse matrix.
    """

    seed: int
    source: str
    splits: bool
    sparse: bool

    def build(self, *changes):
        """Return the model, after replacements in its text."""
        source = self.source
        for old, new in changes:
            assert old in source
            source = source.replace(old, new, 1)
        names = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyMC's words on the model are not ours
            exec(compile(source, f"<model {self.seed}>", "exec"), names)
        return names["model"]


@dataclass
class Writer:
    """The program so far: data, lines of the model, and names that are taken."""

    rng: np.random.Generator
    data: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    taken: int = 0
    tied: str | None = None  # the predictor whose rows are tied together
    sparse: bool = False

    def name(self, stem):
        self.taken += 1
        return f"{stem}{self.taken}"

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def array(self, stem, expression, of_rows=True):
        """Write down an array of the table, and return its name."""
        name = self.name(stem)
        self.data.append(f"{name} = ({expression})" + ("[order]" if of_rows else ""))
        return name

    def variable(self, stem, law):
        """Write down a variable of the model, and return its name."""
        name = self.name(stem)
        self.lines.append(f"{name} = pm.{law.format(name=name)}")
        return name

    def value(self, stem, expression):
        name = self.name(stem)
        self.lines.append(f"{name} = {expression}")
        return name

    @property
    def splits(self):
        """Whether no line after the one that ties rows together reads what it ties: a Pareto has no location, say."""
        tie = max((i for i, line in enumerate(self.lines) if line.startswith(f"{self.tied} = ")), default=-1)
        return self.tied is None or not any(re.search(rf"\b{self.tied}\b", line) for line in self.lines[tie + 1 :])

    def unit(self):
        """Return a unit: one, or any from 1e-12 to 1e12."""
        return "1.0" if self.chance(0.5) else f"1e{self.rng.integers(-12, 13)}"


def program(seed, rows=None):
    """Return the program of a seed, of so many rows where that is given."""
    w = Writer(np.random.default_rng(seed))
    n = int(w.rng.integers(20, 90))
    n = n if rows is None else rows
    for _ in range(1 + w.chance(0.15)):
        w.pick(*OUTCOMES, *(LATER if seed >= _WITH_LATER else ()))(w)
    if w.chance(0.1):
        w.lines.append(
            "pm.Potential('ridge', -0.01 * sum((v**2).sum() for v in model.free_RVs if v.dtype == 'float64'))"
        )
    body = "".join(f"    {line}\n" for line in w.lines)
    head = HEAD.format(seed=seed, n=n)
    source = head + "\n".join(w.data) + "\nwith pm.Model() as model:\n" + body
    return Program(seed, source, w.splits, w.sparse)
