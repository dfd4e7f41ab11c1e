"""From θ to θ′ and the log ratio of the two ways; never a decision.

May import `proxy`, `likelihood` and `rows`.  A proposal is one class in one file that inherits from `Proposal`.
"""

from pymc_austerity.proposals.crank_nicolson import CrankNicolson
from pymc_austerity.proposals.default import default_proposal
from pymc_austerity.proposals.gradients import summed_gradient
from pymc_austerity.proposals.jumps.reversible_jump import ReversibleJump
from pymc_austerity.proposals.langevin import Langevin
from pymc_austerity.proposals.proposal import Move, Proposal, Propose, Target
from pymc_austerity.proposals.random_walk import AdaptiveMetropolis, RandomWalk
from pymc_austerity.proposals.stiefel import StiefelWalk
from pymc_austerity.proposals.surrogate_hmc import SurrogateHMC

__all__ = [
    "AdaptiveMetropolis",
    "CrankNicolson",
    "Langevin",
    "Move",
    "Proposal",
    "Propose",
    "RandomWalk",
    "ReversibleJump",
    "StiefelWalk",
    "SurrogateHMC",
    "Target",
    "default_proposal",
    "summed_gradient",
]
