"""Posteriors that are not normal, of 5,000 to 300,000 rows each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt


def _columns(n: int, d: int, seed: int, skewed: bool = False) -> tuple[np.random.Generator, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return rng, np.exp(X) / 2 - 0.8 if skewed else X


def _yes(rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
    return (rng.random(eta.shape) < 1 / (1 + np.exp(-eta))).astype(int)


# Many parameters at few rows each.


def logistic(n: int, d: int, skewed: bool = False) -> pm.Model:
    """Columns that are normal, or log-normal."""
    rng, X = _columns(n, d, 1, skewed)
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=X @ pm.Normal("b", 0, 1, shape=d), observed=_yes(rng, X @ rng.normal(0, d**-0.5, d)))
    return model


def one_hot(n: int = 20_000, factors: int = 12, levels: int = 10) -> pm.Model:
    """Logistic on the levels of factors, some of them rare, with vague priors that do not pool."""
    rng = np.random.default_rng(2)
    p = 0.5 ** np.arange(levels)
    of = rng.choice(levels, (n, factors), p=p / p.sum())
    X = (of[:, :, None] == np.arange(1, levels)).reshape(n, -1).astype(float)
    with pm.Model() as model:
        eta = pm.Normal("a", 0, 3) + X @ pm.Normal("b", 0, 3, shape=X.shape[1])
        pm.Bernoulli("y", logit_p=eta, observed=_yes(rng, X @ rng.normal(0, 0.4, X.shape[1]) - 0.5))
    return model


def softmax(n: int = 10_000, d: int = 15, classes: int = 6) -> pm.Model:
    """Multinomial logistic regression."""
    rng, X = _columns(n, d, 3)
    y = (X @ rng.normal(0, 0.4, (d, classes)) + rng.gumbel(size=(n, classes))).argmax(1)
    with pm.Model() as model:
        pm.Categorical("y", logit_p=X @ pm.Normal("b", 0, 1, shape=(d, classes)), observed=y)
    return model


def poisson(n: int = 5_000, d: int = 60) -> pm.Model:
    """Small counts."""
    rng, X = _columns(n, d, 4)
    with pm.Model() as model:
        eta = pm.Normal("a", 0, 2) + X @ pm.Normal("b", 0, 1, shape=d)
        pm.Poisson("y", pm.math.exp(eta), observed=rng.poisson(np.exp(X @ rng.normal(0, 0.6 * d**-0.5, d) - 1)))
    return model


# Tails that the prior decides.


def negative_binomial(n: int = 20_000) -> pm.Model:
    """Poisson counts, so that the shape may be as large as its prior allows."""
    rng, X = _columns(n, 2, 5)
    with pm.Model() as model:
        mean = pm.math.exp(pm.Normal("a", 0, 2) + X @ pm.Normal("b", 0, 1, shape=2))
        counts = rng.poisson(np.exp(0.5 + X @ [0.3, -0.2]))
        pm.NegativeBinomial("y", mu=mean, alpha=pm.HalfNormal("alpha", 300), observed=counts)
    return model


def zero_inflated(n: int = 20_000) -> pm.Model:
    """Poisson counts without further zeros."""
    rng, X = _columns(n, 2, 6)
    with pm.Model() as model:
        mean = pm.math.exp(pm.Normal("a", 0, 2) + X @ pm.Normal("b", 0, 1, shape=2))
        counts = rng.poisson(np.exp(0.5 + X @ [0.3, -0.2]))
        pm.ZeroInflatedPoisson("y", psi=pm.Beta("psi", 1, 1), mu=mean, observed=counts)
    return model


def student(n: int = 50_000) -> pm.Model:
    """Take normal errors, so that the degrees of freedom may be as many as the prior allows."""
    rng, X = _columns(n, 3, 7)
    with pm.Model() as model:
        mean, nu = X @ pm.Normal("b", 0, 1, shape=3), pm.Gamma("nu", 2, 0.1)
        observed = X @ [1.0, 0.5, 0.0] + rng.normal(size=n)
        pm.StudentT("y", nu=nu, mu=mean, sigma=pm.HalfNormal("s", 1), observed=observed)
    return model


def beta_binomial(n: int = 10_000) -> pm.Model:
    """Binomial counts, so that there is no further dispersion."""
    rng, X = _columns(n, 2, 8)
    with pm.Model() as model:
        p = pm.math.invlogit(pm.Normal("a", 0, 2) + X @ pm.Normal("b", 0, 1, shape=2))
        precision = pm.Gamma("precision", 2, 0.01)
        observed = rng.binomial(20, 1 / (1 + np.exp(-(X @ [0.5, -0.3]))))
        pm.BetaBinomial("y", alpha=p * precision, beta=(1 - p) * precision, n=20, observed=observed)
    return model


def weibull(n: int = 20_000, events: int = 12) -> pm.Model:
    """Survival times of which few are not censored, with a shape."""
    rng, X = _columns(n, 2, 9)
    times = np.exp(3 + X @ [0.4, -0.2]) * rng.weibull(1.5, n) * 10
    end = np.sort(times)[events]
    with pm.Model() as model:
        scale = pm.math.exp(pm.Normal("a", 5, 3) + X @ pm.Normal("b", 0, 1, shape=2))
        law = pm.Weibull.dist(alpha=pm.HalfNormal("shape", 2), beta=scale, shape=n)
        pm.Censored("y", law, lower=None, upper=end, observed=np.minimum(times, end))
    return model


# Separated classes, and priors with heavy tails.


def separated(prior: str, n: int = 5_000, d: int = 4) -> pm.Model:
    """Logistic with a rare exposure, all of whose rows are cases."""
    rng, X = _columns(n, d, 10)
    X[:, 0] = rng.random(n) < 0.004
    y = np.where(X[:, 0] == 1, 1, _yes(rng, X[:, 1:] @ np.full(d - 1, 0.5) - 1))
    with pm.Model() as model:
        b = pm.Normal("b", 0, 10, shape=d) if prior == "normal" else pm.Cauchy("b", 0, 2.5, shape=d)
        pm.Bernoulli("y", logit_p=pm.Normal("a", 0, 5) + X @ b, observed=y)
    return model


def rare_events(n: int = 200_000, events: int = 15) -> pm.Model:
    """Logistic with a case in thirteen thousand rows."""
    rng, X = _columns(n, 3, 11)
    y = np.zeros(n, int)
    y[np.argsort(-(X @ [1.0, 0.5, 0.0]) - 2 * rng.gumbel(size=n))[:events]] = 1
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=pm.Normal("a", 0, 10) + X @ pm.Normal("b", 0, 2, shape=3), observed=y)
    return model


def horseshoe(family: str, n: int = 10_000, d: int = 40) -> pm.Model:
    """Regression with three of its slopes not zero, not centred."""
    rng, X = _columns(n, d, 12)
    b = np.r_[0.5, -0.4, 0.3, np.zeros(d - 3)]
    with pm.Model() as model:
        local, tau = pm.HalfCauchy("local", 1, shape=d), pm.HalfCauchy("tau", 0.1)
        eta = X @ (pm.Normal("z", 0, 1, shape=d) * local * tau)
        if family == "normal":
            pm.Normal("y", eta, pm.HalfNormal("s", 1), observed=X @ b + rng.normal(size=n))
        else:
            pm.Bernoulli("y", logit_p=eta, observed=_yes(rng, X @ b))
    return model


def slope_against_zero(n: int = 20_000) -> pm.Model:
    """Logistic with slopes that are positive by their prior and zero by the data."""
    rng, X = _columns(n, 3, 13)
    with pm.Model() as model:
        b = pm.HalfNormal("b", 1, shape=3)
        pm.Bernoulli("y", logit_p=pm.Normal("a", 0, 1) + X @ b, observed=_yes(rng, X @ [0.0, 0.0, 0.3]))
    return model


# Kinks and steps.


def change_point(n: int = 20_000) -> pm.Model:
    """Count with a rate that changes at an unknown time."""
    rng = np.random.default_rng(14)
    time = np.sort(rng.uniform(0, 10, n))
    with pm.Model() as model:
        at, rates = pm.Uniform("at", 0, 10), pm.Exponential("rates", 1, shape=2)
        rate = pm.math.switch(time < at, rates[0], rates[1])
        pm.Poisson("y", rate, observed=rng.poisson(np.where(time < 6, 2.0, 2.3)))
    return model


def hinge(n: int = 20_000) -> pm.Model:
    """Bend a straight line at an unknown knot."""
    rng = np.random.default_rng(15)
    x = rng.uniform(0, 10, n)
    with pm.Model() as model:
        knot, b = pm.Uniform("knot", 0, 10), pm.Normal("b", 0, 1, shape=3)
        mean = b[0] + b[1] * x + b[2] * pm.math.maximum(x - knot, 0)
        observed = 1 + 0.2 * x + 0.3 * np.maximum(x - 6, 0) + rng.normal(size=n)
        pm.Normal("y", mean, pm.HalfNormal("s", 1), observed=observed)
    return model


def quantile(n: int = 20_000, q: float = 0.9) -> pm.Model:
    """Quantile regression by an asymmetric Laplace law."""
    rng, X = _columns(n, 4, 16)
    with pm.Model() as model:
        mean = pm.Normal("a", 0, 2) + X @ pm.Normal("b", 0, 1, shape=4)
        observed = X @ [1.0, 0.5, 0.0, -0.5] + rng.standard_t(5, n)
        pm.AsymmetricLaplace("y", b=pm.HalfNormal("s", 1), mu=mean, q=q, observed=observed)
    return model


def huber(n: int = 50_000) -> pm.Model:
    """Regression by Huber's loss as a potential."""
    rng, X = _columns(n, 4, 17)
    y = X @ [1.0, 0.5, 0.0, -0.5] + rng.standard_t(3, n)
    with pm.Model() as model:
        size = pt.abs(pm.Data("y", y) - X @ pm.Normal("b", 0, 1, shape=4))
        pm.Potential("loss", -pt.switch(size < 1.5, 0.5 * size**2, 1.5 * size - 1.125))
    return model


def laplace_errors(n: int = 100_000) -> pm.Model:
    """Median regression."""
    rng, X = _columns(n, 3, 18)
    with pm.Model() as model:
        mean = X @ pm.Normal("b", 0, 1, shape=3)
        pm.Laplace("y", mean, pm.HalfNormal("s", 1), observed=X @ [1.0, 0.5, 0.0] + rng.laplace(size=n))
    return model


def steep(n: int = 20_000) -> pm.Model:
    """Fit a logistic curve whose steepness is bounded by the prior alone."""
    rng = np.random.default_rng(19)
    x = rng.uniform(0, 10, n)
    with pm.Model() as model:
        at, slope = pm.Uniform("at", 0, 10), pm.HalfNormal("slope", 200)
        p = 0.2 + 0.5 * pm.math.invlogit(slope * (x - at))
        pm.Bernoulli("y", p, observed=(rng.random(n) < np.where(x < 4, 0.2, 0.7)).astype(int))
    return model


# Several modes, ridges, periodic likelihoods.


def mixture(apart: float, n: int = 10_000) -> pm.Model:
    """Two normal laws with the same prior: two modes, which are mirror images."""
    rng = np.random.default_rng(20)
    y = np.where(rng.random(n) < 0.4, -apart / 2, apart / 2) + rng.normal(size=n)
    with pm.Model() as model:
        mu, w = pm.Normal("mu", 0, 3, shape=2), pm.Dirichlet("w", np.ones(2))
        pm.NormalMixture("y", w=w, mu=mu, sigma=1.0, observed=y)
    return model


def ordered_mixture(n: int = 50_000) -> pm.Model:
    """Two normal laws that overlap, with ordered means."""
    rng = np.random.default_rng(21)
    y = np.where(rng.random(n) < 0.3, -0.7, 0.7) + rng.normal(size=n)
    ordered = pm.distributions.transforms.ordered
    with pm.Model() as model:
        mu = pm.Normal("mu", [-1, 1], 2, shape=2, transform=ordered, initval=[-1, 1])
        pm.NormalMixture("y", w=pm.Dirichlet("w", np.ones(2)), mu=mu, sigma=pm.HalfNormal("s", 1), observed=y)
    return model


def product(n: int = 10_000) -> pm.Model:
    """Tell a product of two parameters, and not which is which."""
    rng = np.random.default_rng(22)
    x = rng.normal(size=n)
    with pm.Model() as model:
        mean = pm.HalfNormal("a", 1) * pm.HalfNormal("b", 1) * x
        pm.Normal("y", mean, 1, observed=0.6 * x + rng.normal(size=n))
    return model


def banana(n: int = 5_000) -> pm.Model:
    """Tell a + b² alone: a bent ridge."""
    y = np.random.default_rng(23).normal(0.5, 1, n)
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("a", 0, 1) + pm.Normal("b", 0, 1) ** 2, 10, observed=y)
    return model


def frequency(n: int = 5_000) -> pm.Model:
    """Find a wave of unknown frequency and phase, in much noise."""
    rng = np.random.default_rng(24)
    t = np.sort(rng.uniform(0, 20, n))
    with pm.Model() as model:
        omega, wave = pm.Normal("omega", 2, 0.5, initval=2.0), pm.Normal("wave", 0, 1, shape=2)
        mean = wave[0] * pm.math.sin(omega * t) + wave[1] * pm.math.cos(omega * t)
        pm.Normal("y", mean, pm.HalfNormal("s", 2), observed=0.25 * np.sin(2.1 * t + 0.4) + rng.normal(size=n))
    return model


def saturating(n: int = 10_000) -> pm.Model:
    """Michaelis and Menten's curve, of which the data see the straight part."""
    rng = np.random.default_rng(25)
    x = rng.uniform(0, 1, n)
    with pm.Model() as model:
        top, half = pm.HalfNormal("top", 50), pm.HalfNormal("half", 50)
        observed = 10 * x / (5 + x) + rng.normal(0, 0.3, n)
        pm.Normal("y", top * x / (half + x), pm.HalfNormal("s", 1), observed=observed)
    return model


def exponential_decay(n: int = 5_000) -> pm.Model:
    """Two decays whose rates are near each other."""
    rng = np.random.default_rng(26)
    t = rng.uniform(0, 5, n)
    with pm.Model() as model:
        size, rate = pm.HalfNormal("size", 2, shape=2), pm.LogNormal("rate", [-1, 1], 0.5, shape=2)
        mean = size[0] * pm.math.exp(-rate[0] * t) + size[1] * pm.math.exp(-rate[1] * t)
        observed = np.exp(-0.5 * t) + 0.8 * np.exp(-1.5 * t) + rng.normal(0, 0.3, n)
        pm.Normal("y", mean, pm.HalfNormal("s", 1), observed=observed)
    return model


POSTERIORS: dict[str, Callable[[], pm.Model]] = {
    "logistic, 5,000 x 100": partial(logistic, 5_000, 100),
    "logistic, skewed, 20,000 x 120": partial(logistic, 20_000, 120, skewed=True),
    "logistic, 20,000 x 300": partial(logistic, 20_000, 300),
    "one-hot, 20,000 x 109": one_hot,
    "softmax, 10,000 x 90": softmax,
    "Poisson, 5,000 x 61": poisson,
    "negative binomial on Poisson": negative_binomial,
    "no zero inflation": zero_inflated,
    "Student on normal": student,
    "beta-binomial on binomial": beta_binomial,
    "Weibull, 12 events": weibull,
    "separated, normal prior": partial(separated, "normal"),
    "separated, Cauchy prior": partial(separated, "cauchy"),
    "15 events in 200,000": rare_events,
    "horseshoe, normal": partial(horseshoe, "normal"),
    "horseshoe, logistic": partial(horseshoe, "logistic"),
    "slopes against zero": slope_against_zero,
    "change point": change_point,
    "hinge": hinge,
    "quantile .9": quantile,
    "Huber": huber,
    "Laplace errors": laplace_errors,
    "steep step": steep,
    "mixture, far apart": partial(mixture, 3.0),
    "mixture, near": partial(mixture, 1.0),
    "ordered mixture": ordered_mixture,
    "product": product,
    "banana": banana,
    "frequency": frequency,
    "saturating": saturating,
    "two decays": exponential_decay,
}

#: Those with a parameter of which the prior decides how far it may go.
TAILS = "negative binomial on Poisson", "no zero inflation", "Student on normal", "beta-binomial on binomial"
