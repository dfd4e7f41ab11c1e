"""What a step learnt holds for the data that it was learnt from: followed, or refused, when they change."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import WithSamplingState

from pymc_austerity.diagnostics import DATA_DIGEST, MODEL_DIGEST
from pymc_austerity.likelihood import ModelData, ModelKey
from pymc_austerity.steps.process import in_worker

_log = logging.getLogger("pymc_austerity")

#: Statistics of a draw that say which model and which data it belongs to.
OF_ITS_DATA: dict[str, Any] = {MODEL_DIGEST: (np.int64, []), DATA_DIGEST: (np.int64, [])}


class FollowsData:
    """Lets a step learn anew where ``pm.set_data`` changed its data, and refuse states that belong to other data.

    Attributes
    ----------
    model_key : ModelKey
        The model and the data that the step has learnt from.
    """

    _data: ModelData | None
    model_key: ModelKey

    def watch_data(self, data: ModelData) -> None:
        """Note which data the step has learnt from."""
        self._data, self.model_key = data, data.key

    def learn(self, data: ModelData) -> None:
        """Learn from other data of the same model."""
        raise NotImplementedError

    def follow_data(self) -> None:
        """Learn anew where the data have changed; in another process than the model's there is nothing to see.

        Raises
        ------
        ValueError
            For an array that was changed in place, and for data that do not go with the model.
        """
        try:
            changed = self._data and self._data.changed()
        except ValueError as error:
            if in_worker():  # what PyMC raises begins with words of its own
                _log.error(error)
            raise
        if changed:
            self.learn(changed)
            self.watch_data(changed)

    def _follow_set_data(self) -> None:
        """Do so where other arrays were put into the model, without looking into those that are there."""
        if self._data is not None and self._data.was_replaced():
            self.follow_data()

    @property
    def of_its_data(self) -> dict[str, int]:
        """The statistics `OF_ITS_DATA`."""
        return {MODEL_DIGEST: self.model_key.model, DATA_DIGEST: self.model_key.data}

    @property
    def sampling_state(self) -> StepMethodState:
        """What a chain needs to go on where it stopped."""
        self._follow_set_data()  # PyMC takes the state before the first chain, and puts it back before each
        state: StepMethodState = super().sampling_state  # type: ignore[misc]
        return state

    @sampling_state.setter
    def sampling_state(self, state: StepMethodState) -> None:
        """Go on from a state.

        Raises
        ------
        ValueError
            For a state of another model, or of other data.
        """
        self._follow_set_data()
        found = getattr(state, "model_key", self.model_key)
        if found != self.model_key:
            what = "other data" if found[0] == self.model_key.model else "another model"
            raise ValueError(
                f"sampling_state: this state is of a chain on {what} than the step has. Its position and what it was "
                "tuned to do not belong to this posterior. Set the data back by pm.set_data, or start a new chain."
            )
        WithSamplingState.sampling_state.fset(self, state)
