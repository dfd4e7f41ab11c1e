"""Steps that leave a model with many groups to `GroupMH`, with their own test, unless they are told how to move."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from pymc.model import Model

from pymc_austerity.acceptance import AcceptanceTest
from pymc_austerity.groups import Groups
from pymc_austerity.steps.group_mh import MOST_SHARED, GroupMH
from pymc_austerity.steps.many_groups import find_many_groups
from pymc_austerity.steps.row_step import RowStep
from pymc_austerity.unsupported_model import UnsupportedModelError
from pymc_austerity.user_input import model_of

_log = logging.getLogger("pymc_austerity")

Step = TypeVar("Step", bound=type[RowStep])

#: From so many groups on; docs/groups.md has the table.
_PAYS = 200
#: Arguments that `GroupMH` takes as well.
_COMMON = ("observed", "tune", "model", "rng", "initial_point", "compile_kwargs", "blocked", "progressbar")


def leaves_groups(test_of: Callable[..., AcceptanceTest | None]) -> Callable[[Step], Step]:
    """Let a step make a `GroupMH` in its place where a model has many groups and nothing but its test was chosen.

    Parameters
    ----------
    test_of : callable
        From the arguments that are the step's own, those that were given, to the test; None for a test that is not for
        groups.
    """

    def decorate(step: Step) -> Step:
        defaults = {name: p.default for name, p in inspect.signature(step.__init__).parameters.items()}
        own = inspect.signature(test_of).parameters
        inherited: Callable[..., Any] = step.__new__

        def new(cls: type[RowStep], *args: Any, **kwargs: Any) -> Any:
            given = {name: v for name, v in kwargs.items() if name not in defaults or v is not defaults[name]}
            if cls is step and not args and given.keys() <= {*own, *_COMMON}:
                common = {name: given.pop(name) for name in _COMMON if name in given}
                if (made := _moving_groups(cls.__name__, partial(test_of, **given), common)) is not None:
                    return made
            return inherited(cls, *args, **kwargs)

        # What Python and the documentation show as the signature of a class is that of the nearer of the two.
        new.__signature__ = inspect.signature(step.__init__)  # type: ignore[attr-defined]
        step.__new__ = new  # type: ignore[method-assign]
        return step

    return decorate


def groups_that_pay(model: Model) -> Groups | None:
    """Return the groups that are moved by themselves by default, or None where there are too few.

    Raises
    ------
    GroupsNotFoundError
        As in `find_many_groups`.
    """
    if len(model.observed_RVs) > 1:  # of several outcomes `GroupMH` reads the rows of one, and all of the others
        return None
    groups = find_many_groups(model, _PAYS)
    return groups if groups is not None and 0 < groups.shared.size <= MOST_SHARED else None


def _moving_groups(name: str, test_of: Callable[[], AcceptanceTest | None], common: dict[str, Any]) -> GroupMH | None:
    try:
        groups = groups_that_pay(model_of(common.get("model"), name))
        if groups is None or (test := test_of()) is None:
            return None
        found = f"{len(groups.own):,} groups ({', '.join(groups.names)})"
        _log.info(
            f"{name} finds {found} and lets each decide on its own rows, as pma.GroupMH() does. "
            "Give it a proposal= for one decision over all of them."
        )
        return GroupMH(test=test, **common)
    except UnsupportedModelError as error:  # groups that are not independent, or a model without a centre
        _log.info(f"{name} makes one decision over all parameters, as groups cannot be moved by themselves: {error}")
        return None
