"""Shifts of effects against those nested in them: which there are, and what they draw from."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z
from grouped import largest_z, mean_and_sd, search_of
from scipy import stats

import pymc_austerity as pma
from pymc_austerity.compile.cache import cached
from pymc_austerity.groups.group_parts import data_by_reference
from pymc_austerity.groups.group_shifts import find_nested
from pymc_austerity.groups.prior_moves import build_nested_shift
from pymc_austerity.kernel import pack_generators

C, S, N = 12, 3, 300
RNG = np.random.default_rng(4)
CLASS, X = RNG.permutation(np.repeat(np.arange(C), N // C)), RNG.normal(size=N)
SCHOOL_OF, OTHER = np.arange(C) % S, RNG.integers(0, S, N)
SCHOOL, Y = SCHOOL_OF[CLASS], RNG.integers(0, 2, N)
#: Scales of the effects of classes and of schools.
SCALES = 0.7, 0.4


def effects(name, scale, shape):
    """Effects whose scale is known to a thousandth, so that they learn from each other."""
    return pm.Normal(name, 0, pm.math.exp(pm.Normal(f"log_{name}", np.log(scale), 1e-3)), shape=shape)


def model_of(eta_of):
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=pm.Normal("a") + eta_of(), observed=Y)
    return model


def intercepts():
    return effects("u", SCALES[0], C)[CLASS] + effects("v", SCALES[1], S)[SCHOOL]


def slopes():
    """Intercepts and slopes of classes in those of schools; no intercept within a slope."""
    u, v = effects("u", SCALES[0], (C, 2)), effects("v", SCALES[1], (S, 2))
    return u[CLASS, 0] + u[CLASS, 1] * X + v[SCHOOL, 0] + v[SCHOOL, 1] * X


def crossed():
    return effects("u", SCALES[0], C)[CLASS] + effects("v", SCALES[1], S)[OTHER]


def student():
    u = pm.StudentT("u", nu=3, sigma=pm.math.exp(pm.Normal("log_u", np.log(SCALES[0]), 1e-3)), shape=C)
    return u[CLASS] + effects("v", SCALES[1], S)[SCHOOL]


@pytest.mark.parametrize(
    ("eta", "n_pairs"), [(intercepts, 1), pytest.param(slopes, 2, marks=pytest.mark.slow), (crossed, 0)]
)
def test_effects_within_others_are_found(eta, n_pairs):
    search = search_of(model_of(eta))
    nested = find_nested(search, search.data.theta0)
    assert np.diff(nested.start).tolist() == [C] * n_pairs
    for pair in range(n_pairs):
        own = slice(nested.start[pair], nested.start[pair + 1])
        assert (nested.child[own, 1] == nested.parent[own, 1]).all()
        assert np.array_equal(nested.parent[own, 0] - C, SCHOOL_OF[nested.child[own, 0]])
    assert np.allclose(nested.column, 1.0)


def _drawn(decider, nested, n=3_000):
    """Effects of schools by shifts alone, the sums with those of classes, and how much a row changed."""
    shift, generators = cached(build_nested_shift()), pack_generators(*np.random.default_rng(6).spawn(3))
    theta, data = decider.start(np.random.default_rng(5)), data_by_reference(decider.data()._replace(nested=nested))
    own = decider.model.groups.own[:, 0]
    sums, rows, drawn = theta[own[:C]] + theta[own[C:]][SCHOOL_OF], _rows(decider, theta), []
    for _ in range(n):
        theta = shift(theta, data, generators)
        drawn.append(theta[own[C:]])
    return np.array(drawn).T, sums, np.abs(_rows(decider, theta) - rows).max()


def _rows(decider, theta):
    at = decider.others, decider.fixed, decider.prepared.rows
    return np.concatenate(list(decider.model.group_pass.rows(theta, *at)))


def _moments(sums, prior_of_class):
    """Mean and standard deviation of the effect of each school given the sums, by quadrature."""
    v = np.linspace(-4, 4, 4_001)
    of_school = stats.norm(0, SCALES[1]).logpdf(v)
    of_classes = [prior_of_class.logpdf(sums[s == SCHOOL_OF][:, None] - v).sum(axis=0) for s in range(S)]
    return np.transpose([mean_and_sd(of_school + of, v) for of in of_classes])


@pytest.fixture(scope="module")
def decider():
    return pma.GroupMH(test=pma.Exact(), model=model_of(student), rng=1, progressbar=False).decider


@pytest.mark.slow
def test_effects_are_drawn_from_the_prior_given_the_sums(decider):
    """The control: the moments of a normal prior are told from these."""
    drawn, sums, change = _drawn(decider, decider.prepared.nested)
    z, z_of_normal = (
        largest_z(drawn, _moments(sums, prior)) for prior in (stats.t(3, 0, SCALES[0]), stats.norm(0, SCALES[0]))
    )
    assert change < 1e-9
    assert z < MAX_Z < z_of_normal


@pytest.mark.slow
def test_a_class_of_another_school_changes_rows(decider):
    """A planted mistake: two classes take each other's school."""
    nested = decider.prepared.nested
    parent = nested.parent.copy()
    parent[[0, 1]] = parent[[1, 0]]
    *_, change = _drawn(decider, nested._replace(parent=parent), n=2)
    assert change > 1e-3
