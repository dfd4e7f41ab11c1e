"""Models with a vector of coefficients for each group: finding the groups, their expansion, and their updates.

May import `kernel` and what lies below it.
"""

from pymc_austerity.groups.by_group_bounds import RowsByGroupBounds, bound_at, draw_of_group, group_bound_table
from pymc_austerity.groups.crossed_means import means_given_others
from pymc_austerity.groups.group_assembly import GroupAssembly, LearnAnew
from pymc_austerity.groups.group_chain import GroupChain
from pymc_austerity.groups.group_conditional import Conditional, place_all, whiten
from pymc_austerity.groups.group_costs import GroupCosts
from pymc_austerity.groups.group_decider import GroupDecider
from pymc_austerity.groups.group_density import check_groups, compile_group_prior
from pymc_austerity.groups.group_expansion import own_changes, pull_of_others
from pymc_austerity.groups.group_mode import GroupModeError
from pymc_austerity.groups.group_model import GroupModel
from pymc_austerity.groups.group_preparation import prepare_groups
from pymc_austerity.groups.grouping import Groups, GroupsNotFoundError, NoGroupsError, find_groups
from pymc_austerity.groups.read_groups import Coordinates, ModelWithGroups, read_groups
from pymc_austerity.groups.shared_move import adapt_shared, learn_shared, propose_shared, shared_state

__all__ = [
    "Conditional",
    "Coordinates",
    "GroupAssembly",
    "GroupChain",
    "GroupCosts",
    "GroupDecider",
    "GroupModeError",
    "GroupModel",
    "Groups",
    "GroupsNotFoundError",
    "LearnAnew",
    "ModelWithGroups",
    "NoGroupsError",
    "RowsByGroupBounds",
    "adapt_shared",
    "bound_at",
    "check_groups",
    "compile_group_prior",
    "draw_of_group",
    "find_groups",
    "group_bound_table",
    "learn_shared",
    "means_given_others",
    "own_changes",
    "place_all",
    "prepare_groups",
    "propose_shared",
    "pull_of_others",
    "read_groups",
    "shared_state",
    "whiten",
]
