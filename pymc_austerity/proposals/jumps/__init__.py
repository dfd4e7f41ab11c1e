"""Jumps between the sets of coefficients that a model may include."""

from pymc_austerity.proposals.jumps.reversible_jump import ReversibleJump
