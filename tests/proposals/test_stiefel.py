"""Orthonormal matrices: moments of the uniform law, symmetry of the walk, rounding, posteriors on the circle."""

from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytest
from evidence import LEVEL, MAX_Z, mean_z
from numba import njit
from pytensor.compile.mode import Mode
from scipy import stats
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.likelihood.layout import Block
from pymc_austerity.proposals.proposal import Target
from pymc_austerity.proposals.stiefel import random_rotation


@dataclass(frozen=True)
class Layout:
    """As much of a likelihood as a walk asks for."""

    blocks: tuple[Block, ...]


def walker(*shapes, scale=0.5):
    """A walk of matrices of some shapes, and their flat start."""
    starts = np.cumsum([0, *(np.prod(s) for s in shapes)])
    blocks = tuple(
        Block(f"W{i}", s, "float64", int(a), int(b)) for i, (s, a, b) in enumerate(zip(shapes, starts, starts[1:]))
    )
    walk = pma.StiefelWalk(scale).for_model(Target(Layout(blocks), None, 1.0, {}))
    theta = np.concatenate([np.eye(*s).ravel() for s in shapes])
    return walk.propose, theta, walk.make_state(theta, np.zeros(theta.size, bool), 100)


def wander(propose, rng, theta, state, n_steps):
    """Positions of a walk that is always accepted."""
    positions = np.empty((n_steps, theta.size))
    for i in range(n_steps):
        theta, log_ratio, n_read = propose(rng, theta, state, None)
        if log_ratio != 0.0 or n_read != 0:
            raise AssertionError("a symmetric walk has no ratio and reads no row")
        for k in range(theta.size):  # of two arrays numba would compile the words of an error too
            positions[i, k] = theta[k]
    return positions


def haar_z(matrices):
    """Distances of moments of draws (draw, n, p), p < n or SO(4), from those of the uniform law, in standard errors."""
    n, p = matrices.shape[1:]
    w = matrices
    found = {
        "mean": (w[:, 0, 0], 0.0),
        "square": (w[:, 1, 0] ** 2, 1 / n),
        "fourth": (w[:, 0, 0] ** 4, 3 / (n * (n + 2))),
        "two of a column": (w[:, 0, 0] ** 2 * w[:, 1, 0] ** 2, 1 / (n * (n + 2))),
        "apart": (w[:, 0, 0] ** 2 * w[:, 1, 1] ** 2, (n + 1) / ((n - 1) * n * (n + 2))),
        "minor": (w[:, 0, 0] * w[:, 0, 1] * w[:, 1, 0] * w[:, 1, 1], -1 / ((n - 1) * n * (n + 2))),
    }
    if n == p:
        trace = np.trace(w, axis1=1, axis2=2)
        found |= {"trace": (trace, 0.0), "square of the trace": (trace**2, 1.0)}
    return np.array([mean_z(values.reshape(4, -1), expected) for values, expected in found.values()])


# The uniform law


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(4, 4), (2, 5)])
def test_draws_of_the_prior_are_uniform(shape):
    with pm.Model(coords={"row": range(shape[0]), "column": range(shape[1])}):
        pma.UniformStiefel("W", shape=shape, dims=("row", "column"))
        # By NumPy: to compile the factorisation takes longer than to draw.
        by_numpy = Mode(linker="py", optimizer="fast_compile")
        prior = pm.sample_prior_predictive(8_000, random_seed=1, compile_kwargs={"mode": by_numpy}).prior["W"]
    assert prior.dims[-2:] == ("row", "column")
    draws = prior.to_numpy()[0]
    products = draws @ np.swapaxes(draws, 1, 2)
    np.testing.assert_allclose(products, np.broadcast_to(np.eye(shape[0]), products.shape), atol=1e-12)
    if shape[0] == shape[1]:  # both signs of the determinant
        assert stats.binomtest(int((np.linalg.det(draws) > 0).sum()), len(draws)).pvalue > LEVEL
    assert np.abs(haar_z(draws if shape[0] >= shape[1] else np.swapaxes(draws, 1, 2))).max() < MAX_Z


def test_draws_without_the_signs_of_the_factorisation_are_not():
    q, _ = np.linalg.qr(np.random.default_rng(3).standard_normal((20_000, 4, 4)))
    assert np.abs(haar_z(q)).max() > MAX_Z


@pytest.mark.slow
def test_a_walk_without_data_is_uniform_and_stays_orthonormal():
    """Of matrices of three shapes at once, from their flat start."""
    propose, theta, state = walker((4, 4), (5, 2), (2, 5))
    positions = njit(wander)(propose, np.random.default_rng(2), theta, state, 100_000)
    square, tall, wide = np.split(positions, [16, 26], axis=1)
    for w in square.reshape(-1, 4, 4), tall.reshape(-1, 5, 2), wide.reshape(-1, 2, 5).transpose(0, 2, 1):
        assert np.abs(haar_z(w)).max() < MAX_Z
        assert np.abs(np.swapaxes(w, 1, 2) @ w - np.eye(w.shape[2])).max() < 1e-14  # as the docstring says


# Symmetry


def _asymmetry_p(rotations):
    """p-value that a rotation and its inverse are equally likely, over odd functions of it (Bonferroni)."""
    q = rotations
    pairs, triples = [(1, 0), (2, 1), (3, 0)], [(0, 1, 2), (0, 1, 3), (1, 2, 3)]
    odd = [q[:, i, j] - q[:, j, i] for i, j in pairs]
    odd += [q[:, i, j] * q[:, j, k] * q[:, k, i] - q[:, j, i] * q[:, k, j] * q[:, i, k] for i, j, k in triples]
    return min(stats.wilcoxon(values).pvalue for values in odd) * len(odd)


@pytest.mark.slow
def test_a_rotation_is_as_likely_as_its_inverse():
    """W′ from the QR decomposition of W + noise leaves the uniform law alone, but is no symmetric proposal."""
    rng = np.random.default_rng(4)
    assert _asymmetry_p(np.array([random_rotation(rng, 4, 0.7) for _ in range(20_000)])) > LEVEL
    q, r = np.linalg.qr(np.eye(4) + 0.5 * rng.standard_normal((20_000, 4, 4)))
    assert _asymmetry_p(q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]) < LEVEL


# A posterior on the circle: rows y_i ~ N(W e_1, I), so that the angle is von Mises

ROWS = np.random.default_rng(6).normal(size=(8, 2)) * 1.0 + [0.3, 0.2]
TOTAL = ROWS.sum(axis=0)
ANGLE = stats.vonmises(np.hypot(*TOTAL), loc=np.arctan2(TOTAL[1], TOTAL[0]))


def uniform():
    return pma.UniformStiefel("W", shape=(2, 2))


def circle_model(declare):
    with pm.Model() as model:
        W = declare()
        pm.Normal("y", W[:, 0], 1.0, observed=ROWS)
    return model


@pytest.mark.slow
def test_the_posterior_of_an_angle_is_von_mises():
    model = circle_model(uniform)
    step = pma.ExactMH(proposal=pma.StiefelWalk(), proxy=None, model=model)
    idata = sampled(model, step, 6_000, tune=200, seed=3, chains=4, quiet=True)
    draws = idata.posterior["W"].to_numpy()
    np.testing.assert_allclose(draws @ np.swapaxes(draws, -1, -2), np.broadcast_to(np.eye(2), draws.shape), atol=1e-10)
    angle = np.arctan2(draws[..., 1, 0], draws[..., 0, 0]) - ANGLE.kwds["loc"]
    odd = np.abs([mean_z(np.sin(angle), 0.0), mean_z(np.sin(2 * angle), 0.0)])
    assert odd.max() < MAX_Z
    for kappa, right in ((ANGLE.args[0], True), (1.2 * ANGLE.args[0], False)):
        even = [mean_z(f(angle), stats.vonmises(kappa).expect(f)) for f in (np.cos, lambda a: np.sin(a) ** 2)]
        assert (np.abs(even).max() < MAX_Z) == right


# Bad starts and bad settings


def test_what_leaves_the_manifold_is_refused():
    off = circle_model(lambda: pm.Flat("W", shape=(2, 2), initval=[[1.0, 0.1], [0.0, 1.0]]))
    with pytest.raises(ValueError, match=r"start of 'W' is not orthonormal.*off by 0\.1.*UniformStiefel"):
        pma.ExactMH(model=off, proposal=pma.StiefelWalk())
    for arguments in ({"proxy": pma.Taylor()}, {"rows": pma.Weighted()}):
        with pytest.raises(ValueError, match="leave the manifold. Leave out proxy="):
            pma.ApproxMH(model=circle_model(uniform), proposal=pma.StiefelWalk(), **arguments)


@pytest.mark.slow
def test_start_off_the_manifold_in_pm_sample_is_refused():
    quiet = {"chains": 1, "cores": 1, "progressbar": False, "quiet": True}
    with circle_model(lambda: pm.Flat("W", shape=(2, 2), initval=np.eye(2))):
        step = pma.ExactMH(proposal=pma.StiefelWalk())
        with pytest.raises(ValueError, match=r"current value of \['W'\] is not orthonormal.*qr"):
            pm.sample(5, tune=5, step=step, initvals={"W": np.ones((2, 2))}, **quiet)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"shape": (3,)}, "rows and columns of a matrix.*shape \\(n, 1\\)"),
        ({"shape": (1, 1)}, "rows and columns"),
        ({"shape": (2, 2), "start": np.eye(3)}, r"shape \(2, 2\), but its start has shape \(3, 3\)"),
        ({"shape": (2, 2), "start": 2 * np.eye(2)}, "start of 'W' is not orthonormal"),
    ],
)
def test_a_prior_that_makes_no_sense_is_refused(arguments, told):
    with pm.Model(), pytest.raises(ValueError, match=told):
        pma.UniformStiefel("W", **arguments)


# Amari distance


def test_the_amari_distance_ignores_order_sign_and_scale():
    rng = np.random.default_rng(5)
    truth = rng.normal(size=(4, 4))
    same = (np.diag([1.0, -2.0, 0.5, 3.0]) @ truth)[[2, 0, 3, 1]]
    assert pma.amari_distance(same, truth) == pytest.approx(0, abs=1e-12)
    near = same + 0.01 * rng.normal(size=(4, 4))
    assert 0.01 < pma.amari_distance(near, truth) < 1
    assert pma.amari_distance(np.ones((4, 4)) @ truth, truth) == pytest.approx(24)


def test_the_amari_distance_of_a_turn_is_known():
    """For a turn by φ < π/4 every row and column contributes tan φ."""
    phi = np.array([0.1, 0.3])
    turns = np.array([[np.cos(phi), -np.sin(phi)], [np.sin(phi), np.cos(phi)]]).transpose(2, 0, 1)
    np.testing.assert_allclose(pma.amari_distance(turns, np.eye(2)), 4 * np.tan(phi))


def test_matrices_that_cannot_be_compared_are_refused():
    with pytest.raises(ValueError, match=r"shapes \(2, 3\) and \(2, 2\)"):
        pma.amari_distance(np.ones((2, 3)), np.eye(2))
    with pytest.raises(ValueError, match="no inverse"):
        pma.amari_distance(np.eye(2), np.ones((2, 2)))
