"""The structural proof follows the row axis through single ops, and refuses what mixes rows."""

import numpy as np
import pytensor.tensor as pt
import pytest

from pymc_austerity.likelihood.axis import LENGTH, NotRowWiseError, RowAxis
from pymc_austerity.likelihood.row_axis import prove_row_axis

x = pt.matrix("x")  # rows on the first axis
v = pt.vector("v")
g = pt.lvector("g")
theta = pt.tensor("theta", shape=(3,))
table = pt.tensor("table", shape=(5, 2))
n = x.shape[0]
EMPTY = pt.empty((n, 3))
SEEDS = {x: RowAxis(0), v: RowAxis(0), g: RowAxis(0), n: LENGTH}

KEPT = {
    "product with parameters": (x @ theta, 0),
    "transposed product": (theta @ x.T, 0),
    "transpose": (x.T, 1),
    "new axis": (v[:, None] * pt.ones((1, 4)), 0),
    "new axis in front": (v[None, :], 1),
    "sum within a row": (x.sum(axis=1), 0),
    "largest within a row": (x.max(axis=1), 0),
    "softmax within a row": (pt.special.softmax(x, axis=-1), 0),
    "cumulative sum within a row": (pt.cumsum(x, axis=1), 0),
    "group index": (theta[g], 0),
    "group index into a table": (table[g, 1], 0),
    "group index, whole rows of a table": (table[g], 0),
    "own entry of a row": (x[pt.arange(n), g], 0),
    "a column": (x[:, 1], 0),
    "some columns": (x[:, np.array([0, 2])], 0),
    "stacked columns": (pt.stack([v, 2 * v], axis=1), 0),
    "zeros for every row": (pt.zeros(n) + v, 0),
    "zeros in the shape of the data": (pt.zeros_like(x).sum(axis=1), 0),
    "flattened within a row": (pt.tensor3("t", shape=(None, 2, 3)).reshape((-1, 6)), None),
    "a reshape that keeps rows on an axis of their own": (x[:, None, :2].dimshuffle(1, 0, 2).reshape((n, 2)), 0),
    "tiled within a row": (pt.tile(v[:, None], (1, 4)), 0),
    "all rows, by their number": (v[0:n], 0),
    "a column set": (pt.set_subtensor(x[:, 1], v), 0),
    "a column raised by a parameter": (pt.inc_subtensor(x.T[1], theta[0]), 1),
    "all columns of an empty array set": (pt.set_subtensor(pt.set_subtensor(EMPTY[:, 0], v)[:, 1:], x[:, 1:]), 0),
    "rows among sorted parameters": (pt.searchsorted(theta, v), 0),
    "batched outer product": (x[:, :, None] * x[:, None, :], 0),
}

MIXED = {
    "sum over rows": x.sum(axis=0),
    "sum over everything": x.sum(),
    "largest row": v / v.max(),
    "gram matrix": x.T @ x,
    "outer product of rows": x @ x.T,
    "rows against rows": v[:, None] - v[None, :],
    "lag": v[1:],
    "first row": v - v[0],
    "rows by index": v[g],
    "some rows of an empty array set": pt.set_subtensor(EMPTY[1:], theta[0]),
    "rows behind one another": pt.concatenate([v, v]),
    "reshaped across rows": x.reshape((-1,)),
    "reshaped to twice the rows": x[:, :2].reshape((2 * n, 1)),
    "reshaped to rows behind one another": pt.stack([v, v]).reshape((-1, 2)),
    "tiled across rows": pt.tile(v, 2),
    "all rows but one": v[0 : n - 1],
    "some rows raised": pt.inc_subtensor(v[:2], 1.0),
    "a column set to rows in another order": pt.set_subtensor(x[:, 1], v[::-1]),
    "a column set to parameters": pt.set_subtensor(x[:, 1], pt.vector("w")),
    "parameters set to rows": pt.set_subtensor(pt.matrix("P")[:, 1], v),
    "rows among rows": pt.searchsorted(v, theta),
    "row numbers that were overwritten": x[pt.set_subtensor(pt.arange(n)[:], g), g],
    "row numbers among sorted numbers": x[pt.searchsorted(np.array([0, 3]), pt.arange(n)), g],
    "a shape of which a length was overwritten": v + pt.zeros(pt.set_subtensor(x.shape[0], 7)[0]),
    "sorted": pt.sort(v),
    "parameters of the length of the rows": v + pt.vector("w"),
    "the number of entries as a number": v / x.size,
    "the product of a shape as a number": theta.sum() / x.shape.prod() * v,
    "one parameter a row": theta[pt.arange(n)],
    "one parameter a row, through another index": table[pt.arange(n), g],
    "a determinant over rows": pt.linalg.det(x),
}


@pytest.mark.parametrize("name", KEPT)
def test_an_axis_that_is_kept_is_followed(name):
    output, axis = KEPT[name]
    if axis is None:
        inner = output.owner.inputs[0]
        assert prove_row_axis(output, {inner: RowAxis(0)}) == RowAxis(0)
    else:
        assert prove_row_axis(output, SEEDS) == RowAxis(axis)


@pytest.mark.parametrize("name", MIXED)
def test_mixed_rows_are_refused(name):
    with pytest.raises(NotRowWiseError):
        prove_row_axis(MIXED[name], SEEDS)


def test_what_does_not_read_rows_has_no_row_axis():
    assert prove_row_axis(theta.sum(), SEEDS) is None
