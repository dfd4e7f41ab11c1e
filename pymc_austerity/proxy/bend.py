"""Powers of parameters in which the log-likelihood of all rows is nearly quadratic.

Against a boundary (a proportion near 0, a slope that the data allow to be 0, degrees of freedom without end) the
log-likelihood is far from quadratic in the logarithm of a parameter, and nearly so in the parameter itself, or in its
reciprocal.  A coordinate ψ that is bent is expanded in (exp(λ(ψ − ψ̂)) − 1)/λ: for the logarithm of a parameter, in its
power λ (Box and Cox 1964).  The coordinates of the chain, and with them the prior, stay as they are.
"""

from __future__ import annotations

import numpy as np
from pymc.util import is_transformed_name
from scipy import linalg, optimize

from pymc_austerity.cholesky import is_positive_definite
from pymc_austerity.proxy.full_pass import Sums
from pymc_austerity.proxy.log_posterior import LogPosterior

#: Standard deviations from the centre at which the quadratic is compared with the log-likelihood.
_AT = np.array([-2.0, -1.0, 1.0, 2.0])
#: A parameter that is less wide is not looked at: its power would have to be large to matter.  A wider one is taken for
#: so wide.  Both are of the logarithm (or another transform) of a bounded parameter, and have no unit.
_WIDE, _WIDEST = 0.2, 3.0
#: Errors of the log-likelihood below which a coordinate stays as it is; share of it that may be left where it is bent.
_SMALL, _WORTH = 0.3, 0.5
#: More parameters are not looked at: each takes some evaluations of a sample of the rows.  Nor are fewer rows, all of
#: which a step may as well read.
_MOST, _FEWEST_ROWS = 30, 1_000
#: Error of the log-likelihood at draws of the surrogate, above which an expansion in powers is none either.
_USELESS = 2.0
#: Powers that are tried.
_POWERS = np.linspace(-3.0, 3.0, 61)
#: Draws at which the whole expansion is compared with the log-likelihood, and how far that falls where they count.
_DRAWS, _FALL = 10, 12.0


class SampledSums:
    """The log-likelihood of a sample of the rows about a point of a log posterior, which says what to expand in."""

    def __init__(self, posterior: LogPosterior, psi: np.ndarray):
        self._posterior, self._psi, self._sample = posterior, psi, posterior.samples.search
        self._weight = len(posterior.rows) / len(self._sample) / posterior.temperature
        self._c, self._sums = posterior.coordinates, Sums(0.0, np.empty(0), np.empty((0, 0)))

    def find_powers(self, curvature: np.ndarray) -> np.ndarray:
        """Return the power λ of every entry of ψ, 0 where it stays as it is."""
        powers, d = np.zeros(self._psi.size), self._posterior.full_pass.theta_size
        blocks = self._posterior.full_pass.likelihood.psi_blocks
        bounded = np.repeat([is_transformed_name(b.name) for b in blocks], [b.stop - b.start for b in blocks])
        own = bounded[self._c] & (self._c < d)
        if not 0 < own.sum() <= _MOST or len(self._sample) < _FEWEST_ROWS:
            return powers
        sd = np.minimum(_widths(-curvature), _WIDEST)
        wide = np.flatnonzero(own & (sd > _WIDE))
        if wide.size == 0:
            return powers
        self._sums = self._posterior.full_pass(self._psi, self._posterior.fixed, self._sample).scaled(self._weight)
        for k in wide:
            steps = sd[k] * _AT
            found = np.array([self._change(step * (np.arange(self._psi.size) == self._c[k])) for step in steps])
            powers[self._c[k]] = _power_of(steps, found, self._sums.gradient[k], self._sums.hessian[k, k])
        return powers

    def suits(self, powers: np.ndarray, draws: np.ndarray) -> bool:
        """Whether the expansion in powers is the better one at draws of θ."""
        steps = [np.append(theta, self._psi[theta.size :]) - self._psi for theta in draws[:: -(-len(draws) // _DRAWS)]]
        found = np.array([self._change(step) for step in steps])
        bent, straight = (
            [found[i] - self._quadratic(step, p) for i, step in enumerate(steps)] for p in (powers, 0 * powers)
        )
        return _size(bent, found) < min(_USELESS, _WORTH * _size(straight, found))

    def _change(self, step: np.ndarray) -> float:
        full_pass, fixed = self._posterior.full_pass, self._posterior.fixed
        value = full_pass(self._psi + step, fixed, self._sample, hessian=False).value
        return float(self._weight * value - self._sums.value)

    def _quadratic(self, step: np.ndarray, powers: np.ndarray) -> float:
        powers = powers[self._c]
        v, sums = bent(step[self._c], powers), by_powers(self._sums, powers)
        return float((sums.gradient + 0.5 * sums.hessian @ v) @ v)


def _widths(precision: np.ndarray) -> np.ndarray:
    """Return about the posterior standard deviations, those given all others where the precision is none."""
    unit = np.sqrt(np.maximum(np.abs(np.diag(precision)), np.finfo(float).tiny))
    scaled = precision / np.outer(unit, unit)
    if not is_positive_definite(scaled):
        return 1 / unit
    return np.sqrt(np.diag(linalg.cho_solve(linalg.cho_factor(scaled), np.eye(len(unit))))) / unit


def bent(step: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """Return steps of ψ in bent coordinates."""
    return np.where(powers == 0, step, np.expm1(powers * step) / np.where(powers == 0, 1.0, powers))


def by_powers(sums: Sums, powers: np.ndarray) -> Sums:
    """Return sums with the Hessian by bent coordinates, at the centre, for the powers of what the rows read."""
    return sums._replace(hessian=sums.hessian - np.diag(powers * sums.gradient))


def _power_of(steps: np.ndarray, found: np.ndarray, slope: float, curvature: float) -> float:
    """Return the power in which a quadratic meets the changes that were found at steps along one coordinate."""

    def error(power: float) -> float:
        v = bent(steps, np.full(steps.shape, power))
        return _size(found - slope * v - 0.5 * (curvature - power * slope) * v**2, found)

    straight = error(0.0)
    if straight < _SMALL:
        return 0.0
    near = min(_POWERS, key=error)
    best = float(optimize.minimize_scalar(error, bounds=(near - 0.1, near + 0.1), method="bounded").x)
    return best if error(best) < _WORTH * straight else 0.0


def _size(errors: np.ndarray | list[float], found: np.ndarray) -> float:
    """Return the root mean square of errors, less of those where the log-likelihood has fallen far: few draws are."""
    weights = np.exp(-np.clip(-found, 0.0, _FALL) / 4) * np.isfinite(found)
    return float(np.sqrt((weights * np.nan_to_num(errors, nan=1e3, posinf=1e3, neginf=-1e3) ** 2).mean()))
