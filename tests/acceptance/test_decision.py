"""What a batch of row terms says by itself: go on, or stop at a row."""

import numpy as np
import pytest

from pymc_austerity.acceptance.decision import (
    ACCEPT,
    BAD_BOUND,
    BAD_PRIOR,
    BAD_ROW,
    DECIDED,
    REJECT,
    UNDECIDED,
    examine,
)

NUMBERS = np.array([40, 10, 30, 20])
OLD = np.array([1.0, -2.0, 3.0, 0.5])


def examined(new=OLD, old=OLD, limit=np.inf):
    return examine(NUMBERS, new, old, new.sum(), old.sum(), limit)


def test_names_of_outcomes_are_told_apart():
    assert len({DECIDED, BAD_PRIOR, BAD_ROW, BAD_BOUND}) == 4
    assert len({UNDECIDED, REJECT, ACCEPT}) == 3
    # Sums of verdicts count acceptances.
    assert (REJECT, ACCEPT) == (0, 1)


def test_finite_rows_within_their_bound_settle_nothing():
    assert examined() == (DECIDED, False, -1)
    assert examined(new=OLD + 0.5, limit=0.5) == (DECIDED, False, -1)


@pytest.mark.parametrize("bad", [-np.inf, np.inf, np.nan])
def test_an_impossible_row_at_the_present_point_is_named(bad):
    old = np.where(NUMBERS == 10, bad, OLD)
    assert examined(old=old) == (BAD_ROW, True, 10)
    assert examined(new=old, old=old) == (BAD_ROW, True, 10)


def test_an_impossible_row_at_the_proposal_settles_the_decision():
    assert examined(new=np.where(NUMBERS == 30, -np.inf, OLD), limit=0.1) == (DECIDED, True, -1)


@pytest.mark.parametrize("change", [0.6, -0.6])
def test_a_row_that_breaks_its_bound_is_named(change):
    assert examined(new=OLD + np.where(NUMBERS == 20, change, 0.1), limit=0.5) == (BAD_BOUND, True, 20)
    assert examined(new=OLD + np.where(NUMBERS == 20, change, 0.1)) == (DECIDED, False, -1)
