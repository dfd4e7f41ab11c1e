"""Whether a model has many groups, and what a step that decides on all parameters at once says of them."""

from __future__ import annotations

from pymc.model import Model

from pymc_austerity.groups import Groups, GroupsNotFoundError, NoGroupsError, find_groups
from pymc_austerity.likelihood import read_model
from pymc_austerity.unsupported_model import UnsupportedModelError

#: From about so many groups on one decision over all of them is seldom accepted, as the remainders of all add up.
MANY_GROUPS = 100


def find_many_groups(model: Model, least: int) -> Groups | None:
    """Return the groups of a model, or None where no variable is indexed by so many of them.

    Parameters
    ----------
    model : pymc.Model
    least : int
        Groups, of all factors together.

    Raises
    ------
    GroupsNotFoundError
        There may be so many groups, but they cannot be shown to be independent given the rest.
    """
    shapes = [rv.type.shape[:1] for rv in model.free_RVs]
    if not any(shape and (shape[0] is None or shape[0] >= least) for shape in shapes):
        return None
    try:
        groups = find_groups(model, read_model(model, model.value_vars, None, None, several=False))
    except GroupsNotFoundError as error:
        if isinstance(error, NoGroupsError):
            return None
        raise
    except UnsupportedModelError:  # no model for such a step
        return None
    return groups if len(groups.own) >= least else None


def groups_worth_a_step(model: Model) -> str | None:
    """Return what `GroupMH` would be told of as a sentence, or None for a model without many groups.

    Parameters
    ----------
    model : pymc.Model
    """
    try:
        groups = find_many_groups(model, MANY_GROUPS)
    except GroupsNotFoundError as error:
        return f"One decision is made over all parameters: for pma.GroupMH() groups are looked for in vain. {error}"
    if groups is None:
        return None
    return (
        f"The model has {len(groups.own):,} groups ({', '.join(groups.names)}), and one decision over all of them adds "
        "up what the proxy leaves of each: pma.GroupMH() lets each decide on its own rows."
    )
