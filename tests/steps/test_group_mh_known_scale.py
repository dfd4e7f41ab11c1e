"""Normal errors of unknown scale, two crossed factors: `GroupMH` reads no row, and is right by quadrature.

Given three scales everything else is jointly normal; the scales are summed over a grid of their logarithms.  Effects of
the second factor are apart, or all alike: then its scale may be zero.
"""

from copy import copy

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z
from grouped import largest_z, mean_and_sd, moves
from scipy import stats

import pymc_austerity as pma
from pymc_austerity.groups.group_decider import described
from pymc_austerity.groups.group_preparation import prepare_groups
from pymc_austerity.groups.group_search import GroupSearch
from pymc_austerity.likelihood import read_model

G, H, N = 9, 7, 150
RNG = np.random.default_rng(13)
#: The first group of either factor has no rows.
FIRST, SECOND, X = RNG.integers(1, G, N), RNG.integers(1, H, N), RNG.normal(size=N)
Y = 0.4 + 0.5 * X + 0.8 * RNG.normal(size=G)[FIRST] + 0.7 * RNG.normal(size=N)
APART = {"apart": Y + np.linspace(-0.9, 0.9, H)[SECOND], "all alike": Y}
DESIGN = np.column_stack([np.ones(N), X, np.eye(G)[FIRST], np.eye(H)[SECOND]])
N_DRAWS = 16_000
WATCHED = [0, 1, 2, 3, 2 + G, 3 + G]
LOCATION, WIDTH = -0.3, 0.5


@pytest.fixture(scope="module", params=APART)
def case(request):
    return request.param


@pytest.fixture(scope="module")
def model(case):
    with pm.Model() as model:
        log_sigma = pm.Normal("log_sigma", LOCATION, WIDTH)
        log_scale = pm.Normal("log_scale", LOCATION, WIDTH)
        intercept, slope = pm.Normal("intercept"), pm.Normal("slope")
        first = pm.Normal("first", 0, pm.math.exp(log_scale), shape=G)
        second = pm.Normal("second", 0, pm.HalfNormal("scale"), shape=H)
        mean = intercept + slope * X + first[FIRST] + second[SECOND]
        pm.Normal("y", mean, pm.math.exp(log_sigma), observed=pm.Data("observed", APART[case]))
    return model


@pytest.fixture(scope="module")
def step(model):
    return pma.GroupMH(model=model, rng=1, progressbar=False)


@pytest.fixture(scope="module")
def law(case):
    """Means and sds of what is watched and of the three log scales."""
    y, axes = APART[case], (np.linspace(-0.7, 0.1, 17), np.linspace(-2, 1.2, 21), np.linspace(-9, 1.5, 64))
    s, a, b = (x.ravel() for x in np.meshgrid(*axes))
    prior = np.column_stack(
        [np.ones((s.size, 2)), *(np.exp(-2 * x)[:, None].repeat(n, 1) for x, n in ((a, G), (b, H)))]
    )
    rate, moment = np.exp(-2 * s), DESIGN.T @ y
    precision = rate[:, None, None] * (DESIGN.T @ DESIGN) + prior[:, :, None] * np.eye(prior.shape[1])
    covariance = np.linalg.inv(precision)
    mean = rate[:, None] * (covariance @ moment)
    log_weight = stats.norm.logpdf([s, a], LOCATION, WIDTH).sum(axis=0) + stats.halfnorm.logpdf(np.exp(b)) + b - N * s
    log_weight += rate * (mean @ moment - y @ y) / 2 + (np.log(prior).sum(1) - np.linalg.slogdet(precision)[1]) / 2
    spread = np.column_stack([np.diagonal(covariance, 0, 1, 2)[:, WATCHED], np.zeros((s.size, 3))])
    return mean_and_sd(log_weight, np.column_stack([mean[:, WATCHED], s, a, b]), spread)


def _run(decider, n, data=None):
    made = list(moves(decider, n, data, seed=5))
    assert all(carried.n_rows == refresh.n_rows == 0 for _, carried, refresh in made)
    return np.array([refresh.theta for *_, refresh in made])


def _largest_z(decider, law, draws):
    start = {b.name: b.start for b in decider.model.likelihood.blocks}
    places = [start["intercept"], start["slope"], start["first"], start["first"] + 1, start["second"]]
    places += [start["second"] + 1, start["log_sigma"], start["log_scale"], start["scale_log__"]]
    return largest_z(draws[:, places].T, law)


@pytest.mark.slow
def test_moments_of_quadrature_without_rows(step, law):
    decider = step.decider
    draws = _run(decider, N_DRAWS)
    assert _largest_z(decider, law, draws) < MAX_Z
    assert "no row is read" in described(decider)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["apart"], indirect=True)
@pytest.mark.parametrize("wrong", [{"power": -1.7}, {"squares": -1.1 * N / 2}], ids=str)
def test_an_expansion_that_follows_the_scale_wrongly_is_seen(step, law, wrong):
    data = step.decider.data()
    e = data.expansion
    data = data._replace(expansion=e._replace(scale=e.scale._replace(**wrong)))
    assert _largest_z(step.decider, law, _run(step.decider, N_DRAWS // 2, data)) > MAX_Z


@pytest.mark.slow
@pytest.mark.parametrize("case", ["apart"], indirect=True)
@pytest.mark.parametrize("wrong", [{"power": -1.9}, {"slope": -0.99}], ids=str)
def test_a_scale_that_was_misread_is_seen_before_sampling(model, step, wrong):
    compiled, data = step.decider.model, read_model(model, model.value_vars, None, None)
    prepare_groups(GroupSearch.of(data, compiled))
    misread = copy(compiled)
    vars(misread)["row_scale"] = compiled.row_scale._replace(**wrong)
    with pytest.raises(ValueError, match="derivative of the likelihood is wrong"):
        prepare_groups(GroupSearch.of(data, misread))
