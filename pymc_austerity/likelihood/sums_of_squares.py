"""Likelihoods that a few sums over the data determine, as that of a normal regression with unknown scale.

Where ℓ_i is a polynomial of second degree in the data v_i of row i, for every θ, Σℓ_i depends on the data through Σv_i
and Σv_i v_iᵀ alone.  Any weighted rows with the same sums then have the same log-likelihood at every θ: no row is read.
"""

from __future__ import annotations

import numpy as np
from pytensor import scalar
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import io_toposort
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Shape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import Subtensor

from pymc_austerity.likelihood.row_graph import simplified_rows
from pymc_austerity.likelihood.row_likelihood import RowLikelihood
from pymc_austerity.rows import Rows

_LINEAR = (scalar.Add, scalar.Sub, scalar.Neg, scalar.Identity, scalar.Cast)
#: Rows at once.
_CHUNK = 65_536


def is_quadratic_in_data(likelihood: RowLikelihood) -> bool:
    """Return whether the log-likelihood of a row is shown to be a polynomial of second degree in its data.

    Parameters
    ----------
    likelihood : RowLikelihood

    Returns
    -------
    bool
        Whatever the row reads of θ; data that are not floats are taken for levels or counts, and refused.
    """
    rows = simplified_rows(likelihood)
    # A count multiplies a row, and is none of its data: sums are weighted by it.
    batches = [batch for batch in likelihood.batches if batch is not likelihood.counts]
    if any(batch.type.dtype not in ("float64", "float32") for batch in batches):
        return False
    degrees: dict[Variable, int] = dict.fromkeys(batches, 1)
    for node in io_toposort(batches, [rows]):
        if isinstance(node.op, Shape | Shape_i):
            continue
        inputs = [degrees.get(v, 0) for v in node.inputs]
        if any(inputs):
            degree = _degree(node.op, inputs, node.inputs)
            if degree is None or degree > 2:
                return False
            degrees.update(dict.fromkeys(node.outputs, degree))
    return True


def _degree(op: object, inputs: list[int], variables: list[Variable]) -> int | None:
    """Return the degree of a result in the data, or None where it is no polynomial."""
    if isinstance(op, Elemwise):
        kind = op.scalar_op
        if isinstance(kind, _LINEAR):
            return max(inputs)
        if isinstance(kind, scalar.Mul):
            return sum(inputs)
        if isinstance(kind, scalar.Sqr):
            return 2 * inputs[0]
        if isinstance(kind, scalar.TrueDiv) and inputs[1] == 0:
            return inputs[0]
        if isinstance(kind, scalar.Pow) and isinstance(variables[1], Constant):
            power = np.unique(variables[1].data)
            return int(2 * inputs[0]) if power.tolist() == [2] else None
        return None
    if isinstance(op, Dot):
        return sum(inputs)
    if isinstance(op, CAReduce) and isinstance(op.scalar_op, scalar.Add):
        return inputs[0]
    if isinstance(op, DimShuffle | SpecifyShape | Subtensor) and not any(inputs[1:]):
        return inputs[0]
    return None


def rows_for_moments(rows: Rows) -> int:
    """Return how many rows `moment_rows` makes."""
    return 2 * sum(int(np.prod(a.shape[1:])) for a in rows.values)


def moment_rows(rows: Rows) -> tuple[Rows, float]:
    """Return a few rows that have, each counted `weight` times, the same first and second sums as all rows.

    Parameters
    ----------
    rows : Rows
        Arrays of floats, with C columns together.

    Returns
    -------
    Rows, float
        The 2C rows μ ± √C·s_j, with s_j the columns of a root of the covariance, and N/2C.  Rows with counts become
        rows with counts, which are 1.
    """
    n, shapes = rows.n_table, [a.shape[1:] for a in rows.values]
    counts = np.ones((len(rows), 1)) if rows.counts is None else rows.counts[:, None]
    sizes = [int(np.prod(shape)) for shape in shapes]

    def chunk(start: int) -> np.ndarray:
        parts = [np.asarray(a[start : start + _CHUNK], dtype=np.float64) for a in rows.values]
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

    starts = range(0, len(rows), _CHUNK)
    mean = sum((counts[start : start + _CHUNK] * chunk(start)).sum(axis=0) for start in starts) / n
    scatter = np.zeros((sum(sizes), sum(sizes)))
    for start in starts:
        centred = chunk(start) - mean
        scatter += (counts[start : start + _CHUNK] * centred).T @ centred
    values, vectors = np.linalg.eigh(scatter / n)
    root = vectors * np.sqrt(np.maximum(values, 0.0) * len(values))
    points = np.concatenate([mean + root.T, mean - root.T])
    columns = np.split(points, np.cumsum(sizes)[:-1], axis=1)
    arrays = tuple(c.reshape(len(points), *shape) for c, shape in zip(columns, shapes))
    weight = n / len(points)
    if rows.counts is None:
        return Rows(arrays), weight
    return Rows((*arrays, np.ones(len(points))), np.arange(len(points))), weight
