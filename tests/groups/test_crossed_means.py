"""Sums over cells, joint means and means given others, against dense matrices: two factors of unequal sizes.

The expansion is multiplied by e^{ks}, as that of rows with normal errors, with s the last entry of θ.
"""

import numpy as np
import pytest

from pymc_austerity.groups import elimination
from pymc_austerity.groups.crossed_means import NO_TANGENT, Tangent, factorise, find_tangent, join, means_given_others
from pymc_austerity.groups.elimination import eliminate, join_eliminated, places_left, solve_joint
from pymc_austerity.groups.group_conditional import Conditional
from pymc_austerity.groups.group_expansion import GroupExpansion, KnownScale, grouped_sum, own_changes, pull_of_others
from pymc_austerity.groups.tied_prior import ties_together

#: Between groups that the prior ties to each other, of which there are none.
NOTHING = np.empty(0)

G, H = 7, 5
POWER, SLOPE, SQUARES = -2.0, -60.0, -23.0


class Case:
    """An expansion with cells, its precision as a dense matrix, and the factors of the blocks of this."""

    def __init__(self, sizes: tuple[int, int]):
        rng = np.random.default_rng(8)
        size, largest = np.repeat(sizes, [G, H]), max(sizes)
        own = np.zeros((G + H, largest), np.int64)
        inside = np.arange(largest) < size[:, None]
        own[inside] = 2 + np.arange(size.sum())  # behind two shared parameters
        self.owner, self.n = np.repeat(np.arange(G + H), size), size.sum()
        # The last group of the first factor has no rows, and not all pairs have some in common.
        rows = 0.5 * rng.normal(size=(60, self.n))
        first, second = rng.integers(0, G - 1, 60), G + rng.integers(0, H, 60)
        rows[(self.owner != first[:, None]) & (self.owner != second[:, None])] = 0.0
        self.rows_hessian = -rows.T @ rows
        self.precision = rows.T @ rows + np.diag(rng.uniform(0.2, 0.6, self.n))
        pairs = sorted({(g, h) for g, h in zip(first, second)} | {(h, g) for g, h in zip(first, second)})
        cells, hessian = np.zeros((len(pairs), largest, largest)), np.zeros((G + H, largest, largest))
        self.factor = np.zeros((G + H, largest, largest))
        for c, (g, h) in enumerate(pairs):
            cells[c, : size[g], : size[h]] = self.block(self.rows_hessian, g, h)
        for g in range(G + H):
            hessian[g, : size[g], : size[g]] = self.block(self.rows_hessian, g, g)
            self.factor[g, : size[g], : size[g]] = np.linalg.cholesky(self.block(self.precision, g, g))
        centre, read = rng.normal(size=3 + self.n), np.arange(2)
        self.gradient, self.cross = rng.normal(size=self.n), rng.normal(size=(self.n, 2))
        start = np.searchsorted([g for g, _ in pairs], np.arange(G + H + 1))
        self.inside = inside
        self.e = GroupExpansion(
            centre, own, size, np.array([0, G, G + H]), read, read, self.padded(self.gradient), hessian,
            -hessian, np.stack([self.padded(of) for of in self.cross.T], axis=2), rng.normal(size=2), np.zeros((2, 2)),
            start, np.array([h for _, h in pairs], np.uint32), cells,
            places_left(np.array([0, G, G + H]), size, (False, False)), NO_TANGENT,
            KnownScale(np.array([2 + self.n]), POWER, SLOPE, SQUARES), ties_together([], largest, np.empty(0)),
            np.empty((0, 3), np.int64), np.empty(0, np.int64),
        )  # fmt: skip

    def block(self, matrix, g, h):
        return matrix[np.ix_(self.owner == g, self.owner == h)]

    def padded(self, x):
        found = np.zeros(self.inside.shape)
        found[self.inside] = x
        return found

    def joint_precision(self, rate):
        """Q: the blocks as they are, and between them what the expansion has, multiplied by the rate."""
        return np.where(self.owner[:, None] == self.owner, 1.0, rate) * self.precision

    def joined(self, b, phi, e, rate=1.0):
        """What `join` makes of P⁻¹b."""
        shift = self.padded(np.linalg.solve(self.joint_precision(0.0), b))
        join(shift, self.factor, rate, phi, e)
        assert (shift[~self.inside] == 0).all()
        return shift[self.inside]


@pytest.fixture(scope="module")
def case():
    return Case((3, 2))


@pytest.mark.slow
def test_sums_are_those_of_the_dense_expansion(case):
    e, rng = case.e, np.random.default_rng(3)
    theta, other = rng.normal(size=(2, 3 + case.n))

    def dense(at):
        phi, u, s = np.split(at - e.centre, [2, 2 + case.n])
        of_rows = e.shared_gradient @ phi + case.gradient @ u + u @ case.cross @ phi + u @ case.rows_hessian @ u / 2
        rate = np.exp(POWER * s[0])
        return rate * of_rows + SLOPE * s[0] + SQUARES * (rate - 1)

    assert grouped_sum(theta, np.empty(0), e) == pytest.approx(dense(theta))
    for g in (0, G - 1, G + 2):
        moved = theta.copy()
        moved[e.own[g, : e.size[g]]] = other[e.own[g, : e.size[g]]]
        assert own_changes(moved, theta, np.array([g]), e)[0] == pytest.approx(dense(moved) - dense(theta))


def test_joint_means_solve_the_dense_system(case):
    rate, b, phi = 0.6, np.random.default_rng(4).normal(size=case.n), np.zeros(2)
    precision = case.joint_precision(rate)
    exact = np.linalg.solve(precision, b)
    off = case.joined(b, phi, case.e, rate) - exact
    assert off @ precision @ off < 1e-5
    apart = case.e._replace(cell_with=case.e.cell_with[:0], cell_start=np.zeros_like(case.e.cell_start))
    for wrong in (case.joined(b, phi, apart, rate), case.joined(b, phi, case.e, 0.5 * rate)):
        assert np.abs(wrong - exact).max() > 0.03


@pytest.mark.slow
@pytest.mark.parametrize("many", [0, 1_000])
def test_rows_of_what_is_left_are_the_same_either_way(case, many, monkeypatch):
    """Entry by entry of the cells of a group, and row by row. Planted: a group that leaves its cells out."""
    rate = 0.9
    expected = eliminate(case.factor, NOTHING, rate, case.e)[0]
    monkeypatch.setattr(elimination, "_MANY", many)
    monkeypatch.setattr(elimination, "_take_off", elimination._take_off.py_func)
    np.testing.assert_array_equal(eliminate.py_func(case.factor, NOTHING, rate, case.e)[0], expected)
    monkeypatch.setattr(elimination, "_take_off", lambda *_: None)
    assert np.abs(eliminate.py_func(case.factor, NOTHING, rate, case.e)[0] - expected).max() > 1e-3


@pytest.mark.slow
def test_eliminated_means_and_determinant_are_dense_ones(case):
    rate, b = 0.6, np.random.default_rng(4).normal(size=case.n)
    precision = case.joint_precision(rate)
    left, log_diagonal = eliminate(case.factor, NOTHING, rate, case.e)
    first = sum(np.log(np.diag(case.factor[g])[: case.e.size[g]]).sum() for g in range(G))
    assert first + log_diagonal == pytest.approx(np.linalg.slogdet(precision)[1] / 2)
    x = case.padded(np.linalg.solve(case.joint_precision(0.0), b))
    join_eliminated(x, case.factor, left, rate, case.e)
    exact = np.linalg.solve(precision, b)
    assert x[case.inside] == pytest.approx(exact)
    for of, allowed in ((left, 1e-9), (np.empty((0, 0)), 0.05)):
        off = solve_joint(case.padded(b), case.factor, of, rate, case.e)[case.inside] - exact
        assert np.sqrt(off @ precision @ off) < allowed
    assert np.abs(eliminate(case.factor, NOTHING, 0.5 * rate, case.e)[1] - log_diagonal) > 1e-3


def test_search_for_means_begins_on_their_plane(case):
    b, slope = np.random.default_rng(4).normal(size=(2, case.n))
    at = np.array([0.3, -0.2])

    def exact(phi):
        return np.linalg.solve(case.precision, b + phi[0] * slope)

    def off(phi, tangent):
        """Distance from the joint means, in standard deviations of all groups together."""
        d = case.joined(b + phi[0] * slope, phi, case.e._replace(tangent=tangent)) - exact(phi)
        return np.sqrt(d @ case.precision @ d)

    factor = np.array([[0.5, 0.0], [0.1, 0.4]])
    tangent = find_tangent(lambda phi: case.padded(exact(phi)), at, factor)
    assert off(np.array([1.0, 2.0]), tangent) < 1e-10  # on the plane nothing is left to search for
    far = Tangent(at, tangent.shift + case.padded(np.full(case.n, 3.0)), tangent.slope)
    assert 1e-6 < off(at, far) < 0.3


def test_no_plane_without_means_to_either_side():
    def means(phi):
        return np.full((3, 1), np.inf if phi[0] > 0.5 else 1.0)

    assert find_tangent(means, np.zeros(2), np.eye(2)).at.size == 0
    assert find_tangent(means, np.zeros(2), 0.1 * np.eye(2)).at.size == 2


def test_means_given_other_factors_are_those_of_the_law(case):
    e, rng = case.e, np.random.default_rng(6)
    b, theta, rate = rng.normal(size=case.n), rng.normal(size=3 + case.n), 0.6
    precision = case.joint_precision(rate)
    mean = np.linalg.solve(precision, b)  # from the centre, given φ
    alone = case.padded(np.linalg.solve(case.joint_precision(0.0), b))
    groups = np.array([G - 1, 0, 3])
    given = Conditional(np.full_like(alone, np.nan), alone, case.factor, 0.0, np.empty((0, 0)), np.empty((0, G + H, 1)))
    found = means_given_others(groups, pull_of_others(theta, groups, e), rate, e, given)
    u, centre = theta[2:-1] - e.centre[2:-1], e.centre[2:-1]
    for row, g in zip(found, groups, strict=True):
        here, others = case.owner == g, case.owner >= G
        pull = precision[np.ix_(here, others)] @ (u - mean)[others]
        exact = centre[here] + mean[here] - np.linalg.solve(case.block(precision, g, g), pull)
        assert row[: here.sum()] == pytest.approx(exact)


def test_a_matrix_that_is_not_positive_has_no_factor():
    matrices = np.array([[[4.0, 0.0], [2.0, 5.0]], [[1.0, 2.0], [2.0, 1.0]]])
    assert factorise(matrices, 0, 2)
    assert not factorise(matrices, 1, 2)
