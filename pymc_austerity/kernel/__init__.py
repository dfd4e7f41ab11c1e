"""One compiled transition, and the `Decider`: test, proposal, rows, density and data of a step."""

from pymc_austerity.kernel.ahead import Ahead
from pymc_austerity.kernel.assembly import assemble, with_data
from pymc_austerity.kernel.chain import Chain
from pymc_austerity.kernel.decider import Decider, Proposed
from pymc_austerity.kernel.parts import Parts
from pymc_austerity.kernel.repeated import TRANSITIONS
from pymc_austerity.kernel.temperature import Annealing, Schedule, TemperatureDrop, as_schedule
from pymc_austerity.kernel.transition import (
    DECIDE,
    PROPOSE,
    ROWS,
    Outcome,
    build_terms,
    pack_generators,
)
from pymc_austerity.kernel.tuned_state import TUNED, TunedState, restore
