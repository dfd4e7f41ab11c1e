"""Newton's search for a posterior mode over some of the rows, or all of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, optimize

from pymc_austerity.proxy.full_pass import Sums
from pymc_austerity.proxy.linear_maps import WIDE
from pymc_austerity.proxy.log_posterior import LogPosterior, NoProxyError
from pymc_austerity.proxy.scaling import Scaling
from pymc_austerity.rows import Table

#: A centre this many posterior standard deviations from the mode (Newton decrement) serves as well as the mode.
_CLOSE_ENOUGH = 0.1
#: Times that a search from the mode of fewer rows is moved halfway back to the start.
_HALVINGS = 30
#: The trust region at first: of very many parameters it has room for all of them.
_RADIUS, _RADIUS_WIDE = 1.0, 0.3
#: What the trust region may grow to: it doubles with every step that goes well, so a mode a million units away, as of
#: a pressure in Pa under a flat prior, is reached in twenty steps more.
_LARGEST_RADIUS = 1e12


class ModeNotFoundError(NoProxyError):
    """There is no mode to expand around."""


class _NoDensityError(ModeNotFoundError):
    """A search starts where there is no density."""


class Objective(NamedTuple):
    """The log posterior along some coordinates, its likelihood that of some rows scaled up to all."""

    posterior: LogPosterior
    part: Table
    #: The log-likelihood of these rows and its derivatives at ψ, without the Hessian where ``hessian=False``.
    evaluate: Callable[..., Sums]
    scaling: Scaling  # from the coordinates that the rows read to the coordinates x of the search

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.posterior.coordinates.size

    def total(self, psi: np.ndarray, likelihood: Sums) -> Sums:
        """Return the log posterior at `psi` and its derivatives by x, given the log-likelihood of the rows there."""
        return self.scaling.of_sums(self.posterior.total(psi, likelihood, self.part))

    def x(self, psi: np.ndarray) -> np.ndarray:
        """Return the coordinates of the search at `psi`."""
        return self.scaling.inward(psi[self.posterior.coordinates])

    def psi(self, x: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Return ψ, which outside the coordinates of the search is as in `start`."""
        psi = start.copy()
        psi[self.posterior.coordinates] = self.scaling.outward(x)
        return psi

    def value(self, psi: np.ndarray) -> float:
        """Return the log posterior at `psi`, without derivatives."""
        of, scale = self.posterior, len(self.posterior.rows) / len(self.part) / self.posterior.temperature
        return self.evaluate(psi, hessian=False).value * scale + of.prior.value(psi, of.fixed)


def _decrement(here: Sums) -> float | None:
    """Return the Newton decrement, the distance from a mode in standard deviations; None where there is no mode."""
    try:
        factor = linalg.cho_factor(here.hessian)
    except linalg.LinAlgError:
        return None
    return float(here.gradient @ linalg.cho_solve(factor, here.gradient)) ** 0.5


def newton_of_more(
    objective: Objective, psi: np.ndarray, start: np.ndarray, max_evaluations: int
) -> tuple[np.ndarray, Sums]:
    """Search from the mode of fewer rows; halfway back to `start`, and again, where all rows have no density there."""
    for _ in range(_HALVINGS):
        with suppress(_NoDensityError):
            return newton(objective, psi, max_evaluations)
        psi = (psi + start) / 2
    return newton(objective, start, max_evaluations)


def newton(objective: Objective, start: np.ndarray, max_evaluations: int) -> tuple[np.ndarray, Sums]:
    """Maximise log prior + scale × log-likelihood over the coordinates, until the Newton decrement is small."""
    seen: dict[bytes, tuple[Sums, Sums]] = {}
    best: list[tuple[float, np.ndarray]] = []
    accepted, evaluations = [b""], count()

    def at(x: np.ndarray) -> Sums:
        key = x.tobytes()
        if key not in seen:
            if next(evaluations) >= max_evaluations:
                raise StopIteration
            psi = objective.psi(x, start)
            likelihood = objective.evaluate(psi)
            total = objective.total(psi, likelihood)
            if all(np.isfinite(part).all() for part in total):
                negative = total.scaled(-1)
            else:  # the trust region steps back from a point without a density or its derivatives
                negative = Sums(np.inf, np.zeros(objective.size), np.eye(objective.size))
            if not best or negative.value < best[0][0]:
                best[:] = [(negative.value, x.copy())]
            if objective.size > WIDE:  # of Hessians of tens of megabytes those likely to be asked for again stay
                for old in set(seen) - {best[0][1].tobytes(), accepted[0]}:
                    del seen[old]
            seen[key] = negative, likelihood
        return seen[key][0]

    def close_enough(intermediate_result: Any) -> None:
        accepted[0] = intermediate_result.x.tobytes()
        decrement = _decrement(at(intermediate_result.x))
        if decrement is not None and decrement < _CLOSE_ENOUGH:
            raise StopIteration

    x0 = objective.x(start)
    if not np.isfinite(at(x0).value):
        raise _NoDensityError("the log-likelihood or a derivative of it is not finite where the search starts")
    found: np.ndarray
    radius = _RADIUS if objective.size <= WIDE else _RADIUS_WIDE * np.sqrt(objective.size)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = optimize.minimize(  # type: ignore[call-overload]  # the stubs know no callback that stops
                lambda x: at(x).value,
                x0,
                jac=lambda x: at(x).gradient,
                hess=lambda x: at(x).hessian,
                method="trust-exact",
                callback=close_enough,
                options={"initial_trust_radius": radius, "max_trust_radius": _LARGEST_RADIUS, "gtol": 1e-12},
            ).x
    except StopIteration:
        found = best[0][1]
    decrement = _decrement(at(found))
    if decrement is None:
        raise ModeNotFoundError("the Hessian at the end of the search is not negative definite")
    if decrement > 1.0:
        raise ModeNotFoundError(f"the search ended {decrement:.1f} posterior standard deviations from a mode")
    return objective.psi(found, start), seen[found.tobytes()][1]
