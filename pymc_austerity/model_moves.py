"""How a proposal gets to know the model that it moves in."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

from pymc_austerity.effects import Effects
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.preparation import Prepared
from pymc_austerity.proposals import Proposal
from pymc_austerity.surrogate import Surrogate


class Setting(NamedTuple):
    """What a step tells such a proposal when it is built.

    Attributes
    ----------
    likelihood : RowLikelihood
        The graphs of the model, and where each variable sits in θ.
    prepared : Prepared or None
        The proxy, where there is one, with moves tuned on its surrogate.
    best_rate : float
        Acceptance rate of the test for a proposal as likely as the present point: the most that tuning can aim at.
    compile_kwargs : dict
        For functions that compiled code calls.
    surrogate : Surrogate or None
        Exact prior times proxy, compiled; where there is a proxy.
    """

    likelihood: RowLikelihood
    prepared: Prepared | None
    best_rate: float
    compile_kwargs: dict[str, Any]
    surrogate: Surrogate | None = None


@runtime_checkable
class ModelProposal(Protocol):
    """A proposal that needs the graphs of a model, or the names and shapes of its variables."""

    def for_model(self, setting: Setting) -> Proposal:
        """Return the proposal for one model.

        Raises
        ------
        ValueError
            For variables that it cannot move.
        """
        ...


@runtime_checkable
class EffectProposal(ModelProposal, Protocol):
    """A proposal for variables of which the rows read only a function, in whose space a proxy is built."""

    def effects(self, likelihood: RowLikelihood) -> Effects:
        """Return that function, and the model in its terms.

        Raises
        ------
        ValueError
            For variables that the proposal cannot move.
        """
        ...
