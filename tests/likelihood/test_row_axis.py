"""The structural proof of the row axis: single ops, and random graphs against what numbers do when rows are moved."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.likelihood.axis import LENGTH, NotRowWiseError, RowAxis
from pymc_austerity.likelihood.row_axis import prove_row_axis

N, GROUPS = 5, 3
X = pt.matrix("X", shape=(None, 2))
v, g = pt.vector("v"), pt.lvector("g")
theta = pt.vector("theta", shape=(2,))
effects = pt.vector("effects", shape=(GROUPS,))
n = X.shape[0]
SEEDS = {X: RowAxis(0), v: RowAxis(0), g: RowAxis(0), n: LENGTH}

rng = np.random.default_rng(2014)
DATA = {"X": rng.normal(size=(N, 2)), "v": rng.normal(size=N), "g": np.array([0, 2, 1, 1, 0])}
PARAMETERS = {"theta": rng.normal(size=2), "effects": rng.normal(size=GROUPS)}

#: Each takes graphs with 0 to 2 dimensions and may fail for some: such a graph is not drawn.
UNARY = [
    pt.exp,
    pt.tanh,
    lambda a: a.T,
    lambda a: a[::-1],
    lambda a: a[1:],
    lambda a: a[0],
    lambda a: a[..., 0],
    lambda a: a[:, None],
    lambda a: a[None],
    lambda a: a.sum(axis=0),
    lambda a: a.sum(axis=-1),
    lambda a: a.max(axis=-1),
    lambda a: a.sum(),
    lambda a: pt.cumsum(a, axis=0),
    lambda a: pt.cumsum(a, axis=-1),
    lambda a: pt.special.softmax(a, axis=-1),
    lambda a: a - a.mean(),
    lambda a: a - a.mean(axis=-1, keepdims=True),
    lambda a: a.reshape((-1,)),
    lambda a: a.reshape((-1, 2)),
    lambda a: a.reshape((2, -1)),
    lambda a: a.reshape((n, 2)),
    lambda a: a.T.reshape((-1,)),
    pt.diagonal,
    lambda a: pt.split(a, [1, 1], 2, axis=-1)[1],
    lambda a: a[g],
    lambda a: a[pt.arange(n)],
    lambda a: a[pt.arange(n), g % 2],
    lambda a: pt.stack([a, 2 * a], axis=-1),
    lambda a: pt.concatenate([a, a]),
    lambda a: a * n,
    lambda a: a * X.size,
    lambda a: a / X.shape.prod(),
    lambda a: a + pt.zeros(n),
    lambda a: a[pt.argsort(a)],
]
BINARY = [
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: a @ b,
    lambda a, b: pt.switch(a > 0, a, b),
    lambda a, b: pt.outer(a, b),
    lambda a, b: pt.concatenate([a, b], axis=-1),
]


@st.composite
def graphs(draw):
    """A graph of a few operations, with two dimensions at most."""
    pool = [X, v, theta, effects, effects[g], X @ theta]
    for _ in range(draw(st.integers(1, 5))):
        make = draw(st.sampled_from([*UNARY, *BINARY]))
        arguments = [draw(st.sampled_from(pool)) for _ in range(2 if make in BINARY else 1)]
        try:
            made = make(*arguments)
        except (TypeError, ValueError, IndexError, NotImplementedError):
            continue
        if made.type.ndim <= 2 and made.type.dtype.startswith("float"):
            pool.append(made)
    return pool[-1]


def values_of(graph):
    """Evaluate with the rows of given numbers; None where the graph makes no sense of their number."""
    inputs = [X, v, g, theta, effects]
    evaluate = pytensor.function(inputs, graph, mode=BY_NUMPY, on_unused_input="ignore")

    def values(numbers):
        found = {**{name: rows[numbers] for name, rows in DATA.items()}, **PARAMETERS}
        try:
            return np.asarray(evaluate(*(found[variable.name] for variable in inputs)))
        except (ValueError, IndexError, TypeError, AssertionError):
            return None

    return values


def keeps_rows(graph, axis):
    """Whether any rows, in any order and with repeats, give what all rows give at these places of `axis`."""
    values = values_of(graph)
    whole = values(np.arange(N))
    for numbers in (np.array([4, 2, 0, 1, 3]), np.array([1, 1, 3]), np.array([2])):
        part = values(numbers)
        if whole is None or part is None:
            return whole is None and part is None
        if axis is not None and whole.shape[axis] != N:
            return False
        expected = whole if axis is None else np.take(whole, numbers, axis=axis)
        if part.shape != expected.shape or not np.allclose(part, expected, equal_nan=True):
            return False
    return True


EMPTY = pt.empty((n, 3))
KEPT = {
    "transpose": (X.T, 1),
    "new axis in front": (v[None, :], 1),
    "some columns": (X[:, np.array([0, 1])], 0),
    "all rows, by their number": (v[0:n], 0),
    "reshaped on an axis of their own": (X[:, None, :2].dimshuffle(1, 0, 2).reshape((n, 2)), 0),
    "reshaped within a row": (X.reshape((-1, 2, 1)).reshape((-1, 2)), 0),
    "a column raised by a parameter": (pt.inc_subtensor(X.T[1], theta[0]), 1),
    "all columns of an empty array set": (pt.set_subtensor(pt.set_subtensor(EMPTY[:, 0], v)[:, 1:], X), 0),
    "batched outer product": (X[:, :, None] * X[:, None, :], 0),
    "no rows": (theta.sum(), None),
}
MIXED = {
    "rows against rows": v[:, None] - v[None, :],
    "rows by index": v[g],
    "some rows of an empty array set": pt.set_subtensor(EMPTY[1:], theta[0]),
    "rows behind one another": pt.concatenate([v, v]),
    "reshaped to twice the rows": X.reshape((2 * n, 1)),
    "reshaped to rows behind one another": pt.stack([v, v]).reshape((-1, 2)),
    "tiled across rows": pt.tile(v, 2),
    "all rows but one": v[0 : n - 1],
    "some rows raised": pt.inc_subtensor(v[:2], 1.0),
    "a column set to rows in another order": pt.set_subtensor(X[:, 1], v[::-1]),
    "a column set to parameters": pt.set_subtensor(X[:, 1], pt.vector("w")),
    "parameters set to rows": pt.set_subtensor(pt.matrix("P")[:, 1], v),
    "row numbers that were overwritten": X[pt.set_subtensor(pt.arange(n)[:], g), g],
    "row numbers among sorted numbers": X[pt.searchsorted(np.array([0, 3]), pt.arange(n)), g],
    "a shape of which a length was overwritten": v + pt.zeros(pt.set_subtensor(X.shape[0], 7)[0]),
    "parameters of the length of the rows": v + pt.vector("w"),
    "the number of entries as a number": v / X.size,
    "the product of a shape as a number": theta.sum() / X.shape.prod() * v,
    "a determinant over rows": pt.linalg.det(X),
}


@pytest.mark.parametrize(("graph", "axis"), KEPT.values(), ids=KEPT)
def test_an_axis_that_is_kept_is_followed(graph, axis):
    assert prove_row_axis(graph, SEEDS) == (None if axis is None else RowAxis(axis))


@pytest.mark.parametrize("name", MIXED)
def test_mixed_rows_are_refused(name):
    with pytest.raises(NotRowWiseError):
        prove_row_axis(MIXED[name], SEEDS)


def test_what_is_proved_holds_for_the_numbers():
    shares = {"proved": 0, "refused": 0}

    @settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
    @given(graphs())
    def check(graph):
        try:
            axis = prove_row_axis(graph, SEEDS)
        except NotRowWiseError:
            shares["refused"] += 1
            return
        shares["proved"] += axis is not None
        if axis is None or axis.kind == "rows":
            assert keeps_rows(graph, None if axis is None else axis.axis), pytensor.dprint(graph, file="str")

    check()
    assert min(shares.values()) >= 15  # a good share of each


@pytest.mark.parametrize(
    "graph", [v - v.mean(), v[::-1], X[pt.argsort(v)] @ theta, pt.cumsum(v), v * n, pt.special.softmax(v)]
)
def test_a_proof_that_takes_everything_would_be_seen(graph):
    assert not keeps_rows(graph, 0)
    with pytest.raises(NotRowWiseError):
        prove_row_axis(graph, SEEDS)
