"""The interface of a proposal: it returns θ′ and log q(θ|θ′) − log q(θ′|θ)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from pymc_austerity.compile.by_address import Reached
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.proxy import Prepared, SelectedCoefficients, Surrogate

#: ``adapt(state, theta, accepted)`` changes the state in place after a decision that led to θ.
Adapt = Callable[..., None]
#: ``propose(rng, theta, state, surroundings)``: θ′, log q(θ|θ′) − log q(θ′|θ), and how many rows were read: the one
#: compiled signature of all proposals.  For one that reads rows the ratio is that for the rows which were read: given
#: them, the move back must be possible with these same rows.
Propose = Callable[..., tuple[np.ndarray, float, int]]


@njit
def adapt_nothing(state, theta, accepted):  # type: ignore[no-untyped-def]
    """Do nothing."""


def log_scale_of(state: Any) -> tuple[np.ndarray, ...]:
    """Return the scale, all that tuning changes."""
    return (state.log_scale,)


@dataclass(frozen=True, eq=False)
class Move:
    """A proposal for one model, compiled."""

    propose: Propose
    adapt: Adapt
    #: ``make_state(theta, discrete, n_rows)``: the state at the start of a chain, for θ of shape (D,), which of its
    #: entries are whole numbers, and the number of rows: a named tuple of arrays, with a ``log_scale`` of shape (1,).
    make_state: Callable[[np.ndarray, np.ndarray, int], Any]
    #: ``tuned(state)``: the arrays of a state that tuning changes and `propose` reads.  They are recorded when tuning
    #: ends, and written over those of a fresh state to propose as the chain did.
    tuned: Callable[[Any], tuple[np.ndarray, ...]] = log_scale_of
    reads_rows: bool = False  # whether it reads rows of its own
    #: Functions of the model that `propose` finds by their addresses, by the name that these have in `Links`.
    reached: Mapping[str, Reached] = field(default_factory=dict)


class Target(NamedTuple):
    """The model that a proposal moves in."""

    likelihood: RowLikelihood  # the graphs of the model, and where each variable sits in θ
    prepared: Prepared | None  # the proxy, where there is one, with moves tuned on its surrogate
    #: Acceptance rate of the test for a proposal as likely as the present point: the most that tuning can aim at.
    best_rate: float
    compile_kwargs: dict[str, Any]  # for functions that compiled code calls
    surrogate: Surrogate | None = None  # exact prior times proxy, compiled; where there is a proxy
    fixed: tuple[np.ndarray, ...] = ()  # shared variables that are not indexed by row, as they are now


@runtime_checkable
class Proposal(Protocol):
    """The interface of a proposal; a class that inherits from this one has the defaults below."""

    needs_proxy: ClassVar[bool] = False  # whether it moves on the surrogate that a proxy defines
    no_proxy_because: ClassVar[str] = ""  # why there is no proxy for the variables that it moves; empty where there is
    reads_rows: ClassVar[bool] = False  # whether it reads rows of its own at every draw
    #: Whether the rows read only a function of θ, in whose space a proxy is then built: see `selected`.
    selects_coefficients: ClassVar[bool] = False

    def for_model(self, target: Target) -> Move:
        """Return the proposal for one model, or raise a ValueError for variables that it cannot move."""

    def selected(self, likelihood: RowLikelihood) -> SelectedCoefficients:
        """Return the function of θ that the rows read, and the model in its terms, where `selects_coefficients`.

        Raises ValueError for variables that it cannot move.
        """
        raise ValueError(f"{self!r} knows of nothing less than θ that the rows read.")
