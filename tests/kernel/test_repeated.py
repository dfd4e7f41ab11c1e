"""The loop over transitions is the same code for all that take the same types, and calls with no other types."""

from typing import NamedTuple

import numpy as np
import pytest
from compilations import compilations
from numba import njit

from pymc_austerity.acceptance import DECIDED
from pymc_austerity.kernel.repeated import RepeatedTransition
from pymc_austerity.kernel.transition import Outcome, TransitionArguments
from pymc_austerity.likelihood import Surroundings


class State(NamedTuple):
    log_scale: np.ndarray


def adding(step, row=-1):
    """A transition that adds a number to θ, and reads as many rows as the first entry of the data says."""

    @njit
    def transition(theta, generators, given):
        around = given.surroundings
        return Outcome(theta + step, DECIDED, True, int(around.arrays[0][0]), 1, 0.0, 0.0, row, False, 1.0)[:]

    return transition


def run(repeated, array, n_draws=3, n_transitions=2):
    """θ after each draw, and the rows that were read."""
    around = Surroundings(np.empty(0), (), (array,), 1.0, ())
    given = TransitionArguments(around, (), State(np.zeros(1)), (), ())
    thetas, numbers = repeated(n_draws, n_transitions, np.zeros(2), (), given)
    return thetas[:, 0].tolist(), numbers[:, 2].tolist()


def test_draws_count_the_rows_of_their_transitions():
    assert run(RepeatedTransition(adding(0.5)), np.full(3, 7.0)) == ([1.0, 2.0, 3.0], [14.0] * 3)


def test_another_transition_of_such_arguments_shares_the_loop(nothing_on_disk):
    first, second, array = RepeatedTransition(adding(0.5)), RepeatedTransition(adding(2.0)), np.full(3, 7.0)
    run(first, array)
    with compilations() as names:
        assert run(second, array)[0] == [4.0, 8.0, 12.0]
    assert "transition" in names
    assert "repeated" not in names
    assert run(first, array)[0] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "other", [np.full(3, 7), np.full((3, 1), 7.0)[:, 0], np.full(6, 7.0)[::2], np.full(3, 7.0, "f4")]
)
def test_data_of_other_types_are_read_for_what_they_are(other):
    repeated = RepeatedTransition(adding(0.5))
    for array in (np.full(3, 8.0), other, np.full(3, 8.0), other):
        assert run(repeated, array)[1] == [2 * float(array[0])] * 3


def test_a_transition_that_returns_other_types_is_refused():
    with pytest.raises(TypeError, match="A transition returned"):
        run(RepeatedTransition(adding(0.5, row=1.5)), np.full(3, 7.0))
