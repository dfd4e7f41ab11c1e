"""How a step comes to move the groups of a model by themselves, and what it says where it cannot."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from pymc.blocking import PointType
from pymc.model import Model
from pytensor.gradient import NullTypeGradError
from pytensor.graph.basic import Variable
from pytensor.graph.utils import MethodNotDefined

from pymc_austerity.acceptance import AcceptanceTest
from pymc_austerity.cholesky import NoFactorError
from pymc_austerity.groups import (
    GroupDecider,
    GroupModeError,
    Groups,
    GroupsNotFoundError,
    LearnAnew,
    ModelWithGroups,
    NoGroupsError,
    ProductOfEffectsError,
    are_columns,
    as_one_set,
    assemble_groups,
    read_groups,
)
from pymc_austerity.likelihood import ModelData, check_rows, read_model
from pymc_austerity.progress import Phases
from pymc_austerity.tried_setup import once
from pymc_austerity.unsupported_model import UnsupportedModelError

_log = logging.getLogger("pymc_austerity")

#: Groups from which on steps move them by themselves, unless told otherwise: where they learn from each other, and
#: where each has a prior of its own; docs/groups.md has the table.
LEAST_GROUPS, _LEAST_APART = 2, 200
#: Terms of rows that set-up may evaluate for fewer groups than `_LEAST_APART`: about a minute and a half.
_MOST_EVALUATED = 200_000_000
#: Groups from which on a step says that one decision over all of them adds up what the proxy leaves of each.
_MANY_GROUPS = 100
#: Share of the groups that are far from normal, above which a user should know.
_MOST_BENT = 0.5
#: Above so many shared parameters their covariance is learnt too slowly, and the numbers of each group are too many.
_MOST_SHARED = 200
#: From so many effects on that depend on each other the parameters of their prior move slowly.
_MANY_TIED = 12
#: From so many on the law of what is shared is hard to learn, where the rows do not tell it, and beside columns: at 42
#: one draw in six is effective for the slowest scale of a horseshoe, at 102 one in twenty.
_MANY_SHARED, _MANY_BESIDE_COLUMNS = 10, 60


@dataclass(frozen=True)
class GroupPlan:
    """How a step moves groups, where the model has them."""

    test: AcceptanceTest | None  # of the move that carries all groups; None for the one that is found best
    share: float | None = None  # of the groups that move by themselves in a draw; None for what pays
    required: bool = False  # whether a model without groups is an error

    def find(
        self,
        model: Model,
        data: ModelData,
        observed: str | Sequence[str] | None,
        initial_point: PointType | None,
        name: str,
    ) -> ModelWithGroups | None:
        """Return the model as its groups are moved; None, and the reason in the log, where one decision is made."""
        least = 0 if self.required else LEAST_GROUPS
        try:
            found = _read(model, data, least, observed, initial_point)
            if found is not None:
                _require_movable(found.groups, model.value_vars)
                if found.data.likelihood.n_rows > data.likelihood.n_rows:
                    _log.info(f"All {found.data.likelihood.n_rows:,} rows are read group by group, short sets too.")
            elif data.one_entry_a_row is not None:
                raise data.one_entry_a_row
            return found
        except UnsupportedModelError as error:
            if self.required or isinstance(error, ProductOfEffectsError):
                raise
            if data.one_entry_a_row is not None:
                raise data.one_entry_a_row from error
            if not isinstance(error, NoGroupsError):
                say_one_decision(name, error)
            return None

    def assemble(
        self, found: ModelWithGroups, compile_kwargs: dict[str, Any] | None, phases: Phases
    ) -> tuple[GroupDecider, LearnAnew]:
        """Compile the moves of groups, and return what learns them anew; refuse rows that cannot be expanded."""
        try:
            check = partial(check_rows, found.model)
            return assemble_groups(self.test, self.share, compile_kwargs, phases, check, found.data, found.groups)
        except (GroupModeError, NoFactorError, np.linalg.LinAlgError) as error:
            raise UnsupportedModelError(
                f"The rows of {', '.join(found.groups.names)} cannot be expanded group by group: "
                f"{str(error).rstrip('.')}. Standardise covariates, give another initial_point=, or sample with "
                "pm.NUTS."
            ) from error
        except (NotImplementedError, NullTypeGradError, MethodNotDefined) as error:
            raise UnsupportedModelError(
                f"PyTensor has no second derivatives of the rows of {', '.join(found.groups.names)}: {error!r}. Sample "
                "with pm.NUTS."
            ) from error


def say_one_decision(name: str, error: UnsupportedModelError) -> None:
    """Say why a step does not move groups by themselves."""
    _log.info(f"{name} makes one decision over all parameters, as groups cannot be moved by themselves: {error}")


def warn_of_few_draws(decider: GroupDecider, name: str, replaced: Sequence[str]) -> None:
    """Warn where chains will, or may, have few effective draws.

    `name` is that of the step, and `replaced` those of the variables in whose places effects stand.
    """
    bent = int((decider.prepared.tails.number >= 0).sum())
    groups = decider.model.groups
    lengths = {
        b.name: np.isin(np.arange(b.start, b.stop), groups.shared).sum() for b in decider.model.likelihood.blocks
    }
    tied = [effects for effects in replaced if lengths.get(effects, 0) >= _MANY_TIED]
    n_groups = len(groups.own)
    if far := decider.prepared.far_from_quadratic:
        _log.warning(
            f"The rows are far from quadratic in {', '.join(far)} over the width of the posterior: {name} will have "
            "few effective draws of it. Give it a narrower prior where more is known of it, or sample with pm.NUTS."
        )
    elif groups.too_many_to_sum:
        _log.warning(
            f"Rows read several of the {n_groups:,} effects of {', '.join(groups.names)}, which sum to zero: so many "
            f"are not moved by their joint precision, and {name} will have few effective draws of them. Write "
            "pm.Normal in place of pm.ZeroSumNormal: differences have the same law, and it is moved by turns."
        )
    elif tied:
        _log.warning(
            f"The effects {', '.join(tied)} are moved with what groups share: their prior is not normal with a "
            f"precision made of a few matrices. {name} may have few effective draws of the parameters of that prior. "
            "Write a pm.gp.Latent as pm.gp.HSGP, or sample with pm.NUTS."
        )
    elif bent > _MOST_BENT * n_groups:
        _log.warning(
            f"{bent:,} of the {n_groups:,} groups of {', '.join(groups.names)} are far from normal given what "
            f"they share, as the logarithm of a rate without events is, and what they share may have few effective "
            f"draws with {name}. Look at pma.reliability after a short run; where it does not trust the draws, sample "
            "with pm.NUTS."
        )
    elif decider.prepared.rough and groups.shared.size >= _MANY_SHARED:
        _log.warning(
            f"The {groups.shared.size} parameters that the groups of {', '.join(groups.names)} share, and some of the "
            f"effects, may have few effective draws with {name}: each group has few rows for its {groups.own.shape[1]} "
            "parameters, so that its law is not normal, and the law of what is shared has to be learnt while tuning. "
            "Look at pma.reliability after a short run; where it does not trust the draws, sample with pm.NUTS."
        )
    elif are_columns(groups.first).any() and groups.shared.size >= _MANY_BESIDE_COLUMNS:
        _log.warning(
            f"The {groups.shared.size} parameters beside {', '.join(groups.names)}, among them scales of coefficients, "
            f"may have few effective draws with {name}, some in a hundred. Take more draws than usual, and look at "
            "pma.reliability."
        )


def hint_at_groups(model: Model, data: ModelData, name: str, because: str) -> None:
    """Say that a model has many groups, to who makes one decision over all of them."""
    try:
        found = _read(model, data, _MANY_GROUPS)
    except UnsupportedModelError:
        return
    if found is not None:
        _log.info(
            f"{name} makes one decision over all parameters{because}, and the model has {len(found.groups.own):,} "
            f"groups ({', '.join(found.groups.names)}): what the proxy leaves of each adds up. pma.GroupMH() lets each "
            "decide on its own rows."
        )


def groups_that_pay(model: Model) -> Groups | None:
    """Return the groups that steps move by themselves by default; None where there are none."""
    try:
        # As GroupMH reads it, which is tried next.
        data = read_model(model, model.value_vars, None, None, number_rows=True, join=True)
        found = _read(model, data, LEAST_GROUPS)
        if found is None:
            return None
        _require_movable(found.groups, model.value_vars)
        return found.groups
    except UnsupportedModelError:
        return None


def describe_groups(groups: Groups) -> str:
    """Return how many groups there are by each factor, and what is shared."""
    numbers = zip(np.diff(groups.first).tolist(), groups.size[groups.first[:-1]].tolist(), strict=True)
    factors = [
        f"{size} coefficients of columns" if n == 1 else f"{n:,} groups with {size} parameter{'s' * (size > 1)} each"
        for n, size in numbers
    ]
    shared = groups.shared.size
    return f"{', '.join(factors)} ({', '.join(groups.names)}) and {shared} shared parameter{'s' * (shared > 1)}"


def _read(
    model: Model,
    data: ModelData,
    least: int,
    observed: str | Sequence[str] | None = None,
    initial_point: PointType | None = None,
) -> ModelWithGroups | None:
    """Return a model as its groups are moved, or None for fewer than `least` of them or rows that cannot be united.

    Raises GroupsNotFoundError where groups cannot be shown to be independent given the rest.
    """
    lengths = [b.shape[0] for b in data.likelihood.blocks if b.shape]
    if max(lengths, default=0) < least:
        return None
    if least and as_one_set(model, data, observed) is None:
        return None
    by = (observed, initial_point, data)
    found = once("groups", (model, *by), lambda: read_groups(model, *by))
    n_groups, read, n_rows = len(found.groups.own), found.groups.read.size, found.data.likelihood.n_rows
    if not least or n_groups >= max(least, _LEAST_APART):
        return found
    if max(n_groups, found.groups.size.max()) < least or not found.groups.pooled:
        return None
    if read * (read + 1) / 2 * n_rows > _MOST_EVALUATED:
        raise GroupsNotFoundError(
            f"rows read {read} parameters beside those of the {n_groups} groups of {found.groups.names}, and to expand "
            f"{n_rows:,} rows in each two of them takes long. pma.GroupMH() does so all the same."
        )
    return found


def _require_movable(groups: Groups, variables: Sequence[Variable]) -> None:
    """Refuse groups that do not go with the moves."""
    discrete = [v.name for v in variables if np.dtype(v.type.dtype).kind != "f"]
    if discrete:
        raise UnsupportedModelError(
            f"{discrete} is discrete, and moves of groups expand the rows in all variables. Sum discrete variables out "
            "(pm.Mixture), or use ExactMH."
        )
    if groups.shared.size > _MOST_SHARED:
        raise GroupsNotFoundError(
            f"{groups.shared.size} parameters are not those of the {len(groups.own):,} groups of {groups.names}, "
            f"and at most {_MOST_SHARED} can be moved together. Sample with pm.NUTS, or PenaltyMH where there "
            "are few groups."
        )
    if groups.shared.size == 0:
        raise GroupsNotFoundError(
            f"All parameters of the model are those of the groups of {groups.names}: there is nothing to move them "
            "with. Give their prior a mean or a scale that is estimated, or use PenaltyMH."
        )
