"""A symmetric random walk on matrices with orthonormal columns or rows, which never leaves them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pymc_austerity.argument_kinds import is_number
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.distributions import _REMEDY, _TOLERANCE, _require_orthonormal
from pymc_austerity.likelihood import Block, Surroundings
from pymc_austerity.proposals.proposal import Move, Proposal, Propose, Target
from pymc_austerity.proposals.random_walk import WalkState, adapt_walk, check_target, target_rate, walk_state
from pymc_austerity.user_input import takes_fields


@takes_fields
@dataclass(frozen=True)
class StiefelWalk(Proposal):
    """Symmetric random walk on matrices with orthonormal columns (or rows, where there are more columns than rows).

    The matrix is turned by a random rotation, W′ = Q W (or W Q), Q = (I − A/2)⁻¹(I + A/2) with A skew-symmetric and
    normal.  Q and its inverse are equally likely, so the proposal's density, by the uniform law on the manifold,
    cancels.

    Parameters
    ----------
    scale : float, optional
        Standard deviation of the angle in each coordinate plane, in radians; tuning moves it.  2.38/√(d N) by default,
        for a manifold of d dimensions and N rows.
    target_accept : float, optional
        Acceptance rate that tuning aims at; 0.5 up to two dimensions and 0.25 above by default, half of that for a test
        of Barker's, which accepts at most half.

    Raises
    ------
    ValueError
        For a scale that is not positive; when the step is built for variables that are no matrices; where the chain
        starts from a matrix that is not orthonormal.

    Notes
    -----
    Declare the matrix by `UniformStiefel`; ``pm.Flat("W", shape=..., initval=...)`` with an orthonormal start gives the
    same posterior, but cannot be drawn from.  A square matrix keeps the sign of its determinant.  Several matrices in
    one step are each turned by a rotation of their own.  One Newton–Schulz iteration a move takes out the rounding
    that would otherwise add up, so the matrix stays orthonormal to about 1e-15 however long the chain.  A move costs
    O(n³) for n the longer side.  There is no proxy for such a variable: it would expand in directions that do not
    exist.

    References
    ----------
    A. Korattikara, Y. Chen and M. Welling, Austerity in MCMC land, ICML 2014, section 6.2; Z. Ouyang, Bayesian
    additive regression kernels, PhD thesis, Duke University, 2008.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> with pm.Model():
    ...     W = pma.UniformStiefel("W", shape=(2, 2))
    ...     y = pm.MvNormal("y", W @ np.ones(2), np.eye(2), observed=np.zeros((1_000, 2)))
    ...     idata = pm.sample(
    ...         step=pma.ApproxMH(proposal=pma.StiefelWalk()), tune=100, draws=100, chains=2, cores=1,
    ...         random_seed=1, progressbar=False, compute_convergence_checks=False,
    ...     )
    >>> draws = idata.posterior["W"].to_numpy()
    >>> bool(np.allclose(draws @ np.swapaxes(draws, -1, -2), np.eye(2)))
    True
    """

    no_proxy_because: ClassVar[str] = "the likelihood would be expanded in directions that leave the manifold"

    scale: float | None = None
    target_accept: float | None = None

    def __post_init__(self) -> None:
        if self.scale is not None and not (is_number(self.scale) and self.scale > 0):
            raise ValueError(
                f"StiefelWalk(scale={self.scale}) must be positive and finite: it is the standard deviation of an "
                "angle in radians. Leave it out to find it while tuning."
            )
        check_target(self.target_accept)

    def for_model(self, target: Target) -> Move:
        """Return the walk for the matrices of one model."""
        blocks = target.likelihood.blocks
        others = [b.name for b in blocks if len(b.shape) != 2 or max(b.shape) < 2 or np.dtype(b.dtype).kind != "f"]
        if others:
            raise ValueError(
                f"StiefelWalk turns matrices, and {others} is none (of real numbers, two dimensions, more than one "
                "entry). Give this step the matrices as vars= and the other variables to a step of their own, such as "
                "pymc_austerity.ApproxMH(vars=[...])."
            )
        dimension = sum(_dimension(*b.shape) for b in blocks)
        rate = target_rate(self.target_accept, dimension, target.best_rate)

        def make_state(theta: np.ndarray, discrete: np.ndarray, n_rows: int) -> WalkState:
            for block in blocks:
                _require_orthonormal(block.name, theta[block.start : block.stop].reshape(block.shape))
            scale = 2.38 / np.sqrt(dimension * n_rows) if self.scale is None else self.scale
            state = walk_state(np.ones(1), discrete, rate)
            state.log_scale[0] = np.log(scale)
            return state

        return Move(build_walk(blocks), adapt_walk, make_state)


def _dimension(rows: int, columns: int) -> int:
    """Return the dimension of the manifold."""
    n, p = max(rows, columns), min(rows, columns)
    return n * p - p * (p + 1) // 2


@njit
def random_rotation(rng: np.random.Generator, n: int, scale: float) -> np.ndarray:
    """Return the Cayley transform of a normal skew-symmetric matrix: a rotation as likely as its inverse."""
    half = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            half[i, j] = 0.5 * scale * rng.standard_normal()
            half[j, i] = -half[i, j]
    return np.linalg.solve(np.eye(n) - half, np.eye(n) + half)


def build_walk(blocks: Sequence[Block]) -> Propose:
    """Compile the walk of the matrices in a flat θ."""
    starts = np.array([b.start for b in blocks])
    shapes = np.array([b.shape for b in blocks])
    message = f"StiefelWalk: the current value of {[b.name for b in blocks]} is not orthonormal. {_REMEDY}"

    @njit
    def propose(  # type: ignore[no-untyped-def]
        rng: np.random.Generator, theta: np.ndarray, state: WalkState, surroundings: Surroundings
    ):
        theta_new = theta.copy()
        for k in range(starts.size):
            rows, columns = shapes[k]
            matrix = theta[starts[k] : starts[k] + rows * columns].reshape(rows, columns)
            tall = matrix if rows >= columns else np.ascontiguousarray(matrix.T)
            identity = np.eye(tall.shape[1])
            if not np.abs(np.dot(tall.T, tall) - identity).max() < _TOLERANCE:
                raise ValueError(message)
            turned = np.dot(random_rotation(rng, tall.shape[0], np.exp(state.log_scale[0])), tall)
            # Newton–Schulz: squares the distance of rounding from the manifold.
            turned = np.dot(turned, 1.5 * identity - 0.5 * np.dot(turned.T, turned))
            flat = turned.ravel() if rows >= columns else np.ascontiguousarray(turned.T).ravel()
            for i in range(flat.size):  # of two arrays numba would compile the words of an error too
                theta_new[starts[k] + i] = flat[i]
        return theta_new, 0.0, 0

    return propose
