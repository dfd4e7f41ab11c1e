"""Likelihoods with sufficient statistics of second degree, as that of a normal regression with unknown scale.

Where ℓ_i is a polynomial of second degree in the data v_i of row i, for every θ, Σℓ_i depends on the data through Σv_i
and Σv_i v_iᵀ alone.  Any weighted rows with the same sums then have the same log-likelihood at every θ: no row is read.
"""

import numpy as np
from pytensor import scalar
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import io_toposort
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Shape, Shape_i

from pymc_austerity.bounds.row_graph import simplified_rows
from pymc_austerity.likelihood import RowLikelihood, keeps_affine
from pymc_austerity.rows import Rows

#: Rows at once.
_CHUNK = 65_536


def is_quadratic_in_data(likelihood: RowLikelihood) -> bool:
    """Return whether the log-likelihood of a row is shown to be a polynomial of second degree in its data, at every θ.

    Integers are taken for levels or counts, and refused.
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
    kind = op.scalar_op if isinstance(op, Elemwise) else op
    if isinstance(kind, scalar.Mul | Dot):
        return sum(inputs)
    if keeps_affine(op, [i for i, degree in enumerate(inputs) if degree]):
        return max(inputs)
    two = isinstance(kind, scalar.Pow) and isinstance(variables[1], Constant) and (variables[1].data == 2).all()
    return 2 * inputs[0] if two or isinstance(kind, scalar.Sqr) else None


def rows_for_moments(rows: Rows) -> int:
    """Return how many rows `moment_rows` makes."""
    return 2 * sum(int(np.prod(a.shape[1:])) for a in rows.values)


def moment_rows(rows: Rows) -> tuple[Rows, float]:
    """Return a few rows with the same first and second sums as all rows when each is counted `weight` times, and that.

    They are the 2C rows μ ± √C·s_j, with C the columns of all arrays together and s_j the rows of a root of the
    covariance; the weight is N/2C.  Rows with counts become rows with counts, which are 1.  The root of the second sums
    is R of a QR decomposition, whose error is a rounding of each column in its own units; that of eigenvalues of their
    products is a rounding of the largest column.
    """
    n, shapes = rows.n_table, [a.shape[1:] for a in rows.values]
    counts = np.ones(len(rows)) if rows.counts is None else rows.counts
    sizes = [int(np.prod(shape)) for shape in shapes]

    def chunk(start: int, stop: int) -> np.ndarray:
        parts = [np.asarray(a[start:stop], dtype=np.float64) for a in rows.values]
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

    # Differences from one of the rows are exact where columns are far from zero, as dates are.
    origin, root = chunk(0, 1)[0], np.empty((0, 1 + sum(sizes)))
    for start in range(0, len(rows), _CHUNK):
        stop = min(start + _CHUNK, len(rows))
        table = np.column_stack([np.ones(stop - start), chunk(start, stop) - origin])
        root = np.linalg.qr(np.concatenate([root, np.sqrt(counts[start:stop, None]) * table]), mode="r")
    # Of the column of ones the first row is left, which is √N times the means.
    mean = root[0, 1:] / root[0, 0]
    away = root[1:, 1:] * np.sqrt(sum(sizes) / n)
    away = np.concatenate([away, np.zeros((sum(sizes) - len(away), sum(sizes)))])
    points = origin + np.concatenate([mean + away, mean - away])
    columns = np.split(points, np.cumsum(sizes)[:-1], axis=1)
    arrays = tuple(c.reshape(len(points), *shape) for c, shape in zip(columns, shapes))
    weight = n / len(points)
    if rows.counts is None:
        return Rows(arrays), weight
    return Rows((*arrays, np.ones(len(points))), np.arange(len(points))), weight
