"""What rows read of coefficients that indicators switch on and off: their products γ∘β.

Rows see (β, γ) through γ∘β alone, so ℓ_i(β, γ) = ℓ_i(γ∘β, 1): every sub-model is a point in the space of the model
with all coefficients included, where some are zero.  One expansion of the rows in that space, around the mode of the
full model, is a proxy for all sub-models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace

from pymc_austerity.bounds import EvaluateBound
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import Block, Density, Place, RowLikelihood
from pymc_austerity.rows import Rows

#: Points and rows at which it is checked that rows read the product alone.
_POINTS, _ROWS = 4, 500


@dataclass(frozen=True, eq=False)
class SelectedCoefficients:
    """The model with all coefficients included, and the map from θ = (β, γ, …) to its parameters."""

    likelihood: RowLikelihood  # of the full model: θ without the indicators
    of: Callable[..., np.ndarray]  # ``of(theta)``: γ∘β, and the other variables of the step
    coefficients: np.ndarray  # position in θ of each parameter of the full model, shape (E,)
    indicators: np.ndarray  # that of its indicator, −1 where it has none, shape (E,)

    def at_theta(self, remainders: Density) -> Density:
        """Return the remainders of the full model as functions of θ."""
        of, in_effects, of_all = self.of, remainders.both_sides, remainders.known_sum

        @njit
        def both_sides(theta_new, theta, others, *rest):  # type: ignore[no-untyped-def]
            return in_effects(of(theta_new), of(theta), others, *rest)

        @njit
        def known_sum(theta, others, expansion):  # type: ignore[no-untyped-def]
            return of_all(of(theta), others, expansion)

        return Density(remainders.log_prior, both_sides, known_sum)

    def bound_at_theta(self, bound: EvaluateBound) -> EvaluateBound:
        """Return a bound on remainders of the full model as a function of θ: it holds in every sub-model."""
        of = self.of

        @njit
        def at_theta(constants, at):  # type: ignore[no-untyped-def]
            in_effects = Place(at.links, of(at.theta_new), of(at.theta), at.others, at.centre, at.fixed, at.arrays)
            return bound(constants, in_effects)

        return at_theta

    def are_all_that_rows_read(
        self, density: Density, rows: Rows, fixed: Sequence[np.ndarray], theta: np.ndarray, others: np.ndarray
    ) -> bool:
        """Whether rows have the same log-likelihood at (β, γ) as at (γ∘β, 1), seen at random points."""
        rng = np.random.default_rng(1995)
        numbers = np.sort(rng.choice(len(rows), min(len(rows), _ROWS), replace=False))
        batch = rows.take(numbers).arrays
        own = self.indicators >= 0
        for _ in range(_POINTS):
            point = theta.copy()
            point[self.coefficients[own]] += 0.3 * rng.standard_normal(own.sum())
            point[self.indicators[own]] = rng.integers(0, 2, own.sum())
            same = point.copy()
            same[self.indicators[own]] = 1.0
            same[self.coefficients] = self.of(point)
            new, old = uninterrupted(density.both_sides, same, point, others, *fixed, *batch)
            if not np.allclose(new, old, rtol=1e-6, atol=1e-8, equal_nan=True):
                return False
        return True


def select_coefficients(likelihood: RowLikelihood, coefficients: Block, indicators: Block) -> SelectedCoefficients:
    """Return the selected coefficients of a model whose θ holds these coefficients and indicators."""
    kept = [b for b in likelihood.blocks if b != indicators]
    sources = np.concatenate([np.arange(b.start, b.stop) for b in kept])
    switches = np.full(sources.size, -1)
    first = int(np.flatnonzero(sources == coefficients.start)[0])
    switches[first : first + coefficients.stop - coefficients.start] = np.arange(indicators.start, indicators.stop)
    stops = np.cumsum([b.stop - b.start for b in kept])
    blocks = tuple(b._replace(start=s - (b.stop - b.start), stop=s) for b, s in zip(kept, stops.tolist(), strict=True))
    theta = pt.dvector("selected", shape=(blocks[-1].stop,))
    at = {old.name: theta[new.start : new.stop] for old, new in zip(kept, blocks, strict=True)}
    ones = pt.ones(indicators.stop - indicators.start)
    full = pt.concatenate([at.get(b.name, ones) for b in likelihood.blocks])
    log_prior, rows = graph_replace(
        [likelihood.log_prior, likelihood.row_log_likelihood], {likelihood.theta: full}, strict=False
    )
    full_model = replace(
        likelihood,
        blocks=blocks,
        theta=theta,
        log_prior=log_prior,
        row_log_likelihood=rows,
        read=likelihood.read - {indicators.name},
        laws={},
    )

    @njit
    def of(theta):  # type: ignore[no-untyped-def]
        selected = theta[sources]
        for i in range(selected.size):
            if switches[i] >= 0:
                selected[i] *= theta[switches[i]]
        return selected

    return SelectedCoefficients(full_model, of, sources, switches)
