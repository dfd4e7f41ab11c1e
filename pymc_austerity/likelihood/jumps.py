"""Row terms that jump in a parameter, as at an unknown change point: which rows jump decides about the parameter.

Between two draws of a change point only the rows between them jump, a handful of all, and a batch of some hundred rows
hardly ever holds one.  A test that estimates the noise of a batch from the batch then takes it for a small one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import toposort, walk
from pytensor.scalar import basic as scalars
from pytensor.tensor.elemwise import Elemwise

from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood.layout import user_name
from pymc_austerity.likelihood.model_graph import values_read
from pymc_austerity.likelihood.row_likelihood import RowLikelihood
from pymc_austerity.rows import Table
from pymc_austerity.unsupported_model import UnsupportedModelError

#: What makes a number of a number so that it jumps.
_ROUND = (
    scalars.Floor, scalars.Ceil, scalars.Sign, scalars.IntDiv, scalars.Mod,
    scalars.RoundHalfToEven, scalars.RoundHalfAwayFromZero, scalars.Trunc,
)  # fmt: skip
_COMPARE = (scalars.LT, scalars.GT, scalars.LE, scalars.GE)
#: Rows that are looked at, points between two values of a variable, and rows in which a jump is narrowed down.
_ROWS, _POINTS, _NARROWED = 400, 65, 6
#: Times that an interval is halved at most, and what is left of a difference there that is one of a jump.
_HALVED, _LEFT = 100, 0.2
#: Share of the rows that jump at the same value, from which on a batch holds some of them.
_SEEN_BY_ALL = 0.05
#: A parameter that jumps of size Δ tell about is known to about 1/Δ² rows: of this many a batch holds several.
_ROWS_OF_SMALL = 25
#: Pairs of points that are tried where no posterior is known, and by how much the log prior falls towards the far ends.
_PAIRS, _FALL = 4, 10.0


Pairs = Sequence[tuple[np.ndarray, np.ndarray]]


class Jump(NamedTuple):
    """A jump that a row makes and most others do not."""

    name: str  # of the variable, as the user gave it
    size: float  # of the row's log-likelihood


def may_jump(graph: Variable, theta: Variable) -> bool:
    """Return whether a graph compares what depends on θ, rounds it, or makes whole numbers of it.

    Two numbers are equal at single points alone, which no draw hits.  What a check of parameters compares is left out:
    where it fails the density is zero, and is seen to be.
    """
    needed, depends = set(walk([graph], values_read, bfs=False)), {theta}
    for node in toposort([graph]):
        made = needed.intersection(node.outputs)
        read = depends.intersection(values_read(node.outputs[0]))
        if not (made and read):
            continue
        depends |= made
        elemwise = node.op.scalar_op if isinstance(node.op, Elemwise) else None
        made_whole = any(map(_is_whole, made)) and not isinstance(elemwise, scalars.EQ | scalars.NEQ)
        discrete = made_whole and not all(map(_is_whole, read))
        # Of a loop, or another inner graph, it is not known what depends on θ.
        within = elemwise is None and hasattr(node.op, "fgraph") and _has_jumps(node.op.fgraph)
        if isinstance(elemwise, _ROUND) or discrete or within:
            return True
    return False


def _has_jumps(graph: FunctionGraph) -> bool:
    """Return whether an inner graph compares or rounds anything."""
    ops = [getattr(node.op, "scalar_op", node.op) for node in graph.apply_nodes]
    return any(isinstance(op, _ROUND + _COMPARE) or (hasattr(op, "fgraph") and _has_jumps(op.fgraph)) for op in ops)


def _is_whole(variable: Variable) -> bool:
    return getattr(variable.type, "dtype", "float64")[0] in "iub"


def require_seen_jumps(
    likelihood: RowLikelihood, table: Table, fixed: Sequence[np.ndarray], theta: np.ndarray, others: np.ndarray,
    pairs: Pairs | None, step: str,
) -> None:  # fmt: skip
    """Refuse row terms with jumps that batches do not show; `pairs` are draws of θ, None where none are known."""
    jump = unseen_jump(likelihood, table, fixed, theta, others, pairs)
    if jump is None:
        return
    raise UnsupportedModelError(
        f"{step}: the log-likelihood of a row jumps, by {jump.size:.2g} for example, where {jump.name!r} passes a "
        "value that differs from row to row, as at a change point that is estimated. Between two draws a handful of "
        "rows jump, and the rows that are read need not show them: draws of "
        f"{jump.name!r} would be spread far too widely. Give it a step that reads all rows, as in pm.sample(step=["
        f"pma.{step}(the other variables), pma.ExactMH([{jump.name}])]), or use ExactMH for all variables; or write "
        "a smooth change, as pm.math.sigmoid((x - change) / width)."
    )


def unseen_jump(
    likelihood: RowLikelihood, table: Table, fixed: Sequence[np.ndarray], theta: np.ndarray, others: np.ndarray,
    pairs: Pairs | None,
) -> Jump | None:  # fmt: skip
    """Return a jump of a row that a batch would not show, or None where none is found.

    It is looked for between `pairs` of draws of θ, moving one variable at a time; without them, about `theta` as far as
    the prior reaches.  Every batch shows jumps of many rows at one value, and small ones tell of many rows.
    """
    if not may_jump(likelihood.row_log_likelihood, likelihood.theta):
        return None
    given = [likelihood.theta, likelihood.others, *likelihood.fixed]
    log_prior = interpret_log_density(given, [likelihood.log_prior])
    terms = interpret_log_density([*given, *likelihood.batches], [likelihood.row_log_likelihood])
    first = next(iter(table.pieces()))
    rows = first.take(np.unique(np.linspace(0, len(first) - 1, _ROWS).astype(int))).arrays
    smallest = np.sqrt(_ROWS_OF_SMALL / len(table))

    def terms_at(theta: np.ndarray) -> np.ndarray:
        return np.array(uninterrupted(terms, theta, others, *fixed, *rows)[0])

    def log_prior_at(theta: np.ndarray) -> float:
        return float(uninterrupted(log_prior, theta, others, *fixed)[0])

    with np.errstate(all="ignore"):
        # Draws of products of coefficients and indicators are none of θ.
        of_theta = [pair for pair in pairs or () if pair[0].size == theta.size][:_PAIRS]
        pairs = of_theta or _pairs_about(likelihood, theta, log_prior_at)
        for here, there in pairs:
            for block in likelihood.blocks:
                if np.dtype(block.dtype).kind != "f":
                    continue
                moved = np.zeros(theta.size)
                moved[block.start : block.stop] = (there - here)[block.start : block.stop]
                if (size := _between(here, moved, terms_at, smallest)) is not None:
                    return Jump(user_name(block.name), size)
    return None


def _pairs_about(likelihood: RowLikelihood, theta: np.ndarray, log_prior: Callable[[np.ndarray], float]) -> Pairs:
    """Return pairs of points about θ that are as far from each other as the prior reaches, variable by variable."""
    rng, start, reach = np.random.default_rng(1851), log_prior(theta), np.zeros(theta.size)
    for block in likelihood.blocks:
        if np.dtype(block.dtype).kind != "f":
            continue
        one = np.zeros(theta.size)
        one[block.start : block.stop] = rng.choice([-1.0, 1.0], block.stop - block.start)
        lower = {s: min(log_prior(theta + s * one), log_prior(theta - s * one)) for s in 2.0 ** np.arange(-30, 31)}
        reach[block.start : block.stop] = max((s for s, end in lower.items() if end > start - _FALL), default=0.0)
    ends = theta + reach / 2 * rng.uniform(-1, 1, size=(2 * _PAIRS, theta.size))
    return list(zip(ends[:_PAIRS], ends[_PAIRS:], strict=True))


def _between(
    here: np.ndarray, moved: np.ndarray, terms_at: Callable[[np.ndarray], np.ndarray], smallest: float
) -> float | None:
    """Return the size of a jump on the way from one point by `moved`, or None where there is none but small ones."""
    at = np.linspace(0, 1, _POINTS)
    change = np.abs(np.diff([terms_at(here + t * moved) for t in at], axis=0))
    change[~np.isfinite(change)] = 0.0
    largest, place = change.max(axis=0), change.argmax(axis=0)
    # A row that only jumps changes in one interval alone.
    alone = np.where(largest > smallest, largest / np.maximum(change.sum(axis=0), np.finfo(float).tiny), 0.0)
    for row in np.argsort(-alone)[:_NARROWED]:
        if alone[row] == 0:
            break
        low, high = at[place[row]], at[place[row] + 1]
        below, above = terms_at(here + low * moved), terms_at(here + high * moved)
        for _ in range(_HALVED):
            middle = (low + high) / 2
            if not low < middle < high:
                break
            between = terms_at(here + middle * moved)
            if abs(between[row] - below[row]) > abs(above[row] - between[row]):
                high, above = middle, between
            else:
                low, below = middle, between
        jumps = np.abs(above - below)
        if jumps[row] > max(_LEFT * largest[row], smallest) and np.mean(jumps > _LEFT * jumps[row]) < _SEEN_BY_ALL:
            return float(jumps[row])
    return None
