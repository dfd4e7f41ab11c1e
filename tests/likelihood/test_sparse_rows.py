"""Products of a sparse matrix of data are read by their entries, and are the products that PyMC computes."""

import logging

import numpy as np
import pymc as pm
import pytensor
import pytensor.sparse as ps
import pytensor.tensor as pt
import pytest
from rowwise import evaluated
from scipy import sparse

import pymc_austerity as pma
from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.likelihood import read_model, sparse_rows
from pymc_austerity.likelihood.density import Density, interpret_rows
from pymc_austerity.likelihood.layout import flatten
from pymc_austerity.likelihood.row_check import check_rows
from pymc_austerity.likelihood.row_likelihood import row_likelihood

N, P = 90, 24
_rng = np.random.default_rng(5)
_kept = sparse.diags((np.arange(N) != 7) * 1.0)  # row 7 has no entries
TABLE = sparse.csr_matrix(_kept @ sparse.random(N, P, 0.12, format="csr", random_state=3))
TABLE.eliminate_zeros()
LABELS = _rng.integers(0, 2, N)
CLASSES = _rng.integers(0, 3, N)
DENSE = _rng.standard_normal(N)


def logistic(product=ps.dot, table=TABLE):
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=P)
        pm.Bernoulli("y", logit_p=pm.Normal("intercept") + product(table, beta), observed=LABELS)
    return model


def softmax():
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=(P, 3))
        pm.Categorical("y", logit_p=ps.structured_dot(ps.as_sparse_variable(TABLE), beta), observed=CLASSES)
    return model


def mean_and_scale():
    with pm.Model() as model:
        beta, gamma = pm.Normal("beta", 0, 1, shape=P), pm.Normal("gamma", 0, 0.3, shape=P)
        sigma = pm.math.exp(ps.dot(TABLE, gamma))
        pm.Normal("y", ps.dot(TABLE, beta) + pm.Normal("slope") * DENSE, sigma, observed=DENSE)
    return model


def mostly_filled():
    return logistic(table=sparse.random(N, P, 0.8, format="csr", random_state=4))


TURNED = sparse.csr_matrix(TABLE.T)
#: Products of tables that hold rows on the second axis, or are made from constants.
MADE = {
    "by columns on the second axis": lambda beta: ps.dot(beta, TURNED.tocsc()),
    "some rows of more": lambda beta: ps.dot(ps.as_sparse_variable(sparse.vstack([TABLE, TABLE], "csr"))[:N], beta),
    "made dense": lambda beta: ps.dense_from_sparse(ps.as_sparse_variable(TABLE)) @ beta,
    "sums of rows": lambda beta: ps.sp_sum(ps.as_sparse_variable(TABLE), axis=1) * beta[0],
}


def softmax_on_the_second_axis():
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=(3, P))
        pm.Categorical("y", logit_p=ps.dot(beta, TURNED).T, observed=CLASSES)
    return model


def densities_of_rows(model):
    """Return the log-likelihood of all rows and of some, at two points, and the same as PyMC computes it."""
    rng = np.random.default_rng(1)
    likelihood, source, _ = row_likelihood(model)
    rows_of, arrays = evaluated(likelihood), source.row_arrays()
    by_pymc = model.compile_logp(vars=model.observed_RVs, sum=False, mode=BY_NUMPY)
    found, expected = [], []
    for _ in range(2):
        point = {name: rng.normal(0, 0.5, np.shape(value)) for name, value in model.initial_point().items()}
        (values,) = by_pymc(point)
        for numbers in (np.arange(N), rng.integers(0, N, 13)):
            found.append(rows_of(flatten(point, likelihood.blocks), np.empty(0), *(a[numbers] for a in arrays)))
            expected.append(values[numbers])
    return np.concatenate(found), np.concatenate(expected)


@pytest.mark.parametrize(
    "build",
    [logistic, softmax, softmax_on_the_second_axis, mean_and_scale, mostly_filled]
    + [lambda made=made: logistic(lambda _, beta: made(beta)) for made in MADE.values()],
)
def test_rows_have_the_density_that_pymc_computes(build):
    found, expected = densities_of_rows(build())
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_a_row_takes_its_entries_and_nothing_else():
    longest = int(np.diff(TABLE.indptr).max())
    _, source, _ = row_likelihood(logistic())
    assert sorted(a.shape for a in source.row_arrays()) == sorted([(N,), (N, longest), (N, longest)])
    _, source, _ = row_likelihood(mean_and_scale())
    assert [a.shape for a in source.row_arrays()].count((N, longest)) == 2  # one table, read twice
    _, source, _ = row_likelihood(mostly_filled())
    assert (N, P) in [a.shape for a in source.row_arrays()]


def test_a_column_off_by_one_is_seen_by_the_check_of_rows(monkeypatch):
    real = sparse_rows._leaves

    def shifted(matrix, name, number):
        values, columns = real(matrix, name, number)
        columns.source.data[:] = (columns.source.data + 1) % P
        yield from (values, columns)

    monkeypatch.setattr(sparse_rows, "_leaves", shifted)
    model = logistic()
    data = read_model(model, model.value_vars, None, None)
    with pytest.raises(pma.NotRowWiseError, match="depends on the other rows"):
        check_rows(model, data, Density(None, interpret_rows(data.likelihood)))


def summed_over_rows(table, beta):
    return ps.dot(table, beta).mean() + ps.dot(table, beta)


def of_another_product(table, beta):
    return ps.as_sparse_variable(table) @ beta


def of_an_estimated_table(table, beta):
    return ps.dot(ps.col_scale(ps.as_sparse_variable(table), beta), pt.ones(P))


def of_a_shared_table_transposed(table, beta):
    return ps.dot(pytensor.shared(sparse.csr_matrix(table.T), name="words").T, beta)


@pytest.mark.parametrize(
    ("product", "said"),
    [
        (summed_over_rows, "does not split into rows"),
        (of_another_product, r"op Matmul.*Write pytensor.sparse.dot\(X, beta\)"),
        (of_an_estimated_table, r"op SparseDot.*Write pytensor.sparse.dot\(X, beta\)"),
        (of_a_shared_table_transposed, "'words'.*Give the matrix itself to pytensor.sparse.dot"),
    ],
)
def test_what_ties_rows_together_or_may_change_is_refused(product, said):
    with pytest.raises(pma.NotRowWiseError, match=said):
        row_likelihood(logistic(product))


def test_rows_much_longer_than_the_others_are_mentioned(caplog):
    table = sparse.lil_matrix((N, 400))
    table[:, 0] = 1.0
    table[5, :150] = 2.0
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=400)
        pm.Bernoulli("y", logit_p=ps.dot(table.tocsr(), beta), observed=LABELS)
    with caplog.at_level(logging.INFO, "pymc_austerity"):
        row_likelihood(model)
    assert "150 a row at most, 2.66 on average" in caplog.text
    assert [r.levelname for r in caplog.records if "cap the entries of a row" in r.message] == ["WARNING"]
