"""The log posterior and its gradient at draws, from all rows at one of them and a few hundred at every other.

With c one of the draws, ∇ℓ_i(θ) − ∇ℓ_i(c) is small for every row, so that a sample of m rows gives its sum with a
variance of about D/m, in units of the posterior (control variate).  The sum of ∇ℓ_i(c) over all rows is one pass.
"""

from collections.abc import Callable

import numpy as np
from pytensor.gradient import NullTypeGradError, grad

from pymc_austerity.compile.graph_compiler import interpret_log_density
from pymc_austerity.diagnostics.drawn_states import DrawnStates
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.kernel import Parts
from pymc_austerity.likelihood import ModelData
from pymc_austerity.likelihood.jumps import may_jump
from pymc_austerity.proposals import summed_gradient

#: Rows evaluated at once.
_CHUNK = 50_000
#: Rows of a sample, at least and for each parameter.
_FEWEST_ROWS, _ROWS_EACH = 2_000, 20
#: Where a sample would be more than this share of the rows, all are read.
_LARGEST_SHARE = 0.25


class DensityOnRows:
    """log π and ∇log π as functions of θ and of the variables of other steps.

    All rows are read at the draw in the middle of `states`; `rng` says which are sampled elsewhere. A density without a
    derivative raises ValueError, NotImplementedError or NullTypeGradError.
    """

    def __init__(self, data: Parts | ModelData, temperature: float, states: DrawnStates, rng: np.random.Generator):
        likelihood = data.likelihood
        at = [likelihood.theta, likelihood.others, *likelihood.fixed]
        slope = grad(likelihood.log_prior, likelihood.theta, disconnected_inputs="ignore")
        self._prior = interpret_log_density(at, [likelihood.log_prior, slope])
        at, total = [*at, *likelihood.batches], likelihood.row_log_likelihood.sum()
        self._slope_of_rows = interpret_log_density(at, [summed_gradient(likelihood)])
        self._sum_of_rows = interpret_log_density(at, [total])
        (rows,) = data.rows.pieces()
        self._arrays, self._fixed, self._temperature, self._rng = rows.arrays, data.fixed, temperature, rng
        self.n_rows, d = len(rows), states.theta.shape[1]
        m = max(_FEWEST_ROWS, _ROWS_EACH * d)
        self.n_sampled = m if m <= _LARGEST_SHARE * self.n_rows else self.n_rows
        self.may_jump = may_jump(likelihood.row_log_likelihood, likelihood.theta)
        self.passes = 0.0
        middle = np.median(states.theta, axis=0)
        spread = np.where((sd := states.theta.std(axis=0)) > 0, sd, 1.0)
        central = int(np.argmin((((states.theta - middle) / spread) ** 2).sum(axis=1)))
        self._centre = states.theta[central], states.others[central]
        self._at_centre: np.ndarray | None = None

    @property
    def sampled(self) -> bool:
        """Whether rows are sampled."""
        return self.n_sampled < self.n_rows

    def prior(self, theta: np.ndarray, others: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log prior and its gradient."""
        value, slope = uninterrupted(self._prior, theta, others, *self._fixed)
        return float(value), np.array(slope, dtype=float)

    def value(self, theta: np.ndarray, others: np.ndarray) -> float:
        """Return log π(θ) on all rows."""
        return self.prior(theta, others)[0] + float(self._over(self._sum_of_rows, theta, others)) / self._temperature

    def slope(self, theta: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return ∇log π(θ) on all rows."""
        return self.prior(theta, others)[1] + self._over(self._slope_of_rows, theta, others) / self._temperature

    def sampled_slope(self, theta: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return ∇log π(θ) from a sample of rows, another one in each call; on all rows where these are few."""
        if not self.sampled:
            return self.slope(theta, others)
        rows, scale = self.sample(self.n_sampled), self.n_rows / self.n_sampled / self._temperature
        here = self._over(self._slope_of_rows, theta, others, rows)
        there = self._over(self._slope_of_rows, *self._centre, rows)
        return self.prior(theta, others)[1] + self.slope_at_centre() + scale * (here - there)

    def differences(self, thetas: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return log π(θ) of draws of shape (k, D) less that of the first, all from one sample of rows, or from all."""
        prior = np.array([self.prior(theta, others)[0] for theta in thetas])
        rows = self.sample(max(self.n_sampled, _CHUNK // 5)) if self.sampled else None
        sums = np.array([self._over(self._sum_of_rows, theta, others, rows) for theta in thetas])
        if rows is not None:
            scale, moved = self.n_rows / len(rows[0]), thetas - thetas[0]
            here = self._over(self._slope_of_rows, *self._centre, rows)
            sums = scale * (sums - sums[0] - moved @ here) + moved @ self.slope_at_centre() * self._temperature
        return prior - prior[0] + (sums - sums[0]) / self._temperature

    def slope_at_centre(self) -> np.ndarray:
        """Return the gradient of what all rows say, at the draw in the middle."""
        if self._at_centre is None:
            self._at_centre = self._over(self._slope_of_rows, *self._centre) / self._temperature
        return self._at_centre

    def sample(self, m: int) -> tuple[np.ndarray, ...]:
        """Return `m` rows, drawn with replacement, as many as there are at most."""
        numbers = self._rng.integers(self.n_rows, size=min(m, self.n_rows))
        return tuple(np.array(a[numbers], order="C") for a in self._arrays)

    def _over(
        self, function: Callable[..., list[np.ndarray]], theta: np.ndarray, others: np.ndarray,
        rows: tuple[np.ndarray, ...] | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Add up a function of the rows over some rows, or over all."""
        if rows is None:
            rows = self._arrays
            self.passes += 1
        batches = (
            [np.array(a[start : start + _CHUNK], order="C") for a in rows] for start in range(0, len(rows[0]), _CHUNK)
        )
        total = sum(uninterrupted(function, theta, others, *self._fixed, *batch)[0] for batch in batches)
        return np.array(total, dtype=float)


def density_of(
    data: Parts | ModelData, temperature: float, states: DrawnStates, rng: np.random.Generator
) -> DensityOnRows | None:
    """Return the log posterior and its gradient, or None where it has none: parameters are discrete, for example."""
    if any(np.dtype(block.dtype).kind != "f" for block in data.likelihood.blocks):
        return None
    try:
        return DensityOnRows(data, temperature, states, rng)
    except (ValueError, NotImplementedError, NullTypeGradError):  # an operation that PyTensor cannot differentiate
        return None
