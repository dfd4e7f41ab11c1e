"""One compiled transition, and the `Decider`: everything that a decision needs, without PyMC's step contract.

May import `proposals`, `proxy`, `acceptance`, `likelihood` and `rows`.
"""

from pymc_austerity.kernel.ahead import Ahead
from pymc_austerity.kernel.chain import Chain, ChainState
from pymc_austerity.kernel.decider import Decider, Proposed, assemble, with_data
from pymc_austerity.kernel.generators import DECIDE, PROPOSE, ROWS, pack_generators
from pymc_austerity.kernel.parts import Parts
from pymc_austerity.kernel.repeated import TRANSITIONS
from pymc_austerity.kernel.starting_point import largest_fall
from pymc_austerity.kernel.temperature import Annealing, Schedule, TemperatureDrop, as_schedule
from pymc_austerity.kernel.transition import Outcome, build_terms, build_transition
from pymc_austerity.kernel.tuned_state import TUNED, TunedState, restore

__all__ = [
    "DECIDE",
    "PROPOSE",
    "ROWS",
    "TRANSITIONS",
    "TUNED",
    "Ahead",
    "Annealing",
    "Chain",
    "ChainState",
    "Decider",
    "Outcome",
    "Parts",
    "Proposed",
    "Schedule",
    "TemperatureDrop",
    "TunedState",
    "as_schedule",
    "assemble",
    "build_terms",
    "build_transition",
    "largest_fall",
    "pack_generators",
    "restore",
    "with_data",
]
