"""What is learnt from all rows before sampling: mode, expansion, surrogate, steering.

May import `likelihood` and `rows`.
"""

from pymc_austerity.proxy.effects import Effects, build_effects
from pymc_austerity.proxy.expansion import (
    Expansion,
    Taylor,
    along_line,
    check_order,
    compile_remainder_density,
    shift_from,
)
from pymc_austerity.proxy.known_by_sums import compile_known_density
from pymc_austerity.proxy.linear_maps import dense, product, transposed_product
from pymc_austerity.proxy.mode import PriorCurvature
from pymc_austerity.proxy.plan import ProxyPlan
from pymc_austerity.proxy.preparation import Prepared
from pymc_austerity.proxy.remainder_sizes import remainder_sizes
from pymc_austerity.proxy.resolved_remainder import compile_resolved_density
from pymc_austerity.proxy.robbins_monro import towards_target
from pymc_austerity.proxy.row_sums import RowSums, compile_sums
from pymc_austerity.proxy.steering import Steering
from pymc_austerity.proxy.surrogate import Surrogate, SurrogateState, Trajectory, compile_surrogate, path_search
from pymc_austerity.proxy.third_derivatives import check_triples

__all__ = [
    "Effects",
    "Expansion",
    "Prepared",
    "PriorCurvature",
    "ProxyPlan",
    "RowSums",
    "Steering",
    "Surrogate",
    "SurrogateState",
    "Taylor",
    "Trajectory",
    "along_line",
    "build_effects",
    "check_order",
    "check_triples",
    "compile_known_density",
    "compile_remainder_density",
    "compile_resolved_density",
    "compile_sums",
    "compile_surrogate",
    "dense",
    "path_search",
    "product",
    "remainder_sizes",
    "shift_from",
    "towards_target",
    "transposed_product",
]
