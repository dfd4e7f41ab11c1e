"""Matrices with orthonormal columns or rows: a uniform prior, and a symmetric random walk that never leaves them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numba import njit
from numpy.typing import ArrayLike
from pytensor.graph.basic import Variable

from pymc_austerity.likelihood.density import Surroundings
from pymc_austerity.likelihood.layout import Block
from pymc_austerity.proposal_protocol import Move, Proposal, Target
from pymc_austerity.proposals import WalkState, adapt_walk, check_target, walk_state

#: A value with an entry of W Wᵀ − I larger than this was never on the manifold; rounding stays a million times below.
_TOLERANCE = 1e-8
_REMEDY = (
    "Start from orthonormal columns (rows, of a wide matrix), such as numpy.linalg.qr(A)[0], or declare the variable "
    "as pymc_austerity.UniformStiefel(name, shape=...), which starts from the identity."
)


class UniformStiefel:
    """Uniform prior on matrices with orthonormal columns, or orthonormal rows where there are more columns than rows.

    The uniform law on the Stiefel manifold is the one that no rotation changes (Haar measure).  Its log density by that
    measure is 0; off the manifold it is −∞, so NUTS and other samplers that step into the surrounding space cannot move
    such a variable.  Use ``pymc_austerity.StiefelWalk()`` as the proposal of a step of this package.

    Parameters
    ----------
    name : str
        Name of the variable.
    shape : (int, int)
        Rows and columns of the matrix.
    start : array_like of that shape, optional
        Where chains start; the identity (with zeros below or beside it) by default.
    dims : sequence of str, optional
        Names of the two dimensions in the model.

    Raises
    ------
    ValueError
        For a shape that is not that of a matrix with more than one entry, or a start that is not orthonormal.

    Notes
    -----
    Another prior is declared by a ``pm.Potential`` beside it: its density by the uniform law.

    References
    ----------
    Y. Chikuse, Statistics on Special Manifolds, 2003.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> with pm.Model():
    ...     W = pma.UniformStiefel("W", shape=(3, 3))
    >>> draw = pm.draw(W, random_seed=1)
    >>> bool(np.allclose(draw @ draw.T, np.eye(3)))
    True
    """

    def __new__(
        cls,
        name: str,
        shape: tuple[int, int],
        *,
        start: ArrayLike | None = None,
        dims: Sequence[str] | None = None,
    ) -> Variable:
        """Add the variable to the model in whose context this is called."""
        if len(tuple(shape)) != 2 or min(shape) < 1 or max(shape) < 2:
            raise ValueError(
                f"UniformStiefel({name!r}, shape={shape}) needs the rows and columns of a matrix, such as (4, 2). A "
                "unit vector of length n has shape (n, 1)."
            )
        centre = np.eye(*shape) if start is None else np.array(start, dtype=float)
        if centre.shape != tuple(shape):
            raise ValueError(f"UniformStiefel({name!r}) has shape {shape}, but its start has shape {centre.shape}.")
        _require_orthonormal(name, centre)
        return pm.CustomDist(
            name,
            centre,
            logp=_log_density,
            dist=_uniform_draw,
            support_point=lambda rv, size, start: start,
            signature="(n,p)->(n,p)",
            class_name="UniformStiefel",
            **({} if dims is None else {"dims": dims}),
        )


def _log_density(value: Variable, start: Variable) -> Variable:
    n, p = start.type.shape
    gram = value.T @ value if n >= p else value @ value.T
    return pt.switch(pt.all(pt.abs(gram - np.eye(min(n, p))) < _TOLERANCE), 0.0, -np.inf)


def _uniform_draw(start: Variable, size: Variable) -> Variable:
    """Draw by the QR decomposition of a normal matrix, with the signs that make it unique (Mezzadri 2007)."""
    n, p = start.type.shape
    q, r = pt.linalg.qr(pm.Normal.dist(0.0, 1.0, shape=(max(n, p), min(n, p))), mode="reduced")
    q = q * pt.sign(pt.diagonal(r))
    return q if n >= p else q.T


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
        Acceptance rate that tuning aims at; 0.5 up to two dimensions and 0.25 above by default.

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
        if self.scale is not None and not (np.isfinite(self.scale) and self.scale > 0):
            raise ValueError(
                f"StiefelWalk(scale={self.scale}) must be positive and finite: it is the standard deviation of an "
                "angle in radians. Leave it out to find it while tuning."
            )
        check_target(self.target_accept)

    def for_model(self, target: Target) -> Move:
        """Return the walk for the matrices of one model.

        Raises
        ------
        ValueError
            See the class.
        """
        blocks = target.likelihood.blocks
        others = [b.name for b in blocks if len(b.shape) != 2 or max(b.shape) < 2 or np.dtype(b.dtype).kind != "f"]
        if others:
            raise ValueError(
                f"StiefelWalk turns matrices, and {others} is none (of real numbers, two dimensions, more than one "
                "entry). Give this step the matrices as vars= and the other variables to a step of their own, such as "
                "pymc_austerity.ApproxMH(vars=[...])."
            )
        dimension = sum(_dimension(*b.shape) for b in blocks)

        def make_state(theta: np.ndarray, discrete: np.ndarray, n_rows: int) -> WalkState:
            for block in blocks:
                _require_orthonormal(block.name, theta[block.start : block.stop].reshape(block.shape))
            scale = 2.38 / np.sqrt(dimension * n_rows) if self.scale is None else self.scale
            rate = self.target_accept or (0.5 if dimension <= 2 else 0.25)
            state = walk_state(np.ones(1), discrete, rate, np.empty(0), np.empty((0, 0)), np.empty(0))
            state.log_scale[0] = np.log(scale)
            return state

        return Move(build_walk(blocks), adapt_walk, make_state)


def _dimension(rows: int, columns: int) -> int:
    """Return the dimension of the manifold."""
    n, p = max(rows, columns), min(rows, columns)
    return n * p - p * (p + 1) // 2


def _require_orthonormal(name: str, matrix: np.ndarray) -> None:
    rows, columns = matrix.shape
    gram = matrix.T @ matrix if rows >= columns else matrix @ matrix.T
    error = float(np.abs(gram - np.eye(min(rows, columns))).max())
    if not error < _TOLERANCE:
        raise ValueError(
            f"The start of {name!r} is not orthonormal: an entry of its matrix of inner products is off by "
            f"{error:.2g}. A walk on the manifold never gets there. {_REMEDY}"
        )


@njit
def random_rotation(rng: np.random.Generator, n: int, scale: float) -> np.ndarray:
    """Return the Cayley transform of a normal skew-symmetric matrix: a rotation as likely as its inverse."""
    half = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            half[i, j] = 0.5 * scale * rng.standard_normal()
            half[j, i] = -half[i, j]
    return np.linalg.solve(np.eye(n) - half, np.eye(n) + half)


def build_walk(blocks: Sequence[Block]) -> Callable[..., Any]:
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
            theta_new[starts[k] : starts[k] + rows * columns] = flat
        return theta_new, 0.0, 0

    return propose


def amari_distance(estimate: ArrayLike, truth: ArrayLike) -> np.ndarray:
    r"""Distance between unmixing matrices that ignores the order, sign and scale of their rows.

    With :math:`P = W W_0^{-1}` it is :math:`\sum_i (\sum_j |p_{ij}| / \max_k |p_{ik}| - 1)`, over the rows, plus the
    same over the columns: 0 for the same sources, at most :math:`2 D (D - 1)`.

    Parameters
    ----------
    estimate : array_like of shape (..., D, D)
        One or many unmixing matrices W, such as draws of a posterior.
    truth : array_like of shape (D, D)
        The unmixing matrix W₀ to compare with.

    Returns
    -------
    numpy.ndarray, shape (...)

    Raises
    ------
    ValueError
        For matrices that are not square or of different size, or a `truth` without an inverse.

    References
    ----------
    S. Amari, A. Cichocki and H. H. Yang, A new learning algorithm for blind signal separation, NIPS 8, 1996.

    Examples
    --------
    >>> import numpy as np, pymc_austerity as pma
    >>> float(pma.amari_distance([[0, 2], [-1, 0]], np.eye(2)))
    0.0
    >>> float(pma.amari_distance([[1, 1], [-1, 1]], np.eye(2)))
    4.0
    """
    estimate, truth = np.asarray(estimate, dtype=float), np.asarray(truth, dtype=float)
    if truth.ndim != 2 or truth.shape[0] != truth.shape[1] or estimate.shape[-2:] != truth.shape:
        raise ValueError(
            f"amari_distance compares square matrices of one size; it was given shapes {estimate.shape} and "
            f"{truth.shape}. Pass W with its two dimensions last."
        )
    if np.linalg.matrix_rank(truth) < len(truth):
        raise ValueError("amari_distance: the matrix to compare with has no inverse, so it separates no sources.")
    p = np.abs(estimate @ np.linalg.inv(truth))
    over_rows = (p.sum(axis=-1) / p.max(axis=-1) - 1).sum(axis=-1)
    over_columns = (p.sum(axis=-2) / p.max(axis=-2) - 1).sum(axis=-1)
    return over_rows + over_columns
