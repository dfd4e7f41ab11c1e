"""What all steps of this package have in common: arguments are checked before PyMC takes them up, and data followed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np
from pymc.exceptions import SamplingError
from pymc.model import Model
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.step_methods.state import WithSamplingState

from pymc_austerity.argument_kinds import check_arguments, with_whole_numbers
from pymc_austerity.compat import ChainSetup
from pymc_austerity.diagnostics.same_data import DATA_DIGEST, MODEL_DIGEST
from pymc_austerity.likelihood import ModelData
from pymc_austerity.likelihood.model_arrays import ModelKey
from pymc_austerity.parent_process import end_with_parent
from pymc_austerity.steps.draw_statistics import METHOD, progress_columns, progress_fields
from pymc_austerity.steps.process import in_worker
from pymc_austerity.user_input import bound, check_names, check_seed, model_of, variables_of

_log = logging.getLogger("pymc_austerity")


class CheckedStep(ChainSetup, BlockedStep):
    """A step method of this package, which holds the state of one chain.

    It learns anew where ``pm.set_data`` changed its data, and refuses states that belong to other data.
    """

    default_blocked = True
    model_key: ModelKey  # the model and the data that the step has learnt from
    known_data: ModelData | None  # None in a process that samples
    _thread: int | None = None  # that of the chain
    _replaced: frozenset[int | None] = frozenset()  # threads whose chains were replaced by one that another began

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let a step have as an int what was given as a whole number of another type."""
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = _of_whole_numbers(cls.__init__)  # type: ignore[method-assign]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Check model, variables, and names of arguments."""
        described = signature(cls.__init__)
        parameters = described.parameters
        names = list(parameters)[1:]
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):  # which a subclass hands on
            of_moves = "What tuning aims at, and everything else about the moves, belongs to the proposal=."
            check_names(cls.__name__, kwargs, names, of_moves if "proposal" in names else "")
        bound(cls.__name__, described, (None, *args), kwargs)
        annotations = {n: p.annotation for n, p in parameters.items() if n not in ("vars", "observed")}  # checked below
        check_arguments(cls.__name__, kwargs, annotations)
        check_seed(kwargs.get("rng"), cls.__name__)
        given = kwargs.get("vars", args[0] if args and names[0] == "vars" else None)
        if isinstance(given, Model):  # in the place of the variables, which `variables_of` refuses
            kwargs.setdefault("model", given)
        kwargs["model"] = model = model_of(kwargs.get("model"), cls.__name__)
        variables_of(model.value_vars if given is None else given, model, cls.__name__)
        return super().__new__(cls, *args, **kwargs)

    def watch_data(self, data: ModelData) -> None:
        """Note which data the step has learnt from."""
        self.known_data, self.model_key = data, data.key

    def start_chain(self, rng: np.random.Generator) -> None:
        """Forget the previous chain: same generator, same draws, whatever ran before in this process."""
        if in_worker():  # draws are kept by the program: there is nothing to save here
            end_with_parent()
        here = threading.get_ident()
        self._replaced, self._thread = (self._replaced | {self._thread}) - {here}, here
        self.follow_data()
        self.rng = rng

    def check_thread(self) -> None:
        """Refuse a draw, by a SamplingError, where another thread has begun a chain since."""
        if threading.get_ident() in self._replaced:
            raise SamplingError(
                f"Another thread has begun to sample with this {type(self).__name__}, which holds the state of one "
                "chain, so the chain of this thread cannot go on. Build a step for each thread."
            )

    def learn(self, data: ModelData) -> None:
        """Learn from other data of the same model."""
        raise NotImplementedError

    def follow_data(self) -> None:
        """Learn anew where the data have changed; raise a ValueError for an array that was changed in place."""
        try:
            changed = self.known_data and self.known_data.changed()
        except ValueError as error:
            if in_worker():  # what PyMC raises begins with words of its own
                _log.error(error)
            raise
        if changed:
            self.learn(changed)
            self.watch_data(changed)

    def _follow_set_data(self) -> None:
        """Do so where other arrays were put into the model, without looking into those that are there."""
        if self.known_data is not None and self.known_data.was_replaced():
            self.follow_data()

    @property
    def method(self) -> str:
        """The names of the step and of what moves its variables."""
        return type(self).__name__

    @property
    def of_its_origin(self) -> dict[str, Any]:
        """The statistics `OF_ITS_ORIGIN`."""
        return {METHOD: self.method.encode(), MODEL_DIGEST: self.model_key.model, DATA_DIGEST: self.model_key.data}

    @property
    def sampling_state(self) -> StepMethodState:
        """What a chain needs to go on where it stopped."""
        self._follow_set_data()  # PyMC takes the state before the first chain, and puts it back before each
        state: StepMethodState = super().sampling_state
        return state

    @sampling_state.setter
    def sampling_state(self, state: StepMethodState) -> None:
        """Go on from a state; raise a ValueError for one of another model, or of other data."""
        self._follow_set_data()
        found = getattr(state, "model_key", self.model_key)
        if found != self.model_key:
            what = "other data" if found[0] == self.model_key.model else "another model"
            raise ValueError(
                f"sampling_state: this state is of a chain on {what} than the step has. Its position and what it was "
                "tuned to do not belong to this posterior. Set the data back by pm.set_data, or start a new chain."
            )
        WithSamplingState.sampling_state.fset(self, state)

    def _progressbar_config(self, n_chains: int = 1) -> Any:
        return progress_columns(n_chains)

    def _make_progressbar_update_functions(self) -> Any:
        return (progress_fields,)


def _of_whole_numbers(init: Callable[..., None]) -> Callable[..., None]:
    annotations = {name: p.annotation for name, p in signature(init).parameters.items()}

    @wraps(init)
    def converted(self: CheckedStep, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **with_whole_numbers(kwargs, annotations))

    return converted
