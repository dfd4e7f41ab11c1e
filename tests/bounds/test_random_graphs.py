"""Row terms of random graphs, with kinks and jumps, in all units: no remainder is larger than its bound."""

from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from rowwise import taylor_terms

from pymc_austerity.bounds import NoRemainderBoundError, RemainderBounds
from pymc_austerity.bounds import intervals as iv
from pymc_austerity.bounds.row_series import RowSeries
from pymc_austerity.likelihood.row_likelihood import row_likelihood
from pymc_austerity.rows import Rows

#: The last has a jump between small values that random points cross: what the planted slack would take for none.
N, SEEDS = 24, (*range(14), 83)
UNITS = 10.0 ** np.arange(-12, 13, 4)
SMOOTH = [
    lambda x: pt.exp(-x), lambda x: pt.log1p(pt.exp(x)), pt.sigmoid, pt.tanh, pt.sqr, lambda x: pt.sqrt(1 + pt.exp(x)),
    lambda x: pt.log1p(pt.sqr(x)), pt.erf, lambda x: pt.gammaln(pt.exp(x)), lambda x: pt.log(pt.exp(x) + 0.3),
    lambda x: pm.logcdf(pm.Normal.dist(), x), lambda x: 1 / (1 + pt.exp(x)), lambda x: x**3,
]  # fmt: skip
CONDITIONS = [
    lambda x, y, data, c: x < y, lambda x, y, data, c: x > c, lambda x, y, data, c: data > c,
    lambda x, y, data, c: data > x, lambda x, y, data, c: pt.and_(x > c, data < 1),
    lambda x, y, data, c: pt.or_(y > c, x < c), lambda x, y, data, c: pt.invert(x <= c),
]  # fmt: skip
#: Of a condition, two terms, and a number that may be next to nothing.
KINKED = [
    lambda holds, x, y, d: pt.switch(holds, x, y), lambda holds, x, y, d: pt.where(holds, x, x * (1 + d)),
    lambda holds, x, y, d: pt.switch(holds, x, x + d * y), lambda holds, x, y, d: pt.switch(holds, x + d, x),
    lambda holds, x, y, d: pt.switch(holds, pt.log1p(pt.exp(x)), x + pt.log1p(pt.exp(-x))),
    lambda holds, x, y, d: pt.maximum(x, y), lambda holds, x, y, d: pt.minimum(x, d), lambda holds, x, y, d: abs(x),
    lambda holds, x, y, d: pt.clip(x, -d, d), lambda holds, x, y, d: pt.maximum(0, x),
    lambda holds, x, y, d: pt.sign(x) * y,
]  # fmt: skip


def kinked(rng, x, y, data, unit=1.0):
    """Return one of two terms by a condition, all of them in some unit."""
    holds = CONDITIONS[rng.integers(len(CONDITIONS))](x, y, data, unit * rng.normal())
    return KINKED[rng.integers(len(KINKED))](holds, x, y, 10.0 ** rng.uniform(-16, 0))


def grown(rng, leaves, data, depth):
    """Return a random graph of these leaves."""
    if depth == 0 or rng.random() < 0.1:
        return leaves[rng.integers(len(leaves))]
    kind, x = rng.random(), grown(rng, leaves, data, depth - 1)
    if kind < 0.4:
        return SMOOTH[rng.integers(len(SMOOTH))](x)
    y = grown(rng, leaves, data, depth - 1)
    if kind < 0.7:
        return kinked(rng, x, y, data)
    return [lambda: x + y, lambda: x - y, lambda: x * y, lambda: x / (1 + pt.exp(y)), lambda: x / y][rng.integers(5)]()


class Case:
    """A model whose row term is random, with columns, a part inside and the result in random units."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.units, inner, outer = rng.choice(UNITS, 3), rng.choice(UNITS), rng.choice(UNITS)
        with pm.Model() as model:
            t = [pm.Normal(f"t{k}", 0, 1 / unit) for k, unit in enumerate(self.units)]
            x, data = pt.as_tensor(rng.normal(size=(N, 2)) * self.units[:2]), pt.as_tensor(rng.normal(size=N))
            leaves = [x[:, 0] * t[0] + x[:, 1] * t[1], t[2] * self.units[2] + x[:, 1] * t[1], x[:, 0] * t[0]]
            parts = [grown(rng, [leaf * inner for leaf in leaves], inner * data, rng.integers(2)) for _ in range(2)]
            part = kinked(rng, *parts, inner * data, inner) / inner
            other, smooth = grown(rng, [*leaves, data], data, 1), SMOOTH[rng.integers(len(SMOOTH))]
            row = [lambda: part, lambda: smooth(part), lambda: part + other, lambda: part * other][rng.integers(4)]()
            pm.Potential("y", outer * row + 0 * leaves[0])
        self.order, self.radius = int(rng.integers(2, 4)), rng.choice([1.0, 3.0, 5.0])
        self.centre = 0.5 * rng.normal(size=3) / self.units
        self.factor = 10.0 ** rng.uniform(-2, 0.3) * (np.eye(3) + 0.3 * rng.normal(size=(3, 3))) / self.units[:, None]
        self.likelihood, source, _ = row_likelihood(model)
        self.rows, self.fixed = Rows(source.row_arrays()), source.fixed_arrays()
        self.rng, (self._rows, self._terms) = rng, taylor_terms(self.likelihood, self.order)

    def bounds(self):
        """Return c, infinite where none is known."""
        try:
            find = RemainderBounds(self.likelihood, self.order)
            return find(self.centre, self.factor, self.radius, self.fixed, self.rows)
        except NoRemainderBoundError:
            return np.full(N, np.inf)

    def at(self, theta):
        return np.broadcast_to(self._rows(theta, *self.fixed, *self.rows.arrays), N)

    def rounding_at(self, theta):
        """Return by how much a change of the last digits of θ changes the rows: terms that cancel show there."""
        rng = np.random.default_rng(1)
        return 20 * np.ptp([self.at(theta * (1 + rng.integers(-4, 5, 3) * 1.2e-16)) for _ in range(6)], axis=0)

    def is_broken_by(self, c):
        """Whether a remainder at a random point of the ball is larger than its bound, but for rounding."""
        rng, powers = np.random.default_rng(2), np.arange(self.order + 1)[:, None]
        for z in rng.normal(size=(4, 3)):
            z /= np.linalg.norm(z)
            found = self._terms(self.centre, self.factor @ z, *self.fixed, *self.rows.arrays)
            taylor = np.array([np.broadcast_to(term, N) for term in found])
            known = np.isfinite(c) & np.isfinite(taylor).all(axis=0)
            for r in self.radius * np.sqrt(rng.uniform(0, 1, 12)):
                theta = self.centre + self.factor @ (r * z)
                parts = taylor * r**powers / np.array([[1], [1], [2], [6]])[: self.order + 1]
                size = np.abs(self.at(theta)) + np.abs(parts).sum(axis=0)
                too_large = ~(np.abs(self.at(theta) - parts.sum(axis=0)) <= c * r ** (self.order + 1) + 1e-12 * size)
                if (known & too_large).any():
                    slack = 1e-12 * size + self.rounding_at(theta) + self.rounding_at(self.centre)
                    too_large &= ~(np.abs(self.at(theta) - parts.sum(axis=0)) <= c * r ** (self.order + 1) + slack)
                if (known & too_large).any():
                    return True
        return False


case_of = cache(Case)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_remainder_of_a_random_graph_exceeds_its_bound():
    cases = [case_of(seed) for seed in SEEDS]
    bounds = [case.bounds() for case in cases]
    assert [seed for seed, case, c in zip(SEEDS, cases, bounds) if case.is_broken_by(c)] == []
    assert np.mean([np.isfinite(c).any() for c in bounds]) > 0.5


def agree_to_seven_digits(series, a, b, where):
    """Planted: branches that differ by less than 1e-7, in whatever unit, are taken for one function."""
    at, *_ = [*series._at_points(), series]
    for degree in range(5):
        first, second = at(a).terms(degree), at(b).terms(degree)
        for powers in {**first, **second}:
            x, y = (of.get(powers, iv.point(0.0)) for of in (first, second))
            slack = 1e-7 * (1 + x.magnitude() + y.magnitude())
            same = (x.lo <= y.hi + slack) & (y.lo <= x.hi + slack)
            if not np.broadcast_to(same, where.shape)[where].all():
                return False
    return True


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_planted_slack_is_caught(monkeypatch):
    monkeypatch.setattr(RowSeries, "agree", agree_to_seven_digits)
    assert case_of(SEEDS[-1]).is_broken_by(case_of(SEEDS[-1]).bounds())


@pytest.mark.parametrize("unit", [1e-12, 1e-8, 1.0, 1e8])
@pytest.mark.parametrize("jump", [0.0, 1e-9, 0.5])
def test_a_jump_in_any_unit_has_no_bound(unit, jump):
    """Two levels on either side of a threshold, in that unit, about a large number of it."""
    x, y = np.linspace(0, 10, 50), np.random.default_rng(0).normal(size=50)
    with pm.Model() as model:
        z, threshold = pm.Normal("z", 0, 1, shape=2), pm.Normal("threshold", 6, 1)
        levels = [unit * (1e4 + z[0]), unit * (1e4 + z[0] + jump)]
        pm.Normal("y", pt.switch(pm.math.ge(x, threshold), *levels), 0.5 * unit, observed=unit * (1e4 + y))
    likelihood, source, _ = row_likelihood(model)
    find = RemainderBounds(likelihood, 2)
    args = np.array([0.3, 0.2, 6.0]), 0.1 * np.eye(3), 5.0, source.fixed_arrays(), Rows(source.row_arrays())
    c = find(*args)
    near = np.abs(x - 6) < 0.45
    assert np.isinf(c[near]).all() == (jump > 0)
    assert np.isfinite(c[np.abs(x - 6) > 0.55]).all()
