"""How a step moves where it was not told."""

from __future__ import annotations

from pymc_austerity.proposals.crank_nicolson import CrankNicolson
from pymc_austerity.proposals.proposal import Proposal
from pymc_austerity.proposals.random_walk import AdaptiveMetropolis, RandomWalk
from pymc_austerity.proposals.surrogate_hmc import SurrogateHMC
from pymc_austerity.proxy import Prepared

#: Above this many parameters a dense proposal covariance costs more than it gains by default.
_MAX_DENSE = 200
#: A surrogate that accepts this share of independent draws from its normal approximation is as good as normal.
_NORMAL_ENOUGH = 0.9


def default_proposal(dimension: int, prepared: Prepared | None) -> Proposal:
    """Return a walk without a proxy, and with one the cheaper move where the surrogate is as good as normal."""
    if prepared is None:
        return AdaptiveMetropolis() if dimension <= _MAX_DENSE else RandomWalk()
    return CrankNicolson() if prepared.normality >= _NORMAL_ENOUGH else SurrogateHMC()
