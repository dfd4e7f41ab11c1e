"""The quadratic that steers: averaged over the posterior, stored by its entries, and never part of a decision."""

import numpy as np
import pymc as pm
import pytest
from evidence import moments_on_grid
from scipy import stats

import pymc_austerity as pma
from pymc_austerity.kernel.assembly import _learn
from pymc_austerity.proxy import centre, log_posterior
from pymc_austerity.proxy.full_pass import Sums
from pymc_austerity.proxy.linear_maps import CompressedRows, dense
from pymc_austerity.proxy.linearisation import average, linearise

pytestmark = pytest.mark.slow

GROUPS, PER_GROUP, SPREAD = 150, 6, 2.0


def test_hessian_held_by_the_prior_is_kept():
    """Made concave by itself it would be too narrow beside a prior that curves down more than it curves up."""
    bent = np.diag([-4.0, 3.0])
    at = (np.arange(2), np.zeros(2), Sums(0.0, np.zeros(2), bent))
    np.testing.assert_array_equal(dense(linearise(*at, lambda: np.diag([-1.0, -5.0])).hessian), bent)
    for prior, temperature in ((np.diag([-1.0, -2.0]), 1.0), (np.diag([-1.0, -5.0]), 0.5)):
        concave = linearise(*at, lambda prior=prior: prior, temperature)
        np.testing.assert_allclose(dense(concave.hessian), np.diag([-4.0, 0.0]))


def test_rows_that_curve_up_are_held_by_the_prior():
    """3,000 rows with the log-likelihood 0.015 (b − y)² beside a prior of the precision 100."""
    with pm.Model() as model:
        values = pm.Data("values", np.random.default_rng(6).normal(size=3_000))
        pm.Potential("rows", 0.015 * (pm.Normal("b", 0, 0.1) - values) ** 2)
    prepared = pma.PenaltyMH(model=model).decider.parts.prepared
    assert prepared.expansion.hessian == pytest.approx(np.array([[90.0]]))
    assert prepared.draws.std() == pytest.approx(1 / np.sqrt(100 - 90), rel=0.2)  # made concave, it would be 0.1


def exponentials(psi, fixed, rows):
    """Derivatives of Σ_k −exp(ψ_k), as a pass over the rows of a Poisson model would return them."""
    return Sums(-np.exp(psi).sum(), -np.exp(psi), np.diag(-np.exp(psi)))


exponentials.coordinates = np.arange(3)


def averaged(take):
    """z-scores of the averages against E exp(ψ) = exp(m + ½v), where `take` says what is averaged."""
    rng = np.random.default_rng(3)
    mean, sd, psi, n = np.array([0.5, -1.0, 0.0]), np.array([0.3, 0.5, 0.4]), np.array([0.4, -0.8, 0.1]), 24
    found = []
    for _ in range(200):
        draws = mean + sd * rng.standard_normal((n, 3))
        found.append(take(exponentials, exponentials(psi, (), None), draws, psi, (), range(100), range(100)))
    expected = -np.exp(mean + sd**2 / 2)  # of gradient and curvature alike
    hessians = np.array([np.diag(sums.hessian) for sums in found])
    gradients = np.array([sums.gradient for sums in found]) + hessians * (mean - psi)
    return np.array([(g.mean(0) - expected) / (g.std(0) / np.sqrt(len(g))) for g in (gradients, hessians)])


def at_the_centre(full_pass, sums, draws, psi, fixed, rows, part):
    """Planted mistake: the derivatives at the centre, whatever the spread."""
    return sums._replace(hessian=sums.hessian + 1e-9 * np.diag(draws.std(axis=0)))


def test_averages_are_expectations_over_the_posterior():
    assert np.abs(averaged(average)).max() < 6
    assert np.abs(averaged(at_the_centre)).min() > 20


def test_mirror_image_of_a_tail_is_left_out():
    """Of draws as far out as −200 the images have curvatures up to e^100, beside which all others vanish."""
    rng = np.random.default_rng(4)
    tail = np.column_stack([-30 * rng.exponential(size=24), 0.3 * rng.standard_normal((24, 2))])
    centre = np.zeros(3)
    found = average(exponentials, exponentials(centre, (), None), tail, centre, (), range(100), range(100))
    assert -60 < found.hessian.min() < 0
    assert found.hessian[1, 1] == pytest.approx(-1, abs=0.5)


def test_derivatives_at_the_centre_serve_without_density():
    def breaks(psi, fixed, rows):
        return Sums(np.nan, np.full(3, np.nan), np.full((3, 3), np.nan))

    breaks.coordinates = np.arange(3)
    at_centre = exponentials(np.zeros(3), (), None)
    assert average(breaks, at_centre, np.eye(3), np.zeros(3), (), range(100), range(100)) is at_centre


def groups():
    """Group means with a known spread and an unknown error σ; mean and sd of log σ by quadrature."""
    rng = np.random.default_rng(4)
    group = np.repeat(np.arange(GROUPS), PER_GROUP)
    y = rng.normal(0, SPREAD, GROUPS)[group] + rng.normal(size=group.size)
    with pm.Model() as model:
        effect, sigma = pm.Normal("effect", 0, SPREAD, shape=GROUPS), pm.HalfNormal("sigma", 5)
        pm.Normal("y", effect[group], sigma, observed=y)
    log_sigma = np.linspace(-0.25, 0.25, 2_001)
    variance = np.exp(2 * log_sigma)
    means = y.reshape(GROUPS, PER_GROUP).mean(axis=1)
    within = ((y.reshape(GROUPS, PER_GROUP) - means[:, None]) ** 2).sum()
    log_p = stats.halfnorm(scale=5).logpdf(np.exp(log_sigma)) + log_sigma
    log_p += -GROUPS * (PER_GROUP - 1) * log_sigma - within / (2 * variance)
    total = SPREAD**2 + variance / PER_GROUP
    log_p += -0.5 * GROUPS * np.log(total) - (means**2).sum() / (2 * total)
    return model, *moments_on_grid(log_sigma, log_p)


def test_surrogate_corrects_a_scale_of_many_coefficients(monkeypatch):
    model, mean, sd = groups()
    step = pma.PenaltyMH(model=model, proxy=pma.Taylor())

    def off_by():
        """Learn again by what was compiled; return the shift of log σ on the surrogate in posterior sds."""
        prepared = _learn(step.decider.parts, step.decider.compiled).prepared
        return (prepared.draws[:, -1].mean() - mean) / sd

    prepared = step.decider.parts.prepared
    assert abs(prepared.draws[:, -1].mean() - mean) < sd
    # Products are by the entries of the Hessian, and of the diagonal of a mass matrix.
    assert isinstance(prepared.move.linearisation.hessian, CompressedRows)
    assert prepared.move.factor.ndim == 1
    # From a third of the rows, as where there are very many: what they add to the expansion of all.
    monkeypatch.setattr(log_posterior, "_MAX_ROWS", 500)
    monkeypatch.setattr(log_posterior, "_PART", 300)
    assert abs(off_by()) < 1.5
    monkeypatch.setattr(centre, "average", lambda full_pass, sums, *_: sums)
    assert off_by() < -3
