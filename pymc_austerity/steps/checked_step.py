"""What all steps of this package have in common: what they are given is checked before PyMC takes it up."""

from __future__ import annotations

from inspect import signature
from typing import Any

from pymc.step_methods.compound import BlockedStep

from pymc_austerity.argument_kinds import check_arguments
from pymc_austerity.compat import ChainSetup
from pymc_austerity.steps.data_of_step import FollowsData
from pymc_austerity.steps.process import OneThread
from pymc_austerity.user_input import check_names, check_seed, model_of, variables_of


class CheckedStep(OneThread, FollowsData, ChainSetup, BlockedStep):
    """A step method of this package.

    Raises
    ------
    TypeError, ValueError
        When it is built outside of a model, or for what are no free variables of it.
    """

    default_blocked = True

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Check model, variables, and names of arguments."""
        parameters = signature(cls.__init__).parameters
        names = list(parameters)[1:]
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):  # which a subclass hands on
            of_moves = "What tuning aims at, and everything else about the moves, belongs to the proposal=."
            check_names(cls.__name__, kwargs, names, of_moves if "proposal" in names else "")
        annotations = {n: p.annotation for n, p in parameters.items() if n not in ("vars", "observed")}  # checked below
        check_arguments(cls.__name__, kwargs, annotations)
        check_seed(kwargs.get("rng"), cls.__name__)
        kwargs["model"] = model = model_of(kwargs.get("model"), cls.__name__)
        given = kwargs.get("vars", args[0] if args and names[0] == "vars" else None)
        variables_of(model.value_vars if given is None else given, model, cls.__name__)
        return super().__new__(cls, *args, **kwargs)
