"""Linear predictors of rows are found, and the entries of the parameters that rows pick are those of the Jacobian."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.sparse as ps
import pytensor.tensor as pt
import pytest
from packaging.version import Version
from pytensor.graph.replace import graph_replace
from scipy import sparse, special

from pymc_austerity.likelihood.affine import row_predictor
from pymc_austerity.likelihood.row_entries import find_row_entries, reads_few_entries
from pymc_austerity.likelihood.row_likelihood import row_likelihood
from pymc_austerity.proxy import log_posterior
from pymc_austerity.proxy.full_pass import FullPass, read_coordinates
from pymc_austerity.proxy.log_posterior import NoProxyError, expanded_coordinates
from pymc_austerity.rows import Rows

N, P = 300, 240
_rng = np.random.default_rng(11)
TABLE = sparse.random(N, P, 0.02, format="csr", random_state=1)
GROUP, X = _rng.integers(0, 20, N), _rng.normal(size=N)
LABELS = _rng.integers(0, 2, N)
Z, EXPOSURE = _rng.normal(size=(N, 3)), _rng.uniform(0.5, 1, N)


def words_and_groups(slope=lambda beta: pm.Normal("slope")):
    beta, u = pm.Normal("beta", 0, pm.HalfNormal("width"), shape=P), pm.Normal("u", shape=20)
    cells = pm.Normal("cells", shape=(4, 5))
    eta = pm.Normal("a") + ps.dot(TABLE, beta) + u[GROUP] + cells[GROUP % 4, GROUP % 5] + slope(beta) * X
    pm.Bernoulli("y", logit_p=eta, observed=LABELS)


def one_in_two_ways():
    """A coefficient of the table is the slope of a number of every row too."""
    words_and_groups(slope=lambda beta: beta[3])


def all_columns():
    pm.Bernoulli("y", logit_p=pt.dot(TABLE.toarray(), pm.Normal("beta", shape=P)), observed=LABELS)


def few_parameters():
    pm.Bernoulli("y", logit_p=pm.Normal("u", shape=20)[GROUP], observed=LABELS)


def scaled():
    """Not centred: the product of a scale and a coefficient is not linear in the two."""
    pm.Bernoulli("y", logit_p=ps.dot(TABLE, pm.HalfNormal("tau") * pm.Normal("z", shape=P)), observed=LABELS)


def turned():
    """Rows are the second axis of what they pick."""
    picked = pm.Normal("beta", shape=P).reshape((P // 4, 4)).T[:, GROUP]
    pm.Bernoulli("y", logit_p=(picked * np.arange(4.0)[:, None]).sum(axis=0), observed=LABELS)


def likelihood_of(define):
    with pm.Model() as model:
        define()
    likelihood, source, _ = row_likelihood(model)
    return likelihood, source.row_arrays()


@pytest.mark.versions
@pytest.mark.parametrize("define", [words_and_groups, one_in_two_ways])
def test_entries_are_those_of_the_jacobian(define):
    likelihood, arrays = likelihood_of(define)
    psi, d = likelihood.psi_vector("psi"), likelihood.theta_size
    (rows,) = graph_replace([likelihood.row_log_likelihood], {likelihood.theta: psi[:d]}, strict=False)
    eta = row_predictor(rows, psi, likelihood.batches)
    if define is one_in_two_ways and eta is None:
        assert Version(pytensor.__version__) < Version("3")
        pytest.skip("this PyTensor writes beta[3] by the length of beta, which is not seen to be no value of it")
    entries = find_row_entries(eta, psi, likelihood.batches)
    outputs = [eta, entries.rest, entries.columns, entries.values]
    evaluate = pm.compile([psi, *likelihood.batches], outputs, mode="FAST_COMPILE", on_unused_input="ignore")
    origin, _, columns, values = evaluate(np.zeros(d), *arrays)
    expected = np.array([evaluate(one, *arrays)[0] - origin for one in np.eye(d)]).T
    rest = np.array([evaluate(one, *arrays)[1] for one in np.eye(d)]).T
    found = rest.copy()
    for k in range(columns.shape[1]):
        np.add.at(found, (np.arange(N), columns[:, k]), values[:, k])
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert set(np.flatnonzero(rest.any(axis=0))) <= set(entries.read_by_all)
    assert entries.read_by_all.size < 3  # the intercept and the slope, though rows pick 269 more
    # Negative control: without what is read in both ways.
    assert not np.allclose(found - rest, expected)


@pytest.mark.versions
@pytest.mark.parametrize("define", [all_columns, few_parameters, scaled, turned])
def test_no_entries_are_claimed_of_other_rows(define):
    likelihood, _ = likelihood_of(define)
    assert not reads_few_entries(likelihood)
    assert reads_few_entries(likelihood_of(words_and_groups)[0])


def hessian_of_whole_rows(likelihood, coordinates, psi, shift=0):
    """The sum over rows by hand, of entries that lie `shift` columns further to the right."""
    whole = {
        "beta": TABLE.toarray(), "u": np.eye(20)[GROUP], "cells": np.eye(20)[5 * (GROUP % 4) + GROUP % 5],
        "a": np.ones((N, 1)), "slope": X[:, None],
    }  # fmt: skip
    design = np.zeros((N, psi.size))
    for block in likelihood.blocks:
        if block.name in whole:
            design[:, block.start : block.stop] = np.roll(whole[block.name], shift, axis=1)
    assert set(np.flatnonzero(design.any(axis=0))) <= set(coordinates)
    p = special.expit(design @ psi)
    return -((design.T * (p * (1 - p))) @ design)[np.ix_(coordinates, coordinates)]


@pytest.mark.versions
@pytest.mark.slow
def test_the_hessian_from_entries_is_that_of_whole_rows():
    likelihood, arrays = likelihood_of(words_and_groups)
    coordinates, rows = read_coordinates(likelihood), Rows(arrays)
    psi = 0.3 * np.random.default_rng(2).normal(size=likelihood.theta_size)
    by_entries = FullPass(likelihood, coordinates)
    hessian = by_entries(psi, (), rows).hessian
    assert by_entries.sums.by_entries
    np.testing.assert_allclose(hessian, hessian_of_whole_rows(likelihood, coordinates, psi), atol=1e-12)
    # Negative control: each entry taken for that of the column beside it.
    assert not np.allclose(hessian, hessian_of_whole_rows(likelihood, coordinates, psi, shift=1))


@pytest.mark.versions
def test_too_many_parameters_for_a_hessian_are_refused(monkeypatch):
    monkeypatch.setattr(log_posterior, "_MAX_EXPANDED", 200)
    words, dense = likelihood_of(words_and_groups)[0], likelihood_of(all_columns)[0]
    assert expanded_coordinates(words).size == P + 42
    with pytest.raises(NoProxyError, match="240 parameters.*read them all serves up to 200.*Sparse tables"):
        expanded_coordinates(dense)
    monkeypatch.setattr(log_posterior, "_MAX_BY_ENTRIES", 250)
    with pytest.raises(NoProxyError, match="282 parameters.*read few of them serves up to 250"):
        expanded_coordinates(words)


def slopes(shape=3):
    return pm.Normal("b", 0, 1, shape=shape)


def normal(scale):
    return lambda: pm.Normal("y", Z @ (b := slopes()), scale(b), observed=Z[:, 0])


def logistic(eta):
    return lambda: pm.Bernoulli("y", logit_p=eta(slopes()), observed=LABELS)


def filled(size):
    """The number of rows is the only length of a shape; to look for it ended in an error of Python's."""
    return lambda: pm.Normal("y", pt.zeros(size) + pt.full(size, pm.Normal("mu")), 1, observed=Z[:, 0])


WITH_A_PREDICTOR = {
    "grouped logistic": logistic(lambda b: pm.Normal("a", 0, pm.HalfNormal("scale", 1), shape=4)[GROUP % 4] + Z @ b),
    "known scale": normal(lambda b: EXPOSURE),
    "filled": filled(N),
    "filled to a shape": filled((N,)),
}
WITHOUT = {
    "scale with a predictor": normal(lambda b: pt.exp(Z @ b[::-1])),
    "softmax": lambda: pm.Categorical("y", logit_p=pt.dot(Z, slopes((3, 3))), observed=GROUP % 3),
    "squared coefficients": logistic(lambda b: Z @ b**2),
    "product of coefficients": logistic(lambda b: pm.Normal("c", 0, 1) * (Z @ b)),
}


@pytest.mark.parametrize("name", [*WITH_A_PREDICTOR, *WITHOUT])
def test_a_predictor_is_found_where_rows_read_one_alone(name):
    likelihood, *_ = likelihood_of({**WITH_A_PREDICTOR, **WITHOUT}[name])
    rows, psi = likelihood.of_psi(likelihood.row_log_likelihood)
    found = row_predictor(rows, psi, likelihood.batches)
    assert (found is not None) == (name in WITH_A_PREDICTOR)
