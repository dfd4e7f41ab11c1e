"""Graphs with fewer and simpler operations compute the same, and what a user wrote into them stays."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode, get_default_mode
from pytensor.raise_op import Assert
from pytensor.tensor.basic import Split
from pytensor.tensor.elemwise import DimShuffle

from pymc_austerity.compile.graph_compiler import compile_log_density
from pymc_austerity.compile.plain_graphs import KnownShape
from pymc_austerity.likelihood import read_model
from pymc_austerity.proxy.expansion import row_remainder

VECTOR, MATRIX = np.linspace(-1, 1, 5), np.arange(12.0).reshape(4, 3)


def check_both(inputs, outputs, *values):
    """Check that a graph has the same values with the rewrites as by NumPy without, and return the functions."""
    found = compile_log_density(inputs, outputs)
    without = Mode(linker="py", optimizer=get_default_mode().optimizer)
    expected = pytensor.function(inputs, outputs, mode=without, on_unused_input="ignore")
    for a, b in zip(found(*values), expected(*values), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
    return found, expected


def ops(function, kind):
    return [node for node in function.maker.fgraph.toposort() if isinstance(node.op, kind)]


def test_lengths_of_a_batch_are_not_checked():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(50, 2)), rng.poisson(1, size=50)
    with pm.Model() as model:
        pm.ZeroInflatedPoisson("y", psi=pm.Beta("psi", 2, 2), mu=pm.math.exp(X @ pm.Normal("b", shape=2)), observed=y)
    likelihood = read_model(model, model.value_vars, None, None).likelihood
    # A derivative of a derivative of a Join asks for the lengths of all that it joins.
    remainder, centre = row_remainder(likelihood, 2)
    inputs = [likelihood.theta, likelihood.others, centre, *likelihood.fixed, *likelihood.batches]
    found = compile_log_density(inputs, [remainder])
    plain = pytensor.function(inputs, [remainder], on_unused_input="ignore")
    assert ops(plain, Assert)
    assert not ops(found, Assert)
    assert len(found.maker.fgraph.apply_nodes) < 0.8 * len(plain.maker.fgraph.apply_nodes)


def test_a_check_of_the_user_stays():
    x = pt.dvector("x")
    checked = Assert("all entries must be positive")(pt.exp(x), pt.all(pt.gt(x, 0)))
    function = compile_log_density([x], [checked.sum()])
    assert function(VECTOR + 2)[0] > 0
    with pytest.raises(AssertionError, match="must be positive"):
        function(VECTOR)


@pytest.mark.parametrize("lengths", [(4, 3), (4, None), (None, None)])
def test_a_check_of_a_shape_stays(lengths):
    x = pt.dmatrix("x")
    graph = pt.exp(pt.specify_shape(x, lengths)).sum()
    found, _ = check_both([x], [graph], MATRIX)
    wrong = np.arange(12.0).reshape(6, 2)
    if lengths == (None, None):
        assert found(wrong)[0] == np.exp(wrong).sum()
        return
    assert ops(found, KnownShape)
    with pytest.raises(AssertionError):
        found(wrong)


def split(x, lengths, n, axis):
    """Take an array apart: the axis belongs to the operation in PyTensor 3, to its inputs in PyTensor 2."""
    try:
        return Split(n, axis)(x, lengths)
    except TypeError:
        return Split(n)(x, axis, lengths)


def test_parts_are_slices():
    x = pt.dmatrix("x")
    parts = [*split(x, [1, 1, 2], 3, 0), *split(x, [1, 2], 2, 1)]
    function, plain = check_both([x], [pt.exp(p) for p in parts], MATRIX)
    assert len(ops(plain, Split)) == 2
    assert not ops(function, Split)


def test_parts_of_unknown_lengths_are_left_alone():
    x, lengths = pt.dvector("x"), pt.lvector("lengths")
    function, _ = check_both([x, lengths], list(split(x, lengths, 2, 0)), VECTOR, np.array([2, 3]))
    assert ops(function, Split)


def test_one_change_of_axes_does_for_two():
    inputs, outputs = [], []
    for first in [(0, "x"), ("x", 0), (0, "x", "x"), ("x", 0, "x")]:
        x = pt.dvector()
        seen, place = x.dimshuffle(*first), first.index(0)
        inputs.append(x)
        outputs += [pt.exp(seen).dimshuffle(place), seen.dimshuffle(place, "x") * 2, seen.dimshuffle("x", place) + 1]
    function, _ = check_both(inputs, outputs, *[VECTOR] * len(inputs))
    for node in ops(function, DimShuffle):
        assert node.inputs[0].owner is None or not isinstance(node.inputs[0].owner.op, DimShuffle)


def test_a_matrix_that_is_turned_twice_is_itself():
    x = pt.tensor("x", shape=(None, 1))
    check_both([x], [x.dimshuffle(0, "x") * 2, x.dimshuffle("x", 0) * 2, x.T.T + 1], VECTOR[:, None].copy())


@pytest.mark.parametrize("reduce", [pt.sum, pt.max, pt.prod])
def test_reductions_along_axes(reduce):
    x, step = pt.dmatrix("x"), pt.lscalar("step")
    outputs = [reduce(seen, axis=axis) for axis in (0, 1, None) for seen in (x[::-1], x[::step].T)]
    check_both([x, step], outputs, MATRIX, np.array(2))


@pytest.mark.skipif(pm.__version__ < "6", reason="PyTensor 2 compiles by numba when asked")
def test_outputs_are_known_to_have_no_gaps():
    x = pt.dmatrix("x")
    column = pt.cumsum(x, axis=1)[:, 0]  # a view with gaps, which its reader overwrites
    functions = compile_log_density([x], [pt.exp(column)]), pytensor.function([x], [pt.exp(column)])
    for function, layout in zip(functions, "CA", strict=True):
        np.testing.assert_allclose(function(MATRIX)[0], np.exp(MATRIX[:, 0]), rtol=1e-13)
        (compiled,) = function.vm.jit_fn.overloads.values()
        assert [array.layout for array in compiled.signature.return_type] == [layout]
