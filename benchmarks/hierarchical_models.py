"""The models of ``hierarchical.py``: shapes of hierarchical models that people write."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt

N = 20_000


@cache
def table() -> pd.DataFrame:
    """Return a table of two crossed factors, one nested in the first, and outcomes of several families."""
    rng = np.random.default_rng(7)
    g, h, x = rng.integers(0, 150, N), rng.integers(0, 25, N), rng.normal(size=N)
    nested = 4 * g + rng.integers(0, 4, N)
    effects = [rng.normal(0, sd, size) for sd, size in ((0.5, 150), (0.3, 150), (0.4, 25), (0.3, 600))]
    eta = -0.3 + 0.5 * x + effects[0][g] + effects[1][g] * x + effects[2][h] + effects[3][nested]
    return pd.DataFrame(
        {
            "x": x, **{name: of.astype(str) for name, of in (("g", g), ("h", h), ("k", nested))},
            "normal": eta + rng.normal(size=N), "yes": (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int),
            "count": rng.poisson(np.exp(eta / 2)), "over": rng.negative_binomial(3, 3 / (3 + np.exp(eta / 2))),
        }
    )  # fmt: skip


def by_formula(formula: str, family: str) -> pm.Model:
    """Return the model that bambi writes for a formula."""
    import bambi as bmb

    model = bmb.Model(formula, table(), family=family)
    model.build()
    return model.backend.model


def few_groups(n_groups: int, n_rows: int, sd: float) -> pm.Model:
    """Logistic, not centred, with a scale that may be zero."""
    rng = np.random.default_rng(4)
    g, effects = rng.integers(0, n_groups, n_rows), rng.normal(0, sd, n_groups)
    with pm.Model() as model:
        mu, tau, z = pm.Normal("mu", 0, 2), pm.HalfNormal("tau", 1), pm.Normal("z", 0, 1, shape=n_groups)
        observed = (rng.random(n_rows) < 1 / (1 + np.exp(-effects[g]))).astype(int)
        pm.Bernoulli("y", logit_p=mu + tau * z[g], observed=observed)
    return model


def correlated_slopes(n_groups: int = 400, each: int = 40) -> pm.Model:
    """Logistic with an intercept and a slope a group under an LKJ prior, not centred."""
    rng = np.random.default_rng(5)
    g, x = np.repeat(np.arange(n_groups), each), rng.normal(size=n_groups * each)
    u = rng.multivariate_normal([-0.5, 0.8], [[0.5, 0.2], [0.2, 0.3]], size=n_groups)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1, shape=2)
        sd = pm.Exponential.dist(1.0, shape=2)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=sd, compute_corr=True)
        effects = mu + pt.dot(pm.Normal("z", 0, 1, shape=(n_groups, 2)), chol.T)
        observed = (rng.random(len(g)) < 1 / (1 + np.exp(-(u[g, 0] + u[g, 1] * x)))).astype(int)
        pm.Bernoulli("y", logit_p=effects[g, 0] + effects[g, 1] * x, observed=observed)
    return model


def on_second_axis(n_groups: int = 400, n_rows: int = 40_000) -> pm.Model:
    """Logistic with coefficients by groups, one row of a matrix for each coefficient."""
    rng = np.random.default_rng(6)
    g, x = rng.integers(0, n_groups, n_rows), rng.normal(size=n_rows)
    own = rng.normal(0, [[0.6], [0.3]], (2, n_groups))
    with pm.Model() as model:
        b = pm.Normal("b", 0, pm.HalfNormal("s", 1, shape=2)[:, None], shape=(2, n_groups))
        observed = (rng.random(n_rows) < 1 / (1 + np.exp(-(own[0, g] + own[1, g] * x)))).astype(int)
        pm.Bernoulli("y", logit_p=b[0, g] + b[1, g] * x, observed=observed)
    return model


def mixed_logit(persons: int = 600, choices: int = 12, alternatives: int = 4) -> pm.Model:
    """Choices with a price coefficient for each person, not centred."""
    rng = np.random.default_rng(8)
    price, duration = rng.normal(size=(2, persons * choices, alternatives))
    g, own = np.repeat(np.arange(persons), choices), rng.normal(-1, 0.5, persons)
    with pm.Model() as model:
        mean, sd, z = pm.Normal("mean", 0, 1), pm.HalfNormal("sd", 1), pm.Normal("z", 0, 1, shape=persons)
        constants = pt.concatenate([[0.0], pm.Normal("constants", 0, 1, shape=alternatives - 1)])
        utility = (mean + sd * z)[g][:, None] * price + pm.Normal("b", 0, 1) * duration + constants
        observed = (own[g, None] * price - 0.4 * duration + rng.gumbel(size=price.shape)).argmax(1)
        pm.Categorical("y", p=pm.math.softmax(utility, axis=1), observed=observed)
    return model


def walk(family: str, kind: str = "walk", weeks: int = 100, n_rows: int = 20_000) -> pm.Model:
    """Return levels of weeks that follow each other: a random walk, the same by its steps, or AR(1)."""
    rng = np.random.default_rng(9)
    week, level = rng.integers(0, weeks, n_rows), np.cumsum(rng.normal(0, 0.15, weeks))
    with pm.Model() as model:
        sd, slope = pm.HalfNormal("sd", 0.5), pm.Normal("b", 0, 1)
        if kind == "walk":
            x = pm.GaussianRandomWalk("x", sigma=sd, init_dist=pm.Normal.dist(0, 1), shape=weeks)
        elif kind == "steps":
            x = pm.Normal("start", 0, 1) + pt.cumsum(pm.Normal("z", 0, 1, shape=weeks)) * sd
        else:
            rho = pm.Uniform("rho", 0, 1)
            x = pm.AR("x", rho=[rho], sigma=sd, init_dist=pm.Normal.dist(0, 1), shape=weeks)
        covariate = rng.normal(size=n_rows)
        eta, mean = x[week] + slope * covariate, level[week] + 0.5 * covariate
        if family == "normal":
            pm.Normal("y", eta, pm.HalfNormal("noise", 1), observed=mean + rng.normal(size=n_rows))
        else:
            pm.Bernoulli("y", logit_p=eta, observed=(rng.random(n_rows) < 1 / (1 + np.exp(-mean))).astype(int))
    return model


def regions(side: int = 10, n_rows: int = 10_000, apart: bool = False) -> pm.Model:
    """Return counts in regions of a square: ICAR, or with an effect of each region by itself beside it (BYM)."""
    rng, at = np.random.default_rng(10), np.arange(side**2)
    row, column = np.divmod(at, side)
    near = (np.abs(row[:, None] - row) + np.abs(column[:, None] - column) == 1).astype(float)
    effects = 0.5 * np.sin(row / 3) + 0.3 * np.cos(column / 2) + 0.2 * apart * rng.normal(size=at.size)
    region = rng.integers(0, at.size, n_rows)
    with pm.Model() as model:
        field = pm.HalfNormal("sd", 1) * pm.ICAR("field", W=near)
        if apart:
            field = field + pm.Normal("own", 0, pm.HalfNormal("sd_own", 1), shape=at.size)
        eta = pm.Normal("a", 0, 1) + field[region]
        pm.Poisson("y", pm.math.exp(eta), observed=rng.poisson(np.exp(effects[region])))
    return model


def ratings(players: int = 200, games: int = 20_000) -> pm.Model:
    """Return games of two players each, of whose ratings the difference counts."""
    rng, own = np.random.default_rng(11), np.random.default_rng(12).normal(0, 0.8, players)
    home, away = rng.integers(0, players, games), rng.integers(0, players - 1, games)
    away += away >= home
    won = rng.random(games) < 1 / (1 + np.exp(-0.2 - own[home] + own[away]))
    with pm.Model() as model:
        rating, at_home = pm.Normal("rating", 0, pm.HalfNormal("sd", 1), shape=players), pm.Normal("at_home", 0, 1)
        pm.Bernoulli("y", logit_p=at_home + rating[home] - rating[away], observed=won.astype(int))
    return model


def polling(n_rows: int = 15_000) -> pm.Model:
    """Return a poll for poststratification: ages, groups of people, states, and ages within groups; not centred."""
    rng = np.random.default_rng(5)
    levels = {"age": 6, "ethnicity": 4, "state": 50}
    of = {name: rng.integers(0, size, n_rows) for name, size in levels.items()}
    eta = -0.3 + sum(sd * rng.normal(size=levels[k])[of[k]] for k, sd in zip(levels, (0.3, 0.2, 0.4), strict=True))
    with pm.Model(coords={name: range(size) for name, size in levels.items()}) as model:
        logit = pm.Normal("intercept", 0, 1.5)
        for dims in (("age",), ("ethnicity",), ("state",), ("age", "ethnicity")):
            name = "_".join(dims)
            z, scale = pm.Normal(f"z_{name}", 0, 1, dims=dims), pm.Exponential(f"sd_{name}", 1)
            logit += pm.Deterministic(f"effect_{name}", scale * z, dims=dims)[tuple(of[k] for k in dims)]
        pm.Bernoulli("y", p=pm.math.invlogit(logit), observed=rng.random(n_rows) < 1 / (1 + np.exp(-eta)))
    return model


def counts(n_groups: int = 3_000) -> pm.Model:
    """Return counts of several trials, one row a group, with an effect for each added as it is."""
    rng = np.random.default_rng(13)
    trials, effects = rng.integers(5, 200, n_groups), rng.normal(-1, 0.5, n_groups)
    with pm.Model() as model:
        u = pm.Normal("u", pm.Normal("mean", 0, 2), pm.HalfNormal("sd", 1), shape=n_groups)
        y = rng.binomial(trials, 1 / (1 + np.exp(-effects)))
        pm.Binomial("y", n=trials, p=pm.math.sigmoid(u), observed=y)
    return model


def rates(n_groups: int = 5_000, n_rows: int = 100_000) -> pm.Model:
    """Return Bernoulli rows of users with rates under a Beta law, some of which never did anything."""
    rng = np.random.default_rng(7)
    g = rng.integers(0, n_groups, n_rows)
    y = rng.random(n_rows) < rng.beta(3, 9, n_groups)[g]
    with pm.Model() as model:
        mean, many = pm.Beta("mean", 2, 2), pm.Pareto("many", alpha=1.5, m=1)
        rate = pm.Beta("rate", many * mean, many * (1 - mean), shape=n_groups)
        pm.Bernoulli("y", p=rate[g], observed=y.astype(int))
    return model


def zero_sum(levels: int = 50, n_rows: int = 20_000) -> pm.Model:
    """Return a logistic regression on levels whose effects sum to zero."""
    rng, effects = np.random.default_rng(3), np.random.default_rng(4).normal(0, 0.8, levels)
    g = rng.integers(0, levels, n_rows)
    y = rng.random(n_rows) < 1 / (1 + np.exp(-0.3 - (effects - effects.mean())[g]))
    with pm.Model() as model:
        u = pm.ZeroSumNormal("u", pm.HalfNormal("sd", 1), shape=levels)
        pm.Bernoulli("y", logit_p=pm.Normal("intercept", 0, 1) + u[g], observed=y.astype(int))
    return model


def crossed(n_rows: int, users: int, films: int) -> pm.Model:
    """Return a logistic regression on two crossed factors: whether a user likes a film."""
    rng = np.random.default_rng(2)
    u, f = rng.integers(0, users, n_rows), rng.integers(0, films, n_rows)
    eta = 0.5 + rng.normal(0, 0.8, users)[u] + rng.normal(0, 0.5, films)[f]
    with pm.Model() as model:
        mean, user_sd, film_sd = pm.Normal("mean", 0, 2), pm.HalfNormal("user_sd", 1), pm.HalfNormal("film_sd", 1)
        user, film = pm.Normal("user", 0, user_sd, shape=users), pm.Normal("film", 0, film_sd, shape=films)
        observed = (rng.random(n_rows) < 1 / (1 + np.exp(-eta))).astype("int8")
        pm.Bernoulli("y", logit_p=mean + user[u] + film[f], observed=observed)
    return model


FORMULAS = [
    ("normal ~ x + (1|h)", "gaussian"), ("normal ~ x + (x|g)", "gaussian"), ("yes ~ x + (1|h)", "bernoulli"),
    ("yes ~ x + (x|g)", "bernoulli"), ("yes ~ x + (1|g) + (1|h)", "bernoulli"), ("count ~ x + (x|g)", "poisson"),
    ("count ~ x + (1|g) + (1|k)", "poisson"), ("over ~ x + (1|g)", "negativebinomial"),
    ("normal ~ x + (1|g) + (1|k)", "gaussian"),
]  # fmt: skip
MODELS: dict[str, Callable[[], pm.Model]] = {
    **{f"{formula}, {family}": partial(by_formula, formula, family) for formula, family in FORMULAS},
    "8 groups, 4,000 rows, sd .01": partial(few_groups, 8, 4_000, 0.01),
    "150 groups, 6,000 rows, sd .02": partial(few_groups, 150, 6_000, 0.02),
    "150 groups, 6,000 rows, sd .5": partial(few_groups, 150, 6_000, 0.5),
    "2,000 groups, 40,000 rows, sd .05": partial(few_groups, 2_000, 40_000, 0.05),
    "correlated slopes": correlated_slopes,
    "second axis": on_second_axis,
    "mixed logit": mixed_logit,
    "walk, normal": partial(walk, "normal"),
    "walk, logistic": partial(walk, "logistic"),
    "walk by its steps, logistic": partial(walk, "logistic", "steps"),
    "AR(1), logistic": partial(walk, "logistic", "AR"),
    "ICAR, Poisson": regions,
    "BYM, Poisson": partial(regions, apart=True),
    "ratings": ratings,
    "ratings of 2,500": partial(ratings, 2_500, 160_000),
    "poll": polling,
    "counts, one row a group": counts,
    "rates of 5,000 users": rates,
    "effects that sum to zero": zero_sum,
}
#: Left out unless they are asked for.
LARGE: dict[str, Callable[[], pm.Model]] = {
    "crossed, 500,000 rows": partial(crossed, 500_000, 20_000, 5_000),
    "crossed, 5,000,000 rows": partial(crossed, 5_000_000, 200_000, 50_000),
}
