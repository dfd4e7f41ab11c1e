"""What is shared, moved on the surrogate: a scale that may be zero, by quadrature."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z, moment_z
from numba import njit

import pymc_austerity as pma
from pymc_austerity.compile.by_reference import by_reference
from pymc_austerity.compile.cache import cached
from pymc_austerity.groups.group_chain import GroupChain
from pymc_austerity.groups.group_conditional import OnSurrogate
from pymc_austerity.groups.group_parts import data_by_reference
from pymc_austerity.groups.moves_on_all_rows import build_carried_move
from pymc_austerity.groups.surrogate_move import build_surrogate_move
from pymc_austerity.kernel import pack_generators

pytestmark = pytest.mark.slow

#: Of groups whose effects have no scale: rows of each, and how many of them are ones.
N_ROWS = 60
ONES = np.random.default_rng(3).binomial(N_ROWS, 0.5, 8)
N = 8_000
MEAN, LOG_SCALE = np.linspace(-1.5, 1.5, 61), np.linspace(-9, 1.2, 205)


def _law():
    """Means of the mean and of the scale, sds, and the 5 and 95 % quantiles of the scale."""
    x, w = np.polynomial.hermite_e.hermegauss(60)
    u = MEAN[:, None, None] + np.exp(LOG_SCALE)[:, None] * x
    numbers, counts = np.unique(ONES, return_counts=True)
    log_weight = -(MEAN[:, None] ** 2) / 8 - np.exp(2 * LOG_SCALE) / 2 + LOG_SCALE
    for number, count in zip(numbers, counts, strict=True):
        log_weight = log_weight + count * np.log(np.exp(number * u - N_ROWS * np.logaddexp(0, u)) @ w)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    scale, of_scale, of_mean = np.exp(LOG_SCALE), weight.sum(axis=0), weight.sum(axis=1)
    moments = [(of @ v, np.sqrt(of @ v**2 - (of @ v) ** 2)) for of, v in ((of_mean, MEAN), (of_scale, scale))]
    return moments, np.interp([0.05, 0.95], np.cumsum(of_scale) - of_scale / 2, scale)


@pytest.fixture(scope="module")
def decider():
    index, observed = np.repeat(np.arange(8), N_ROWS), (np.arange(N_ROWS) < ONES[:, None]).astype(int).ravel()
    with pm.Model():
        mean, scale = pm.Normal("mean", 0, 2), pm.HalfNormal("scale")
        pm.Bernoulli("y", logit_p=pm.Normal("effect", mean, scale, shape=8)[index], observed=observed)
        return pma.GroupMH(rng=1, progressbar=False).decider


def _largest_z(decider, carried=None):
    """Of draws of the mean and the scale, and how often the scale is below its quantiles."""
    moments, quantiles = _law()
    looks, state, rng = decider.looks_of_large(), decider.new_state(), np.random.default_rng(2)
    generators, theta, draws = pack_generators(*rng.spawn(3)), decider.start(rng), np.empty((2, N))
    read = data_by_reference(decider.data()), by_reference(state)
    for i in range(N):
        if carried is not None:
            for _ in range(4):
                state.phi[:] = np.nan  # what belongs to φ is worked out anew, with the mistake and without it
                theta = carried(theta, *read, generators)[0].theta
            state.phi[:] = np.nan
        theta = decider.move(theta, *read, looks, generators)[1].theta
        draws[:, i] = theta[0], np.exp(theta[1])
    mean, scale = draws.reshape(2, 4, -1)
    below = [moment_z((scale < q).astype(float), p, np.sqrt(p * (1 - p)))[0] for q, p in zip(quantiles, (0.05, 0.95))]
    return max(np.abs(z).max() for z in [*map(moment_z, (mean, scale), *zip(*moments)), below])


def test_scales_have_the_law_of_quadrature(decider):
    """The mean of the effects is normal given their scale."""
    steps = decider.prepared.steps
    assert (steps.normal.tolist(), steps.sliced.tolist()) == ([0], [1])
    assert _largest_z(decider) < MAX_Z


def _no_ratio(along, given):
    """The planted mistake: what the surrogate says of both ends does not enter the ratio."""
    move = build_surrogate_move(along, given)

    @njit
    def without(rng, here, z, data, shared):
        there = move(rng, here, z, data, shared)
        return OnSurrogate(there.phi, there.theta, there.conditional, there.log_prior, here.value)

    return without


def test_a_ratio_without_the_surrogate_is_seen(decider):
    assert decider.prepared.steps.share > 0.5
    parts = decider.parts._replace(normal=False)  # slices alone, which are compiled sooner
    assert _largest_z(decider, cached(build_carried_move(parts, build_move=_no_ratio))) > MAX_Z


def test_slices_find_their_widths(decider):
    """They begin a millionth as wide, as where the mode is at a scale of zero, and stay so while nothing is tuned."""
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
