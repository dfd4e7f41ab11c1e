"""Models of single precision are computed in double precision."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.sparse
import pytensor.tensor as pt
import pytest
from scipy import sparse, stats
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.compile.graph_compiler import compile_log_density
from pymc_austerity.likelihood.density import compile_density
from pymc_austerity.likelihood.model_data import read_model
from pymc_austerity.likelihood.precision import in_double

N = 4_000
rng = np.random.default_rng(3)
x = rng.normal(size=(N, 2))
y = 100 + x @ [0.3, -0.2] + 0.1 * rng.normal(size=N)


@pytest.fixture
def single():
    with pytensor.config.change_flags(floatX="float32"):
        yield


def far_from_zero():
    with pm.Model() as model:
        level, slopes, sd = pm.Normal("level", 0, 200), pm.Normal("slopes", shape=2), pm.HalfNormal("sd")
        pm.Normal("y", level + pm.Data("x", x) @ slopes, sd, observed=y)
    return model


def test_what_is_computed_is_the_same_but_for_rounding():
    a, b, m, k = pt.fvector("a"), pt.constant(np.arange(3, dtype="f4")), pt.fmatrix("m"), pt.ivector("k")
    graphs = [
        pt.exp(m @ a) + 1,
        (pt.cast(k, "float32") * b).sum() / k.sum(),
        pt.join(0, a, b)[k],
        a.max() + pt.argmax(a),
        pt.alloc(a[0], 3),
        pt.set_subtensor(a[k[:1]], 1.0),
        pt.linalg.cholesky(m),
        pt.switch(a > 0, a, b).prod(),
        pt.cumsum(a),
    ]
    double = in_double(graphs)
    of_double = pt.exp(pt.dvector("d")).sum()
    assert in_double([of_double])[0] is of_double
    assert {g.type.dtype for g in double} == {"float64"}
    values = [np.array([0.1, -0.2, 0.3], "f4"), np.eye(3, dtype="f4") + np.float32(0.1), np.array([0, 1, 2], "i4")]
    found = pytensor.function([a, m, k], [*graphs, *double], mode="FAST_COMPILE")(*values)
    for one, other in zip(found[: len(graphs)], found[len(graphs) :], strict=True):
        assert np.allclose(one, other, rtol=1e-6, atol=1e-6)
    assert np.isclose(found[len(graphs)][0], np.exp(values[1][0].astype(float) @ values[0]) + 1, rtol=1e-14)


def test_a_sparse_matrix_of_single_precision():
    table = sparse.csr_matrix(np.arange(6, dtype="f4").reshape(3, 2) / 3)
    (product,) = in_double([pytensor.sparse.structured_dot(table, pt.dmatrix("b"))])
    (low,) = in_double([pytensor.sparse.structured_dot(table, pt.fmatrix("b"))])
    assert product.type.dtype == low.type.dtype == "float64"
    found = product.eval({"b": np.array([[0.1], [0.2]])})
    np.testing.assert_allclose(found, table.toarray().astype(float) @ [[0.1], [0.2]], rtol=1e-14)


@pytest.mark.usefixtures("single")
def test_rows_in_single_precision_are_those_in_double():
    model = far_from_zero()
    data = read_model(model, model.value_vars, None, None)
    assert {a.dtype for a in data.rows.arrays} == {np.dtype("float32")}
    theta, near = np.array([100.0, 0.3, -0.2, np.log(0.1)]), np.array([100.00001, 0.3, -0.2, np.log(0.1)])
    batch = data.rows.take(np.arange(9)).arrays
    new, old = compile_density(data.likelihood).both_sides(near, theta, np.empty(0), *batch)
    rows, values = x[:9].astype("f4").astype(float), y[:9].astype("f4").astype(float)
    due_new, due_old = (stats.norm.logpdf(values, at[0] + rows @ at[1:3], np.exp(at[3])) for at in (near, theta))
    # But for the constant of the density, which PyMC itself rounds.
    assert np.allclose(new - old, due_new - due_old, rtol=1e-6, atol=1e-12)
    assert np.allclose(new, due_new, rtol=1e-6)
    assert np.all(new != old)  # in single precision a step of 1e-5 at 100 is hardly one


@pytest.mark.slow
@pytest.mark.usefixtures("single")
def test_the_posterior_in_single_precision():
    """Without warnings: an expansion was called wrong because of rounding, and chains went astray."""
    model = far_from_zero()
    idata = sampled(model, pma.PenaltyMH(model=model, progressbar=False), 400, tune=200, seed=1)
    draws = idata.posterior
    assert draws["level"].dtype == np.float32
    assert (idata.sample_stats["n_rows"] < N).all()
    design = np.column_stack([np.ones(N), x])
    coefficients, squares, *_ = np.linalg.lstsq(design, y)
    error = np.sqrt(squares[0] / (N - 3) / N)
    assert abs(float(draws["level"].mean()) - coefficients[0]) < 0.3 * error
    assert abs(float(draws["level"].std()) / error - 1) < 0.2


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_a_product_of_two_types_is_compiled_as_one_of_floats(dtype):
    """By numba's own product: PyTensor's for operands of two types compiles for a minute."""
    design, slopes = pt.matrix("design", dtype=dtype), pt.dvector("slopes")
    function = compile_log_density([design, slopes], design @ slopes, mode="NUMBA")
    names = [type(n.op).__name__ for n in function.maker.fgraph.toposort()]
    assert "Product" in names
    assert "Dot" not in names
    values = np.arange(6).reshape(3, 2).astype(dtype)
    assert np.allclose(function(values, np.array([0.5, 2.0])), values @ [0.5, 2.0])


@pytest.mark.parametrize("convert", [np.int64, float])
def test_whole_numbers_that_were_cut_to_32_bits_are_named(convert, recwarn):
    """As PyMC cuts those of a pm.Data, without a word."""
    nanoseconds = 10**18 + 3_600 * 10**9 * np.arange(50)
    with pm.Model() as model:
        dates = pm.Data("dates", nanoseconds.astype(convert))
        pm.Normal("y", pm.Normal("a") + pm.Normal("b", 0, 1e-18) * dates, 1, observed=y[:50])
    data = read_model(model, model.value_vars, None, None)
    assert (dates.get_value() == nanoseconds).all() == (convert is float)
    assert data.rows.arrays
    said = [str(w.message) for w in recwarn if "'dates' of 'y' are whole numbers of 32 bits" in str(w.message)]
    assert len(said) == (convert is not float)
