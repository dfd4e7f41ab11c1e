"""The arguments that every step takes, written once and shown in every signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypedDict, TypeVar

from pymc.blocking import PointType
from pymc.model import Model
from pymc.util import RandomGenerator

from pymc_austerity.kernel import Schedule
from pymc_austerity.proposals import Proposal
from pymc_austerity.rows import Uniform, Weighted
from pymc_austerity.steps.defaults import ProxyChoice
from pymc_austerity.steps.row_step import RowStep

Step = TypeVar("Step", bound=type[RowStep])


class StepOptions(TypedDict, total=False):
    """What a step hands on to `RowStep`; described in `ApproxMH`."""

    proposal: Proposal | None
    proxy: ProxyChoice
    rows: Uniform | Weighted | None
    observed: str | Sequence[str] | None
    temperature: float | Schedule
    tune: bool
    model: Model | None
    rng: RandomGenerator
    initial_point: PointType | None
    compile_kwargs: dict[str, Any] | None
    blocked: bool


def shows_options(step: Step) -> Step:
    """Replace ``**options`` in the signature of a step by the arguments that it stands for, and refuse others."""
    init: Callable[..., None] = step.__init__
    own = [p for p in inspect.signature(init).parameters.values() if p.kind is not p.VAR_KEYWORD]
    every = inspect.signature(RowStep.__init__).parameters
    options = [every[name] for name in StepOptions.__annotations__]
    signature = inspect.Signature([*own, *options])
    names = list(signature.parameters)[1:]

    @wraps(init)
    def checked(self: RowStep, *args: Any, **kwargs: Any) -> None:
        if unknown := [name for name in kwargs if name not in names]:
            raise TypeError(
                f"{step.__name__} has no argument {unknown[0]}=. Leave it out, or choose from {', '.join(names)}. What "
                "tuning aims at, and everything else about the moves, belongs to the proposal=."
            )
        init(self, *args, **kwargs)

    checked.__signature__ = signature  # type: ignore[attr-defined]
    step.__init__ = checked  # type: ignore[method-assign]
    return step
