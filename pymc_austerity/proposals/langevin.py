"""Stochastic-gradient Langevin proposals, with the same batch of rows in the move and in the move back.

θ′ = θ + (a/2) M ∇log π̂(θ) + √a M^{1/2} z.  The gradient is estimated from a batch X_n, drawn before anything else of
the move.  Given X_n the move is a Gaussian with a density, so a test that decides by q(θ|θ′, X_n)/q(θ′|θ, X_n) makes
each of these kernels reversible, and with them their mixture over batches (Korattikara, Chen and Welling 2014, 6.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pymc_austerity.argument_kinds import is_number, is_whole
from pymc_austerity.compile.addresses import n_rows_at
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.likelihood import Surroundings
from pymc_austerity.proposals.gradients import Slope, link_gradient
from pymc_austerity.proposals.proposal import Move, Proposal, Propose, Target, log_scale_of
from pymc_austerity.proposals.random_walk import (
    WalkState,
    adapt_covariance,
    adapt_walk,
    check_reachable,
    check_target,
    scale_and_factor,
    walk_state,
)
from pymc_austerity.proxy import product
from pymc_austerity.rows.sources import draw_subset
from pymc_austerity.user_input import takes_fields

#: Acceptance rates at which ℓ²·E a(Δ), Δ ~ N(−ℓ⁶/2, ℓ⁶), is largest: ℓ² is the size of a step, and Δ its log ratio in
#: many dimensions (Roberts and Rosenthal 1998); a is min(1, exp Δ) or Barker's 1/(1 + exp −Δ).
_BEST_METROPOLIS, _BEST_BARKER = 0.574, 0.347
#: Step size l²·D^(−1/3) for a posterior of unit covariance (Roberts and Rosenthal 1998, for a normal target).
_OPTIMAL_LENGTH = 1.65
#: Above this many parameters a dense covariance costs more than it gains.
_MAX_DENSE = 200


@takes_fields
@dataclass(frozen=True, eq=False)
class Langevin(Proposal):
    """Langevin proposal θ′ = θ + (a/2) M ∇log π(θ) + √a M^{1/2} z, the gradient estimated from a batch of rows.

    Parameters
    ----------
    step_size : float, optional
        The step size a at the start; tuning moves it.  By default 1.65² D^(−1/3) with M the posterior covariance.
    batch_size : int, default 500
        Rows of the gradient, drawn without replacement for each move; all rows where there are no more, which makes
        it the Metropolis-adjusted Langevin proposal.
    preconditioner : float or array_like of shape (D,) or (D, D), optional
        M: a number times the identity, a diagonal, or a symmetric positive definite matrix, in the unconstrained
        space.  By default the covariance of the surrogate where the step has a proxy.  Without one M starts as the
        identity (over N, where no step size is given) and, up to 200 parameters, follows the covariance of the chain
        while tuning.
    target_accept : float, optional
        Acceptance rate that tuning aims at.  By default that at which a Langevin proposal with the exact gradient is
        most efficient: 0.574 for the tests of Metropolis and Hastings, 0.347 for Barker's.

    Raises
    ------
    ValueError
        For values out of range, and when the step is built for discrete variables, for a likelihood without a
        derivative or for a preconditioner of another size than D.

    Notes
    -----
    With a proxy the gradient is that of the summed expansion, known without reading rows, plus N/n times that of the
    batch's remainders.  Rows read for the gradient count in ``n_rows``: once a draw, though they are evaluated at
    both ends of the move.  The statistic ``scaling`` is √a.

    The noise of the batch enters the move and the move back alike, so a test on all rows leaves the posterior as it is,
    whatever the batch size; a smaller batch is paid for with smaller steps.

    References
    ----------
    M. Welling and Y. W. Teh, Bayesian learning via stochastic gradient Langevin dynamics, ICML 2011;
    A. Korattikara, Y. Chen and M. Welling, Austerity in MCMC land, ICML 2014, section 6.4;
    G. O. Roberts and J. S. Rosenthal, Optimal scaling of discrete approximations to Langevin diffusions, JRSS B 60,
    1998; J. Baker, P. Fearnhead, E. B. Fox and C. Nemeth, Control variates for stochastic gradient MCMC, Statistics
    and Computing 29, 2019.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> with pm.Model():
    ...     mu = pm.Normal("mu", 0, 10)
    ...     y = pm.Normal("y", mu, 1, observed=np.random.default_rng(0).normal(size=5_000))
    ...     step = pma.ApproxMH(proposal=pma.Langevin(batch_size=100))
    ...     idata = pm.sample(
    ...         step=step, tune=200, draws=100, chains=2, cores=1,
    ...         random_seed=1, progressbar=False, compute_convergence_checks=False,
    ...     )
    >>> bool((idata.sample_stats["n_rows"] >= 600).all())  # 100 for the gradient, 500 for the first look
    True
    """

    reads_rows: ClassVar[bool] = True

    step_size: float | None = None
    batch_size: int = 500
    preconditioner: ArrayLike | None = None
    target_accept: float | None = None

    def __post_init__(self) -> None:
        if self.step_size is not None and not (is_number(self.step_size) and self.step_size > 0):
            raise ValueError(
                f"Langevin(step_size={self.step_size}) must be positive and finite: with 0 the chain never moves. "
                "Leave it out to find it while tuning."
            )
        if not is_whole(self.batch_size, 1):
            raise ValueError(
                f"Langevin(batch_size={self.batch_size}) must be a whole number of at least 1 row: without rows there "
                "is no gradient. 500 is a sensible start."
            )
        check_target(self.target_accept)
        if self.preconditioner is not None:
            _factor(np.asarray(self.preconditioner, dtype=float))

    def for_model(self, target: Target) -> Move:
        """Return the proposal for one model: compile its gradient."""
        blocks = target.likelihood.blocks
        discrete = [b.name for b in blocks if np.dtype(b.dtype).kind != "f"]
        if discrete:
            raise ValueError(
                f"Langevin moves along the gradient, and {discrete} is discrete and has none. Give this step the "
                "continuous variables as vars= and move the others by a step of their own, such as "
                "pymc_austerity.ApproxMH(vars=[...], proposal=pymc_austerity.RandomWalk())."
            )
        d = target.likelihood.theta_size
        if self.preconditioner is not None:
            factor = _factor(np.asarray(self.preconditioner, dtype=float))
            if factor.ndim > 0 and factor.shape[0] != d:
                raise ValueError(
                    f"Langevin was given a preconditioner of shape {np.shape(self.preconditioner)}, but the step moves "
                    f"{d} numbers in all (in the unconstrained space, in the order of its variables)."
                )
            factor, learns = (np.full(d, float(factor)) if factor.ndim == 0 else factor), False
        elif target.prepared is not None:
            factor, learns = target.prepared.move.factor, False
        else:
            factor, learns = None, d <= _MAX_DENSE
        check_reachable(self.target_accept, target.best_rate)
        rate = self.target_accept or (_BEST_METROPOLIS if target.best_rate > 0.5 else _BEST_BARKER)
        step_size = _OPTIMAL_LENGTH**2 / d ** (1 / 3) if self.step_size is None else self.step_size

        def make_state(theta: np.ndarray, discrete: np.ndarray, n_rows: int) -> WalkState:
            if factor is not None:
                initial = np.ascontiguousarray(factor, dtype=float).copy()
            else:
                sd = np.full(d, 1.0 if self.step_size is not None else 1 / np.sqrt(n_rows))
                initial = np.diag(sd) if learns else sd
            learnt = (theta.copy(), np.zeros((d, d)), np.diag(initial).copy()) if learns else None
            state = walk_state(initial, discrete, rate, learnt)
            state.log_scale[0] = 0.5 * np.log(step_size)
            return state

        slope, reached = link_gradient(target)
        propose = build_langevin(slope, int(self.batch_size))
        if learns:
            return Move(propose, adapt_covariance, make_state, scale_and_factor, reads_rows=True, reached=reached)
        return Move(propose, adapt_walk, make_state, log_scale_of, reads_rows=True, reached=reached)


def _factor(preconditioner: np.ndarray) -> np.ndarray:
    """Return L with M = L Lᵀ: its Cholesky factor, or square roots of a diagonal or of a number."""
    if preconditioner.ndim > 2 or (preconditioner.ndim == 2 and preconditioner.shape[0] != preconditioner.shape[1]):
        raise ValueError(
            f"Langevin(preconditioner=) has shape {preconditioner.shape} and must be a number, a diagonal of shape "
            "(D,) or a matrix of shape (D, D)."
        )
    if preconditioner.ndim == 2:
        if not np.allclose(preconditioner, preconditioner.T) or np.linalg.eigvalsh(preconditioner).min() <= 0:
            raise ValueError(
                "Langevin(preconditioner=) is not symmetric and positive definite, so the chain would not move in some "
                "directions. Add a small multiple of the identity, or leave it out."
            )
        return np.linalg.cholesky(preconditioner)
    if not (np.isfinite(preconditioner).all() and (preconditioner > 0).all()):
        raise ValueError(
            "Langevin(preconditioner=) must be positive and finite: directions with 0 would never be moved in."
        )
    return np.sqrt(preconditioner)


@built_once
def build_langevin(slope: Slope, batch_size: int) -> Propose:
    """Compile the proposal for a way to estimate the gradient from some rows."""

    @njit
    def propose(  # type: ignore[no-untyped-def]
        rng: np.random.Generator, theta: np.ndarray, state: WalkState, surroundings: Surroundings
    ):
        n_rows = n_rows_at(surroundings.arrays)
        numbers = draw_subset(rng, n_rows, min(batch_size, n_rows))
        z, scale = rng.standard_normal(theta.size), np.exp(state.log_scale[0])
        gradient = slope(theta, numbers, surroundings)
        move = 0.5 * scale**2 * product(state.factor.T, gradient) + scale * z  # in the whitened space
        theta_new = theta + product(state.factor, move)
        drift_back = 0.5 * scale**2 * product(state.factor.T, slope(theta_new, numbers, surroundings))
        z_back = (move + drift_back) / scale  # up to its sign, the noise that leads back with the same rows
        log_ratio = 0.5 * (np.dot(z, z) - np.dot(z_back, z_back))
        return theta_new, (log_ratio if np.isfinite(log_ratio) else -np.inf), numbers.size

    return propose
