"""What a step that decides on all parameters at once says of a model with many groups."""

from __future__ import annotations

from pymc.model import Model

from pymc_austerity.likelihood import find_groups, read_model

#: From about so many groups on one decision over all of them is seldom accepted, as the remainders of all add up.
MANY_GROUPS = 100


def groups_worth_a_step(model: Model) -> str | None:
    """Return what `GroupMH` would be told of as a sentence, or None for a model without many groups.

    Parameters
    ----------
    model : pymc.Model
    """
    shapes = [rv.type.shape[:1] for rv in model.free_RVs]
    if not any(shape and (shape[0] is None or shape[0] >= MANY_GROUPS) for shape in shapes):
        return None
    try:
        groups = find_groups(model, read_model(model, model.value_vars, None, None, several=False))
    except (ValueError, NotImplementedError):  # no groups, or no model for such a step
        return None
    if len(groups.own) < MANY_GROUPS:
        return None
    return (
        f"The model has {len(groups.own):,} groups ({', '.join(groups.names)}), and one decision over all of them adds "
        "up what the proxy leaves of each: pma.GroupMH() lets each decide on its own rows."
    )
