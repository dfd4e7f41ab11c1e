"""Models with a vector of coefficients for each group: finding the groups, their expansion, and their updates."""

from pymc_austerity.groups.factor import GroupsNotFoundError
from pymc_austerity.groups.group_assembly import LearnAnew, assemble_groups
from pymc_austerity.groups.group_chain import GroupChain
from pymc_austerity.groups.group_decider import GroupDecider
from pymc_austerity.groups.group_mode import GroupModeError
from pymc_austerity.groups.grouping import Groups, NoGroupsError, ProductOfEffectsError
from pymc_austerity.groups.read_groups import ModelWithGroups, as_one_set, as_rows_read, read_groups
from pymc_austerity.groups.scaled_columns import are_columns
