"""What is learnt from all rows before sampling: mode, expansion, surrogate, steering.

May import `likelihood` and `rows`.
"""

from pymc_austerity.proxy.crossed_means import means_given_others, solve_transposed
from pymc_austerity.proxy.effects import Effects, build_effects
from pymc_austerity.proxy.expansion import Taylor, along_line, compile_remainder_density, shift_from
from pymc_austerity.proxy.group_bounds import (
    GroupBounds,
    largest_beside,
    no_bounds,
    rows_of_refresh,
    span,
    spans_of_groups,
    square_of_shared,
    squares_of_groups,
    squares_of_some,
)
from pymc_austerity.proxy.group_conditional import Condition, Conditional, build_condition, place_all, whiten
from pymc_austerity.proxy.group_costs import GroupCosts
from pymc_austerity.proxy.group_expansion import GroupExpansion, own_changes, pull_of_others
from pymc_austerity.proxy.group_mode import FactorCollapsesError, GroupModeError
from pymc_austerity.proxy.group_model import GroupLinks, GroupModel
from pymc_austerity.proxy.group_pass import SlopeAlong
from pymc_austerity.proxy.group_preparation import PreparedGroups, prepare_groups, weigh_groups
from pymc_austerity.proxy.group_shifts import Shifts
from pymc_austerity.proxy.known_by_sums import compile_known_density
from pymc_austerity.proxy.known_scale import rate_of_rows
from pymc_austerity.proxy.linear_maps import dense, product, transposed_product
from pymc_austerity.proxy.mode import PriorCurvature
from pymc_austerity.proxy.plan import ProxyPlan
from pymc_austerity.proxy.preparation import Prepared
from pymc_austerity.proxy.resolved_remainder import compile_resolved_density
from pymc_austerity.proxy.robbins_monro import towards_target
from pymc_austerity.proxy.row_sums import RowSums, compile_sums
from pymc_austerity.proxy.steering import Steering
from pymc_austerity.proxy.surrogate import Surrogate, SurrogateState, Trajectory, compile_surrogate, path_search
from pymc_austerity.proxy.third_derivatives import check_triples

__all__ = [
    "Condition",
    "Conditional",
    "Effects",
    "FactorCollapsesError",
    "GroupBounds",
    "GroupCosts",
    "GroupExpansion",
    "GroupLinks",
    "GroupModeError",
    "GroupModel",
    "Prepared",
    "PreparedGroups",
    "PriorCurvature",
    "ProxyPlan",
    "RowSums",
    "Shifts",
    "SlopeAlong",
    "Steering",
    "Surrogate",
    "SurrogateState",
    "Taylor",
    "Trajectory",
    "along_line",
    "build_condition",
    "build_effects",
    "check_triples",
    "compile_known_density",
    "compile_remainder_density",
    "compile_resolved_density",
    "compile_sums",
    "compile_surrogate",
    "dense",
    "largest_beside",
    "means_given_others",
    "no_bounds",
    "own_changes",
    "path_search",
    "place_all",
    "prepare_groups",
    "product",
    "pull_of_others",
    "rate_of_rows",
    "rows_of_refresh",
    "shift_from",
    "solve_transposed",
    "span",
    "spans_of_groups",
    "square_of_shared",
    "squares_of_groups",
    "squares_of_some",
    "towards_target",
    "transposed_product",
    "weigh_groups",
    "whiten",
]
