"""Proposals: from θ to θ′, with log q(θ|θ′) − log q(θ′|θ)."""

from pymc_austerity.proposals.crank_nicolson import CrankNicolson
from pymc_austerity.proposals.gradients import summed_gradient
from pymc_austerity.proposals.jumps.reversible_jump import ReversibleJump
from pymc_austerity.proposals.langevin import Langevin
from pymc_austerity.proposals.proposal import Move, Proposal, Propose, Target
from pymc_austerity.proposals.random_walk import AdaptiveMetropolis, RandomWalk
from pymc_austerity.proposals.stiefel import StiefelWalk
from pymc_austerity.proposals.surrogate_hmc import SurrogateHMC
