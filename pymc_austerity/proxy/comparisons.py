"""Comparisons that make a kink, as in ``pt.switch(x > knot, x - knot, 0)``, and not a jump or nothing at all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.replace import graph_replace
from pytensor.scalar import basic as scalars

from pymc_austerity.compile.graph_compiler import BY_NUMPY, compile_log_density
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.rows import Table

COMPARISONS = scalars.GT | scalars.GE | scalars.LT | scalars.LE
#: Rows that are looked at, and the share of them that are next to where they are compared.
_ROWS, _NEXT = 1_000, 0.1
#: Relative change from which on a row is another one on the other side; how many times as much it changes at a kink
#: where it is twice as far on the other side, at least.  At a jump it changes as much.
_DIFFERS, _OF_A_KINK = 1e-6, 1.5
#: How far from the start rows are looked at as well: a slope that begins at zero hides a kink.
_AWAY = 0.5


def with_kinks(
    compared: Sequence[Apply], likelihood: RowLikelihood, table: Table, fixed: Sequence[np.ndarray], start: np.ndarray
) -> list[Apply]:
    """Return the comparisons at which rows have a kink, by what some rows are on the other side at `start`.

    Rows have to be finite there, wherever they are.  Functions that are written by cases for the sake of rounding error
    are the same on both sides.
    """
    if not compared:
        return []
    reach = pt.dvector("reach", shape=(len(compared),))
    numbers = [node.inputs[0] - node.inputs[1] for node in compared]
    other_side = {
        node.outputs[0]: pt.xor(node.outputs[0], pt.lt(pt.abs(number), reach[k]))
        for k, (node, number) in enumerate(zip(compared, numbers, strict=True))
    }
    (rows,) = graph_replace([likelihood.row_log_likelihood], other_side)
    inputs = [reach, likelihood.theta, likelihood.others, *likelihood.fixed, *likelihood.batches]
    function = compile_log_density(inputs, [rows, *numbers], BY_NUMPY)
    first = next(iter(table.pieces()))  # of rows in memory all of them
    some = first.take(np.unique(np.linspace(0, len(first) - 1, _ROWS).astype(int)))
    d, data = likelihood.theta_size, (*fixed, *some.arrays)

    def at(psi: np.ndarray, k: int, reach: float) -> list[np.ndarray]:
        """Return the rows with those within reach of a comparison on its other side, and all distances."""
        reaches = np.zeros(len(compared))
        reaches[k] = reach
        with np.errstate(all="ignore"):
            return list(uninterrupted(function, reaches, psi[:d], psi[d:], *data))

    def is_kink(psi: np.ndarray, k: int) -> bool:
        rows, *numbers = at(psi, k, 0.0)
        distance, change = np.abs(numbers[k]), np.abs(at(psi, k, np.inf)[0] - rows)
        if not (np.isfinite(change).all() and np.median(change / (1 + np.abs(rows))) > _DIFFERS):
            return False
        nearest = np.quantile(distance, _NEXT)
        near, further = (
            np.abs(at(psi, k, reach)[0] - rows).sum() / max((distance < reach).sum(), 1)
            for reach in (nearest, 2 * nearest)
        )
        return bool(further > _OF_A_KINK * near)

    away = start + _AWAY * np.random.default_rng(1999).standard_normal(start.size)
    return [node for k, node in enumerate(compared) if is_kink(start, k) or is_kink(away, k)]
