"""The surrogate of all sub-models of a model, as the arrays that jumps between them work on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood.linked_functions import LogPrior
from pymc_austerity.likelihood.prior_laws import LAPLACE, NORMAL
from pymc_austerity.proposals.jumps.excluded_law import ExcludedLaw
from pymc_austerity.proxy import SelectedCoefficients
from pymc_austerity.proxy.linear_maps import dense
from pymc_austerity.proxy.linearisation import Linearisation

#: Probabilities of a flip, a swap and an update.
_KINDS = (0.55, 0.3, 0.15)


class SurrogateJumpState(NamedTuple):
    """The surrogate and its normal approximation, of arrays only."""

    log_scale: np.ndarray  # (1,): zero: nothing is tuned
    #: int64 (E,): position in θ of each parameter of the full model and of its indicator, −1 where it has none.
    places: np.ndarray
    switches: np.ndarray
    limits: np.ndarray  # int64 (2,): smallest and largest number of coefficients included
    curvature: np.ndarray  # (E, E): −Σ∇²ℓ_i at the centre
    #: (E,): Σ∇ℓ_i + curvature·centre, so that the proxy is linear·e − ½ eᵀ curvature e up to a constant.
    linear: np.ndarray
    cross: np.ndarray  # (E, O): −Σ∇²ℓ_i between these parameters and the variables of other steps that rows read
    other_places: np.ndarray  # int64 (O,)
    other_centre: np.ndarray  # (O,)
    #: (E,): normal law close to the prior of each coefficient; of precision zero for parameters without indicator.
    prior_loc: np.ndarray
    prior_precision: np.ndarray
    prior_log_odds: np.ndarray  # (E,): of inclusion
    kinds: np.ndarray  # (3,): probabilities of a flip, a swap and an update


class SubModels(NamedTuple):
    """What is known of a model and its surrogate before a chain starts."""

    selected: SelectedCoefficients
    linearisation: Linearisation  # of the full model
    fixed: tuple[np.ndarray, ...]
    log_prior: LogPrior
    family: int  # family of the law from which excluded coefficients are drawn
    excluded_law: ExcludedLaw

    def state(self, theta: np.ndarray, smallest: int, largest: int) -> SurrogateJumpState:
        """Return the arrays for a chain that starts with the indicators of θ."""
        selected, linearisation = self.selected, self.linearisation
        hessian = dense(linearisation.hessian)
        size = selected.coefficients.size
        own, inner = selected.indicators >= 0, linearisation.coordinates < size
        centre, others = linearisation.centre[:size], linearisation.centre[size:]
        at_centre = theta.copy()
        at_centre[selected.coefficients] = centre
        loc, precision, log_odds = np.zeros((3, size))
        loc[own], scale, df = self.excluded_law(at_centre, others, *self.fixed)
        spread = {NORMAL: 1.0, LAPLACE: 2.0}.get(self.family, df / np.maximum(df - 2, 1.0))
        precision[own] = 1 / (spread * scale**2)
        log_odds[own] = self._prior_log_odds(at_centre, others)
        curvature = -hessian[np.ix_(inner, inner)]
        return SurrogateJumpState(
            log_scale=np.zeros(1),
            places=selected.coefficients.copy(),
            switches=selected.indicators.copy(),
            limits=np.array([smallest, largest]),
            curvature=np.ascontiguousarray(curvature),
            linear=linearisation.gradient[inner] + curvature @ centre,
            cross=-hessian[np.ix_(inner, ~inner)],
            other_places=linearisation.coordinates[~inner] - size,
            other_centre=linearisation.centre[linearisation.coordinates[~inner]],
            prior_loc=loc,
            prior_precision=precision,
            prior_log_odds=log_odds,
            kinds=np.array(_KINDS),
        )

    def _prior_log_odds(self, theta: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return log p(γ with j) − log p(γ without j), the other indicators as in θ; zero where that is not finite."""
        places = self.selected.indicators[self.selected.indicators >= 0]
        odds = np.zeros(places.size)
        for k, place in enumerate(places):
            sides = []
            for value in (1.0, 0.0):
                changed = theta.copy()
                changed[place] = value
                sides.append(uninterrupted(self.log_prior, changed, others, *self.fixed)[0].item())
            odds[k] = sides[0] - sides[1] if np.isfinite(sides).all() else 0.0
        return odds
