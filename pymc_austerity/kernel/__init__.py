"""One compiled transition, and the `Decider`: everything that a decision needs, without PyMC's step contract.

May import `proposals`, `proxy`, `acceptance`, `likelihood` and `rows`.
"""

from pymc_austerity.kernel.ahead import Ahead
from pymc_austerity.kernel.chain import Chain, ChainState
from pymc_austerity.kernel.decider import Decider, Proposed, assemble, with_data
from pymc_austerity.kernel.factor_table import check_incidence, incidence_of, looks_of
from pymc_austerity.kernel.generators import pack_generators
from pymc_austerity.kernel.gibbs_sweep import Incidence, SweepOutcome, build_sweep
from pymc_austerity.kernel.group_assembly import GroupAssembly
from pymc_austerity.kernel.group_decider import GroupDecider
from pymc_austerity.kernel.group_parts import GroupState, RefreshOutcome
from pymc_austerity.kernel.parts import Parts
from pymc_austerity.kernel.repeated import TRANSITIONS
from pymc_austerity.kernel.temperature import Annealing, Schedule, TemperatureDrop, as_schedule
from pymc_austerity.kernel.transition import Outcome, build_transition
from pymc_austerity.kernel.tuned_state import TUNED, TunedState, restore

__all__ = [
    "TRANSITIONS",
    "TUNED",
    "Ahead",
    "Annealing",
    "Chain",
    "ChainState",
    "Decider",
    "GroupAssembly",
    "GroupDecider",
    "GroupState",
    "Incidence",
    "Outcome",
    "Parts",
    "Proposed",
    "RefreshOutcome",
    "Schedule",
    "SweepOutcome",
    "TemperatureDrop",
    "TunedState",
    "as_schedule",
    "assemble",
    "build_sweep",
    "build_transition",
    "check_incidence",
    "incidence_of",
    "looks_of",
    "pack_generators",
    "restore",
    "with_data",
]
