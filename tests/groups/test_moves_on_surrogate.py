"""What is shared, moved on the surrogate: a scale that may be zero, and one that may not, by quadrature."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z, moment_z
from numba import njit

import pymc_austerity as pma
from pymc_austerity.compile.by_reference import by_reference
from pymc_austerity.compile.cache import cached
from pymc_austerity.groups.carried_move import build_carried_move
from pymc_austerity.groups.group_chain import GroupChain
from pymc_austerity.groups.group_conditional import OnSurrogate
from pymc_austerity.groups.group_parts import data_by_reference
from pymc_austerity.groups.surrogate_move import build_surrogate_move
from pymc_austerity.kernel import pack_generators

pytestmark = pytest.mark.slow

#: Groups, rows of each, and the scale of their effects.
CASES = {"8, none": (8, 60, 0.0), "150, large": (150, 20, 0.8)}
N = 8_000
MEAN, LOG_SCALE = np.linspace(-1.5, 1.5, 61), np.linspace(-9, 1.2, 205)


def _ones(n_groups, n_rows, scale):
    """Ones of each group."""
    rng = np.random.default_rng(3)
    return rng.binomial(n_rows, 1 / (1 + np.exp(-scale * rng.standard_normal(n_groups))))


def _law(ones, n_rows):
    """Means of the mean and of the scale, sds, and the 5 and 95 % quantiles of the scale."""
    x, w = np.polynomial.hermite_e.hermegauss(60)
    u = MEAN[:, None, None] + np.exp(LOG_SCALE)[:, None] * x
    numbers, counts = np.unique(ones, return_counts=True)
    log_weight = -(MEAN[:, None] ** 2) / 8 - np.exp(2 * LOG_SCALE) / 2 + LOG_SCALE
    for number, count in zip(numbers, counts, strict=True):
        log_weight = log_weight + count * np.log(np.exp(number * u - n_rows * np.logaddexp(0, u)) @ w)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    scale, of_scale, of_mean = np.exp(LOG_SCALE), weight.sum(axis=0), weight.sum(axis=1)
    moments = [(of @ v, np.sqrt(of @ v**2 - (of @ v) ** 2)) for of, v in ((of_mean, MEAN), (of_scale, scale))]
    return moments, np.interp([0.05, 0.95], np.cumsum(of_scale) - of_scale / 2, scale)


@pytest.fixture(scope="module", params=CASES)
def case(request):
    n_groups, n_rows, scale = CASES[request.param]
    ones = _ones(n_groups, n_rows, scale)
    index = np.repeat(np.arange(n_groups), n_rows)
    observed = (np.tile(np.arange(n_rows), n_groups) < ones[index]).astype(int)
    with pm.Model() as model:
        mean, scale = pm.Normal("mean", 0, 2), pm.HalfNormal("scale")
        pm.Bernoulli("y", logit_p=pm.Normal("effect", mean, scale, shape=n_groups)[index], observed=observed)
        decider = pma.GroupMH(model=model, rng=1, progressbar=False).decider
    return decider, _law(ones, n_rows)


def _largest_z(case, carried=None):
    """Of draws of the mean and the scale, and how often the scale is below its quantiles."""
    decider, (moments, quantiles) = case
    data, looks, state, rng = decider.data(), decider.looks_of_large(), decider.new_state(), np.random.default_rng(2)
    generators, theta, draws = pack_generators(*rng.spawn(3)), decider.start(rng), np.empty((2, N))
    read = data_by_reference(data), by_reference(state)
    for i in range(N):
        if carried is not None:
            for _ in range(4):
                state.phi[:] = np.nan  # what belongs to φ is worked out anew, with the mistake and without it
                theta = carried(theta, *read, generators)[0].theta
            state.phi[:] = np.nan
        theta = decider.move(theta, data, state, looks, generators)[1].theta
        draws[:, i] = theta[0], np.exp(theta[1])
    mean, scale = draws.reshape(2, 4, -1)
    below = [moment_z((scale < q).astype(float), p, np.sqrt(p * (1 - p)))[0] for q, p in zip(quantiles, (0.05, 0.95))]
    return max(np.abs(z).max() for z in [*map(moment_z, (mean, scale), *zip(*moments)), below])


def test_scales_have_the_law_of_quadrature(case):
    assert _largest_z(case) < MAX_Z


def test_the_mean_of_effects_is_normal_given_their_scale(case):
    decider, _ = case
    steps = decider.prepared.steps
    assert (steps.normal.tolist(), steps.sliced.tolist()) == ([0], [1])


def _no_ratio(along, given):
    """The planted mistake: what the surrogate says of both ends does not enter the ratio."""
    move = build_surrogate_move(along, given)

    @njit
    def without(rng, here, z, data, shared):
        there = move(rng, here, z, data, shared)
        return OnSurrogate(there.phi, there.theta, there.conditional, there.log_prior, here.value)

    return without


@pytest.mark.parametrize("case", ["8, none"], indirect=True)
def test_a_ratio_without_the_surrogate_is_seen(case):
    decider, _ = case
    assert decider.prepared.steps.share > 0.5
    parts = decider.parts._replace(normal=False)  # slices alone, which are compiled sooner
    assert _largest_z(case, cached(build_carried_move(parts, build_move=_no_ratio))) > MAX_Z


@pytest.mark.parametrize("case", ["150, large"], indirect=True)
def test_slices_find_their_widths(case):
    """They begin a millionth as wide, as where the mode is at a scale of zero, and stay so while nothing is tuned."""
    decider, _ = case
    steps = decider.prepared.steps
    steps = steps._replace(axes=1e-6 * steps.axes, oblique=1e-6 * steps.oblique, share=1.0)

    chain = GroupChain(replace(decider, prepared=decider.prepared._replace(steps=steps)), np.random.default_rng(5))
    theta = chain.start
    for tuned in (False, True):
        for _ in range(300):
            theta = chain.tuning_draw(theta, decider.others, 1.0, tuned).outcome.theta
        width = 1e-6 * chain.state.shared.wider
        assert (width > 0.01).all() == tuned
    assert (width < 2).all()
