"""The quadratic that steers: averaged over the posterior, stored by its entries, and never part of a decision."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy import special, stats
from statsmodels.tools.numdiff import approx_hess
from toy import arrow

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import group
from pymc_austerity.kernel.assembly import _learn
from pymc_austerity.proxy import centre, log_posterior
from pymc_austerity.proxy.full_pass import Sums
from pymc_austerity.proxy.linear_maps import CompressedRows, dense
from pymc_austerity.proxy.linearisation import average, linearise

pytestmark = pytest.mark.slow

GROUPS, PER_GROUP, SPREAD = 150, 6, 2.0


def test_hessian_is_made_concave():
    concave = linearise(np.arange(40), np.zeros(40), Sums(0.0, np.ones(40), arrow()))
    np.testing.assert_array_equal(dense(concave.hessian), arrow())
    bent = arrow()
    bent[0, 0] = 3.0
    assert np.linalg.eigvalsh(bent)[-1] > 1
    repaired = linearise(np.arange(40), np.zeros(40), Sums(0.0, np.ones(40), bent))
    assert np.linalg.eigvalsh(dense(repaired.hessian))[-1] < 1e-9
    np.testing.assert_array_equal(repaired.gradient, np.ones(40))


def test_hessian_held_by_the_prior_is_kept():
    """Made concave by itself it would be too narrow beside a prior that curves down more than it curves up."""
    bent = np.diag([-4.0, 3.0])
    at = (np.arange(2), np.zeros(2), Sums(0.0, np.zeros(2), bent))
    np.testing.assert_array_equal(dense(linearise(*at, lambda: np.diag([-1.0, -5.0])).hessian), bent)
    for prior, temperature in ((np.diag([-1.0, -2.0]), 1.0), (np.diag([-1.0, -5.0]), 0.5)):
        concave = linearise(*at, lambda prior=prior: prior, temperature)
        np.testing.assert_allclose(dense(concave.hessian), np.diag([-4.0, 0.0]))


@pytest.mark.slow
def test_part_of_the_rows_is_scaled_to_all():
    """Weibull lifetimes: the likelihood of those that ended is no hill, and the censored ones are in the prior."""
    rng = np.random.default_rng(6)
    time, limit = 9.0 * rng.weibull(1.1, 1_500), rng.uniform(3, 5, 1_500)
    ended, time = time < limit, np.minimum(time, limit)
    with pm.Model():
        scale, log_shape = pm.Normal("scale", 0, 10), pm.Normal("log_shape", 0, 1)
        shape = pm.math.exp(log_shape)
        pm.Weibull("ended", alpha=shape, beta=pm.math.exp(scale / shape), observed=time[ended])
        pm.Potential("censored", -((time[~ended] / pm.math.exp(scale / shape)) ** shape))
        prepared = pma.PenaltyMH(observed="ended").decider.parts.prepared
    assert np.linalg.eigvalsh(prepared.expansion.hessian)[-1] > 0

    def log_density(at):
        shape = np.exp(at[1])
        lives = stats.weibull_min(shape, scale=np.exp(at[0] / shape))
        prior = stats.norm.logpdf(at, 0, [10, 1]).sum()
        return prior + lives.logpdf(time[ended]).sum() + lives.logsf(time[~ended]).sum()

    sd = np.sqrt(np.diag(np.linalg.inv(-approx_hess(prepared.expansion.centre, log_density))))
    np.testing.assert_allclose(prepared.draws.std(axis=0), sd, rtol=0.3)


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


class Groups:
    """Group means with a known spread and an unknown error: the posterior by quadrature over the error."""

    def __init__(self):
        rng = np.random.default_rng(4)
        self.group = np.repeat(np.arange(GROUPS), PER_GROUP)
        self.y = rng.normal(0, SPREAD, GROUPS)[self.group] + rng.normal(size=self.group.size)
        with pm.Model() as self.model:
            effect, sigma = pm.Normal("effect", 0, SPREAD, shape=GROUPS), pm.HalfNormal("sigma", 5)
            pm.Normal("y", effect[self.group], sigma, observed=self.y)

    def exact(self):
        """Mean and standard deviation of every effect and, last, of log sigma."""
        log_sigma = np.linspace(-0.25, 0.25, 2_001)
        variance = np.exp(2 * log_sigma)
        means = self.y.reshape(GROUPS, PER_GROUP).mean(axis=1)
        within = ((self.y.reshape(GROUPS, PER_GROUP) - means[:, None]) ** 2).sum()
        log_p = stats.halfnorm(scale=5).logpdf(np.exp(log_sigma)) + log_sigma
        log_p += -GROUPS * (PER_GROUP - 1) * log_sigma - within / (2 * variance)
        total = SPREAD**2 + variance / PER_GROUP
        log_p += -0.5 * GROUPS * np.log(total) - (means**2).sum() / (2 * total)
        p = special.softmax(log_p)
        shrunk = (SPREAD**2 / total)[:, None] * means
        spread = (SPREAD**2 * variance / PER_GROUP / total)[:, None]
        values = np.column_stack([shrunk, log_sigma])
        mean = p @ values
        sd = np.sqrt(p @ ((values - mean) ** 2 + np.column_stack([np.tile(spread, GROUPS), 0 * log_sigma])))
        return mean, sd


@pytest.fixture(scope="module")
def groups():
    return Groups()


@pytest.fixture(scope="module")
def steered(groups):
    return pma.PenaltyMH(model=groups.model, proxy=pma.Taylor())


def prepared_again(step):
    """Learn all that is learnt when the step is built, by what was compiled for it."""
    return _learn(step.decider.parts, step.decider.compiled).prepared


def off_by(prepared, mean, sd):
    """Shift of the mean of log sigma on the surrogate, in posterior standard deviations."""
    return (prepared.draws[:, -1].mean() - mean[-1]) / sd[-1]


@pytest.mark.slow
def test_surrogate_corrects_a_scale_of_many_coefficients(groups, steered, monkeypatch):
    mean, sd = groups.exact()
    prepared = prepared_again(steered)
    np.testing.assert_array_equal(prepared.draws, steered.decider.parts.prepared.draws)
    assert abs(off_by(prepared, mean, sd)) < 1
    # From a third of the rows, as where there are very many: what they add to the expansion of all.
    monkeypatch.setattr(log_posterior, "_MAX_ROWS", 500)
    monkeypatch.setattr(log_posterior, "_PART", 300)
    assert abs(off_by(prepared_again(steered), mean, sd)) < 1.5
    monkeypatch.setattr(centre, "average", lambda full_pass, sums, *_: sums)
    assert off_by(prepared_again(steered), mean, sd) < -3


@pytest.mark.slow
def test_many_groups_are_sampled_by_sparse_products(groups, steered):
    mean, sd = groups.exact()
    with groups.model:
        idata = pm.sample(
            20_000, tune=500, chains=2, cores=1, step=steered, random_seed=5, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    assert isinstance(steered.decider.parts.prepared.move.linearisation.hessian, CompressedRows)
    assert steered.decider.parts.prepared.move.factor.ndim == 1
    draws = group(idata, "posterior")
    draws = draws.assign(sigma=np.log(draws["sigma"])) if hasattr(draws, "assign") else draws
    found = np.append(draws["effect"].mean(("chain", "draw")), draws["sigma"].mean())
    spread = np.append(draws["effect"].std(("chain", "draw")), draws["sigma"].std())
    ess = az.ess(draws)
    n = np.append(ess["effect"], ess["sigma"])
    assert n.min() > 400  # of 151, from 40,000 draws: the fewest of a run's vary sevenfold between seeds
    assert np.abs((found - mean) / (sd / np.sqrt(n))).max() < 5
    assert np.abs((spread / sd - 1) / np.sqrt(1 / n)).max() < 5
