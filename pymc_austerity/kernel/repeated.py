"""Several draws of several transitions each in one compiled call, compiled once for transitions of the same types."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
from numba import TypingError, typeof, types

from pymc_austerity.acceptance import DECIDED
from pymc_austerity.compile.by_address import Reached, call_at, reach, returned_by
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.kernel.transition import Outcome, Transition, TransitionArguments
from pymc_austerity.likelihood import VECTOR

#: The name of the statistic that says how many transitions made a draw.
TRANSITIONS = "n_transitions"
#: Numbers of a draw: the fields of an `Outcome` after θ, in their order, and the logarithm of the proposal's scale.
_NUMBERS = len(Outcome._fields)
_INT, _FLOAT, _BOOL = types.int64, types.float64, types.boolean
#: What a transition returns: the fields of an `Outcome`.
_FIELDS = types.Tuple((VECTOR, _INT, _BOOL, _INT, _INT, _FLOAT, _FLOAT, _INT, _BOOL, _FLOAT))


class RepeatedTransition:
    """Draws of several transitions, compiled when they are first asked for, and again for arguments of other types."""

    def __init__(self, transition: Transition) -> None:
        self._transition = transition
        self._ready: tuple[Callable[..., Any], Reached] | None = None

    def __call__(
        self, n_draws: int, n_transitions: int, theta: np.ndarray, generators: Any, given: TransitionArguments
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return θ after each draw and its numbers, of fewer draws where one was not DECIDED.

        The numbers are the other fields of an `Outcome` and the logarithm of the scale of the proposal.
        """
        if self._ready is not None:
            loop, reached = self._ready
            with suppress(TypingError, NotImplementedError):  # for arguments of other types
                return loop(reached.address, n_draws, n_transitions, theta, generators, given)
        loop, reached = self._ready = _compiled_for(self._transition, *map(typeof, (theta, generators, given)))
        return loop(reached.address, n_draws, n_transitions, theta, generators, given)


@built_once
def _compiled_for(transition: Transition, *taken: types.Type) -> tuple[Callable[..., Any], Reached]:
    reached = reach(transition, *taken)
    returned = returned_by(reached.function, taken)
    if returned != _FIELDS:
        raise TypeError(f"A transition returned {returned}, not {_FIELDS}.")
    return build_loop(*taken), reached


@cache
def build_loop(*taken: types.Type) -> Callable[..., Any]:
    """Compile ``repeated(address, n_draws, n_transitions, ...)`` for transitions that take these types."""
    expected = types.Tuple(taken)

    @njit
    def repeated(address, n_draws, n_transitions, theta, generators, given):  # type: ignore[no-untyped-def]
        thetas, numbers = np.empty((n_draws, theta.size)), np.empty((n_draws, _NUMBERS))
        n_made, m, n_accepted, n_rows, n_stages, going = 0, 0, 0, 0, 0, True
        while going:
            last = Outcome(*call_at(address, _FIELDS, expected, (theta, generators, given)))
            theta, going = last.theta, last.status == DECIDED
            m, n_accepted = m + 1, n_accepted + int(last.accepted)
            n_rows, n_stages = n_rows + last.n_rows, n_stages + last.n_stages
            if m == n_transitions or not going:
                for k in range(theta.size):  # of two arrays numba would compile the words of an error too
                    thetas[n_made, k] = theta[k]
                found = numbers[n_made]
                found[0], found[1], found[2], found[3] = last.status, n_accepted / m, n_rows, n_stages
                found[4], found[5], found[6] = last.log_ratio, last.log_ratio_sd, last.row
                found[7], found[8], found[9] = last.full_data, last.threshold, given.state.log_scale[0]
                n_made, m, n_accepted, n_rows, n_stages = n_made + 1, 0, 0, 0, 0
                going = going and n_made < n_draws
        return thetas[:n_made], numbers[:n_made]

    return repeated
