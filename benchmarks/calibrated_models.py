"""The models of ``benchmarks/calibrate.py``, one for each kind of step, and what is ranked of each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pymc as pm

import pymc_austerity as pma

Values = dict[str, np.ndarray]


class Setup(NamedTuple):
    """A step on a model.

    Attributes
    ----------
    build : callable
        Returns the model, whose outcome is ``obs`` with the data ``y``, and the step.
    quantities : callable
        From values of the free variables with a leading axis to the numbers that are ranked.
    tune, thin : int
        Draws before, and draws for each that is kept.
    """

    build: Callable[[], tuple[pm.Model, Any]]
    quantities: Callable[[Values], dict[str, np.ndarray]]
    tune: int
    thin: int


N_LOGISTIC, N_LINEAR, N_JUMP, N_GROUPS, ROWS_OF_GROUP, N_SPINS, COPIES = 500, 600, 600, 20, 40, 12, 30
N_CROSSED, N_SECOND, N_PLAYERS, N_GAMES, N_COLUMNS = 300, 9, 30, 600, 12
X = np.column_stack([np.ones(1_000), np.random.default_rng(1).normal(size=(1_000, 3))])


def zeros_and_ones(n: int) -> Any:
    """Return data in place of which those of each data set are set."""
    return pm.Data("y", np.arange(n) % 2)


def entries(name: str, values: Values, *numbers: int) -> Values:
    """Return some entries of a vector by their names."""
    return {f"{name}[{k}]": values[name][:, k] for k in numbers}


def logistic(step: Callable[..., Any], tune: int, thin: int, **options: Any) -> Setup:
    """Return the set-up of a logistic regression with four coefficients."""

    def build() -> tuple[pm.Model, Any]:
        with pm.Model() as model:
            beta = pm.Normal("beta", 0, 1, shape=4)
            pm.Bernoulli("obs", logit_p=X[:N_LOGISTIC] @ beta, observed=zeros_and_ones(N_LOGISTIC))
            return model, step(**options)

    return Setup(build, lambda values: entries("beta", values, 0, 1, 2, 3), tune, thin)


def linear(step: Callable[..., Any], tune: int, thin: int, **options: Any) -> Setup:
    """Return the set-up of a linear regression whose scale is unknown."""

    def build() -> tuple[pm.Model, Any]:
        with pm.Model() as model:
            beta, sigma = pm.Normal("beta", 0, 1, shape=2), pm.HalfNormal("sigma", 1)
            y = pm.Data("y", np.random.default_rng(0).normal(size=N_LINEAR))
            pm.Normal("obs", X[:N_LINEAR, :2] @ beta, sigma, observed=y)
            return model, step(**options)

    return Setup(build, lambda values: {**entries("beta", values, 0, 1), "sigma": values["sigma"]}, tune, thin)


def groups(tune: int, thin: int, *, centred: bool) -> Setup:
    """Return the set-up of a logistic regression with an effect for each of twenty groups."""
    g = np.repeat(np.arange(N_GROUPS), ROWS_OF_GROUP)

    def build() -> tuple[pm.Model, Any]:
        with pm.Model() as model:
            mean, scale, slope = pm.Normal("mean", 0, 1), pm.HalfNormal("scale", 1), pm.Normal("slope", 0, 1)
            if centred:
                effect = pm.Normal("effect", mean, scale, shape=N_GROUPS)
            else:
                effect = mean + scale * pm.Normal("raw", 0, 1, shape=N_GROUPS)
            pm.Bernoulli("obs", logit_p=effect[g] + slope * X[: g.size, 1], observed=zeros_and_ones(g.size))
            return model, pma.GroupMH(**QUIET)

    def quantities(values: Values) -> dict[str, np.ndarray]:
        if not centred:
            values = {**values, "effect": values["mean"][:, None] + values["scale"][:, None] * values["raw"]}
        return {name: values[name] for name in ("mean", "scale", "slope")} | entries("effect", values, 0, 1)

    return Setup(build, quantities, tune, thin)


def crossed(tune: int, thin: int) -> Setup:
    """Return the set-up of a linear regression with unknown scale and effects of two crossed factors."""
    first, second = np.arange(N_CROSSED) % N_GROUPS, np.arange(N_CROSSED) // 7 % N_SECOND

    def build() -> tuple[pm.Model, Any]:
        with pm.Model() as model:
            mean, slope, sigma = pm.Normal("mean", 0, 1), pm.Normal("slope", 0, 1), pm.HalfNormal("sigma", 1)
            a = pm.Normal("a", 0, pm.HalfNormal("scale_a", 1), shape=N_GROUPS)
            b = pm.Normal("b", 0, pm.HalfNormal("scale_b", 1), shape=N_SECOND)
            y = pm.Data("y", np.cos(np.arange(N_CROSSED)))
            pm.Normal("obs", mean + slope * X[:N_CROSSED, 1] + a[first] + b[second], sigma, observed=y)
            return model, pma.GroupMH(**QUIET)

    def quantities(values: Values) -> dict[str, np.ndarray]:
        found = {name: values[name] for name in ("mean", "slope", "sigma", "scale_a", "scale_b")}
        return {**found, **entries("a", values, 0), **entries("b", values, 0)}

    return Setup(build, quantities, tune, thin)


def small_scale(tune: int, thin: int) -> Setup:
    """Return the set-up of a logistic regression whose effects hardly differ, not centred."""
    g = np.repeat(np.arange(N_GROUPS), ROWS_OF_GROUP)

    def build() -> tuple[pm.Model, Any]:
        with pm.Model() as model:
            mean, scale = pm.Normal("mean", 0, 1), pm.HalfNormal("scale", 0.2)
            effect = mean + scale * pm.Normal("raw", 0, 1, shape=N_GROUPS)
            pm.Bernoulli("obs", logit_p=effect[g], observed=zeros_and_ones(g.size))
            return model, pma.PenaltyMH(**QUIET)

    def quantities(values: Values) -> dict[str, np.ndarray]:
        effect = values["mean"][:, None] + values["scale"][:, None] * values["raw"]
        found = {"mean": values["mean"], "scale": values["scale"], "raw[0]": values["raw"][:, 0]}
        return {**found, **entries("effect", {"effect": effect}, 0)}

    return Setup(build, quantities, tune, thin)


def slopes(tune: int, thin: int) -> Setup:
    """Return the set-up of a Poisson regression, intercepts and slopes of groups under an LKJ prior, not centred."""
    g = np.repeat(np.arange(N_GROUPS), ROWS_OF_GROUP)

    def build() -> tuple[pm.Model, Any]:
        with pm.Model() as model:
            mean = pm.Normal("mean", 0, 0.5, shape=2)
            chol, *_ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.HalfNormal.dist(0.5, shape=2))
            u = mean + pm.Normal("raw", 0, 1, shape=(N_GROUPS, 2)) @ chol.T
            rate = pm.math.exp(u[g, 0] + u[g, 1] * X[: g.size, 1])
            pm.Poisson("obs", rate, observed=zeros_and_ones(g.size))
            return model, pma.PenaltyMH(**QUIET)

    def quantities(values: Values) -> dict[str, np.ndarray]:
        first, second, last = values["chol_cholesky-cov-packed__"].T
        sd = np.hypot(second, np.exp(last))
        found = {"sd of intercepts": np.exp(first), "sd of slopes": sd, "correlation": second / sd}
        slope = values["mean"][:, 1] + values["raw"][:, 0, 0] * second + values["raw"][:, 0, 1] * np.exp(last)
        return {**found, **entries("mean", values, 0, 1), "slope[0]": slope}

    return Setup(build, quantities, tune, thin)


def ratings(tune: int, thin: int) -> Setup:
    """Return the set-up of games between thirty players, each decided by the difference of two strengths."""
    rng = np.random.default_rng(2)
    first = rng.integers(0, N_PLAYERS, N_GAMES)
    second = (first + rng.integers(1, N_PLAYERS, N_GAMES)) % N_PLAYERS

    def build() -> tuple[pm.Model, Any]:
        with pm.Model() as model:
            strength = pm.Normal("strength", 0, pm.HalfNormal("scale", 1), shape=N_PLAYERS)
            at_home = pm.Normal("at_home", 0, 0.5)
            eta = at_home + strength[first] - strength[second]
            pm.Bernoulli("obs", logit_p=eta, observed=zeros_and_ones(N_GAMES))
            return model, pma.PenaltyMH(**QUIET)

    def quantities(values: Values) -> dict[str, np.ndarray]:
        found = {"scale": values["scale"], "at home": values["at_home"]}
        return {**found, **entries("strength", values, 0, 1)}

    return Setup(build, quantities, tune, thin)


def horseshoe(tune: int, thin: int) -> Setup:
    """Return the set-up of a linear regression with a horseshoe prior, not centred."""
    columns = np.random.default_rng(3).normal(size=(N_CROSSED, N_COLUMNS))

    def build() -> tuple[pm.Model, Any]:
        with pm.Model() as model:
            tau, local = pm.HalfCauchy("tau", 0.1), pm.HalfCauchy("local", 1, shape=N_COLUMNS)
            beta, sigma = tau * local * pm.Normal("raw", 0, 1, shape=N_COLUMNS), pm.HalfNormal("sigma", 1)
            y = pm.Data("y", np.cos(np.arange(N_CROSSED)))
            pm.Normal("obs", columns @ beta, sigma, observed=y)
            return model, pma.PenaltyMH(**QUIET)

    def quantities(values: Values) -> dict[str, np.ndarray]:
        beta = values["tau"][:, None] * values["local"] * values["raw"]
        found = {name: values[name] for name in ("tau", "sigma")} | entries("local", values, 0)
        return {**found, **entries("beta", {"beta": beta}, 0, 1)}

    return Setup(build, quantities, tune, thin)


def selection(step: Callable[..., Any], tune: int, thin: int) -> Setup:
    """Return the set-up of a logistic regression in which each of three coefficients may be left out."""

    def build() -> tuple[pm.Model, Any]:
        with pm.Model() as model:
            included, beta = pm.Bernoulli("included", 0.5, shape=3), pm.Normal("beta", 0, 0.4, shape=3)
            eta = pm.Normal("intercept", 0, 1) + X[:N_JUMP, 1:] @ (included * beta)
            pm.Bernoulli("obs", logit_p=eta, observed=zeros_and_ones(N_JUMP))
            return model, step(proposal=pma.ReversibleJump(beta, included), **QUIET)

    def quantities(values: Values) -> dict[str, np.ndarray]:
        found = entries("effect", {"effect": values["included"] * values["beta"]}, 0, 1, 2)
        return {**found, "number included": values["included"].sum(axis=-1), "intercept": values["intercept"]}

    return Setup(build, quantities, tune, thin)


def spins(tune: int, thin: int, epsilon: float) -> Setup:
    """Return the set-up of twelve binary variables, each pair of which is seen thirty times through noise."""
    pairs = np.array([(i, j) for i in range(N_SPINS) for j in range(i)] * COPIES)

    def build() -> tuple[pm.Model, Any]:
        with pm.Model() as model:
            x, y = pm.Bernoulli("x", np.linspace(0.3, 0.6, N_SPINS), shape=N_SPINS), pm.Data("y", np.zeros(len(pairs)))
            pm.Normal("obs", 0.5 * x[pairs[:, 0]] * x[pairs[:, 1]], 3.0, observed=y)
            return model, pma.ApproxGibbs([x], factors=pairs, batch_size=50, epsilon=epsilon)

    return Setup(build, lambda values: {**entries("x", values, 0, 11), "sum": values["x"].sum(axis=-1)}, tune, thin)


QUIET: dict[str, Any] = {"progressbar": False}
_AUTO = partial(pma.ApproxMH, epsilon="auto")
SETUPS: dict[str, Setup] = {
    "MinibatchMH": logistic(pma.MinibatchMH, 800, 25, batch_size=100, proxy=None),
    "PenaltyMH": logistic(pma.PenaltyMH, 300, 4, **QUIET),
    "ApproxMH": logistic(_AUTO, 300, 4, **QUIET),
    "MinibatchBarker": linear(pma.MinibatchBarker, 300, 10, **QUIET),
    "MHSubLhd": logistic(pma.MHSubLhd, 300, 4, **QUIET),
    "MHSS": logistic(pma.MHSS, 300, 4, **QUIET),
    "GroupMH": groups(400, 8, centred=True),
    # With forty rows a group this form is the wrong one: draws forget slowly, and ranks among few effective draws
    # gather at both ends whatever the step.
    "GroupMH, not centred": groups(1_000, 40, centred=False),
    "GroupMH, crossed": crossed(400, 8),
    "PenaltyMH, small scale": small_scale(400, 8),
    "PenaltyMH, LKJ": slopes(400, 8),
    "PenaltyMH, ratings": ratings(400, 8),
    "PenaltyMH, horseshoe": horseshoe(400, 8),
    "ReversibleJump": selection(pma.PenaltyMH, 300, 4),
    "MHSS(ReversibleJump)": selection(pma.MHSS, 300, 4),
    "ApproxGibbs": spins(50, 4, 0.05),
    "ApproxGibbs(epsilon=0.01)": spins(50, 4, 0.01),
    "ApproxGibbs(epsilon=0)": spins(50, 4, 0.0),
    "PenaltyMH(proxy=None)": logistic(pma.PenaltyMH, 800, 25, proxy=None, **QUIET),
    "MinibatchBarker(proxy=None)": linear(pma.MinibatchBarker, 800, 25, proxy=None, **QUIET),
    "ApproxMH(proxy=None)": logistic(_AUTO, 800, 25, proxy=None, **QUIET),
}
