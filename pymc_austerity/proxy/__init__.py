"""What is learnt from all rows before sampling: mode, expansion and surrogate."""

from pymc_austerity.proxy.expansion import (
    Expansion,
    Taylor,
    along_line,
    check_order,
    compile_remainder_density,
    shift_from,
)
from pymc_austerity.proxy.kinks import with_kinks_rounded
from pymc_austerity.proxy.linear_maps import product
from pymc_austerity.proxy.log_posterior import PriorCurvature
from pymc_austerity.proxy.preparation import LearntBounds, Prepared, ProxyPlan
from pymc_austerity.proxy.remainder_sizes import remainder_sizes
from pymc_austerity.proxy.resolved_remainder import compile_resolved_density
from pymc_austerity.proxy.row_sums import RowSums, compile_sums
from pymc_austerity.proxy.selected_coefficients import SelectedCoefficients, select_coefficients
from pymc_austerity.proxy.sufficient_statistics import compile_statistics_density
from pymc_austerity.proxy.surrogate import (
    Surrogate,
    SurrogateState,
    Trajectory,
    compile_surrogate,
    path_search,
    towards_target,
)
